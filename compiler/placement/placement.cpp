#include "compiler/placement/placement.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/low/view_use.h"
#include "compiler/placement/lifetimes.h"

namespace low {
namespace {

struct Block {
  AllocationId root;
  uint64_t bytes = 0;  // a multiple of the alignment
  Lifetime lifetime;
  uint64_t offset = 0;
};

bool live_together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// By decreasing size, each at the lowest offset that is free during its lifetime. Returns the end of the highest block.
uint64_t pack(std::vector<Block>& blocks) {
  std::ranges::sort(blocks, [](const Block& a, const Block& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (a.lifetime.first != b.lifetime.first) return a.lifetime.first < b.lifetime.first;
    return a.root < b.root;
  });
  std::vector<size_t> by_offset;  // of the placed blocks
  uint64_t peak = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[i];
    for (const size_t other : by_offset) {
      const Block& placed = blocks[other];
      if (!live_together(placed.lifetime, block.lifetime)) continue;
      if (placed.offset >= block.offset + block.bytes) break;  // the gap before it is large enough
      block.offset = std::max(block.offset, placed.offset + placed.bytes);
    }
    by_offset.insert(
        std::ranges::upper_bound(by_offset, block.offset, {}, [&](size_t other) { return blocks[other].offset; }), i);
    peak = std::max(peak, block.offset + block.bytes);
  }
  return peak;
}

uint64_t largest_sum(std::span<const Block> blocks, size_t positions) {
  std::vector<uint64_t> begin(positions + 1), end(positions + 1);
  for (const Block& block : blocks) {
    begin[block.lifetime.first] += block.bytes;
    end[block.lifetime.last + 1] += block.bytes;
  }
  uint64_t live = 0, largest = 0;
  for (size_t position = 0; position < positions; ++position) {
    live += begin[position];
    live -= end[position];
    largest = std::max(largest, live);
  }
  return largest;
}

std::string_view memory_name(Memory memory) {
  switch (memory) {
    case Memory::arena:
      return "arena";
    case Memory::parameters:
      return "parameters";
    case Memory::tile:
      return "tile";
  }
  return "?";
}

}  // namespace

Result<Placement> place(const TileGraph& graph, const Machine& machine) {
  if (machine.tiles != graph.tiles()) {
    return fail(ErrorKind::internal, fmt::format("placement: the graph is for {} tiles, machine {} has {}",
                                                 graph.tiles(), machine.name, machine.tiles));
  }
  const uint64_t alignment = std::max<uint64_t>(1, machine.alignment_bytes);
  const auto aligned = [&](uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  const Table<AllocationId, AllocationId> roots = storage_roots(graph);
  const size_t count = roots.size();
  Placement placement;
  placement.locations = Table<AllocationId, Location>(count);
  placement.lifetimes = lifetimes(graph);

  std::vector<Block> arena;
  std::vector<std::vector<Block>> tiles(machine.global_memory ? 0 : graph.tiles());
  std::vector<AllocationId> parameter_of(graph.constants().size());  // the first allocation of each constant
  for (size_t i = 0; i < count; ++i) {
    const AllocationId id(i);
    if (roots[id] != id) continue;
    const Allocation& allocation = graph.allocation(id);
    Block block{id, aligned(graph.storage_bytes(id)), placement.lifetimes[id]};
    if (allocation.home.valid()) {
      if (machine.global_memory) {
        return fail(
            ErrorKind::unsupported,
            fmt::format(
                "placement: allocation {} needs {} bytes of the memory of tile {}, but tiles of machine {} have "
                "no memory of their own",
                i, block.bytes, allocation.home.index, machine.name));
      }
      placement.locations[id].memory = Memory::tile;
      tiles[allocation.home.index].push_back(block);
      continue;
    }
    if (allocation.role != Role::parameter) {
      arena.push_back(block);
      continue;
    }
    AllocationId& first = parameter_of[allocation.binding];
    if (first.valid()) {
      placement.locations[id] = placement.locations[first];
      continue;
    }
    first = id;
    placement.locations[id] = {Memory::parameters, placement.parameter_bytes};
    placement.parameter_bytes += block.bytes;
  }

  placement.arena_bytes = pack(arena);
  placement.lower_bound_bytes = largest_sum(arena, std::max<size_t>(1, graph.supersteps().size()));
  for (const Block& block : arena) placement.locations[block.root].offset = block.offset;
  if (machine.global_memory && placement.arena_bytes + placement.parameter_bytes > machine.global_memory_bytes) {
    return fail(
        ErrorKind::unsupported,
        fmt::format("placement: the program needs {} bytes of global memory ({} of parameters), machine {} has {}",
                    placement.arena_bytes + placement.parameter_bytes, placement.parameter_bytes, machine.name,
                    machine.global_memory_bytes));
  }
  for (std::vector<Block>& blocks : tiles) {
    placement.tile_bytes.push_back(pack(blocks));
    for (const Block& block : blocks) placement.locations[block.root].offset = block.offset;
  }
  if (const auto most = std::ranges::max_element(placement.tile_bytes);
      most != placement.tile_bytes.end() && *most > machine.tile_memory_bytes) {
    return fail(ErrorKind::unsupported,
                fmt::format("placement: the program needs {} bytes on tile {}, a tile of machine {} has {}", *most,
                            most - placement.tile_bytes.begin(), machine.name, machine.tile_memory_bytes));
  }
  for (size_t i = 0; i < count; ++i) placement.locations[AllocationId(i)] = placement.locations[roots[AllocationId(i)]];
  return placement;
}

std::string print(const Placement& placement, const TileGraph& graph) {
  std::string out = fmt::format("low-placement 1\narena {} bytes, lower bound {} bytes\nparameters {} bytes\n",
                                placement.arena_bytes, placement.lower_bound_bytes, placement.parameter_bytes);
  for (size_t tile = 0; tile < placement.tile_bytes.size(); ++tile) {
    if (placement.tile_bytes[tile] > 0) out += fmt::format("tile {} {} bytes\n", tile, placement.tile_bytes[tile]);
  }
  for (size_t i = 0; i < placement.locations.size(); ++i) {
    const AllocationId id(i);
    const Location& location = placement.locations[id];
    out += fmt::format("allocation {} {}", i, memory_name(location.memory));
    if (location.memory == Memory::tile) out += fmt::format(" {}", graph.allocation(id).home.index);
    out += fmt::format(" offset {} bytes {} live {} to {}\n", location.offset, graph.storage_bytes(id),
                       placement.lifetimes[id].first, placement.lifetimes[id].last);
  }
  return out;
}

}  // namespace low
