#include "compiler/placement/placement.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "compiler/low/view_use.h"
#include "compiler/placement/lifetimes.h"

namespace low {
namespace {

struct Block {
  AllocationId id;
  uint64_t bytes = 0;  // a multiple of the alignment
  Lifetime lifetime;
  uint64_t offset = 0;
};

bool live_together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Blocks that are placed, by offset, for those who ask which of them may be live at some time.
class PlacedBlocks {
 public:
  PlacedBlocks(std::span<const Block> blocks, size_t positions)
      : blocks_(blocks), stretch_((positions + stretches - 1) / stretches), of_stretch_(stretches) {}

  // All of them that may be live during the lifetime.
  std::span<const uint32_t> during(const Lifetime& lifetime) const {
    const size_t first = lifetime.first / stretch_, last = lifetime.last / stretch_;
    return first == last ? of_stretch_[first] : all_;
  }
  void add(uint32_t block) {
    insert(all_, block);
    const Lifetime& lifetime = blocks_[block].lifetime;
    for (size_t i = lifetime.first / stretch_; i <= lifetime.last / stretch_; ++i) insert(of_stretch_[i], block);
  }

  // How many blocks during() gives in all when they are added one after the other, with what adding them moves.
  static uint64_t looks(std::span<const Block> blocks, size_t positions) {
    const size_t stretch = (positions + stretches - 1) / stretches;
    std::array<uint64_t, stretches> counts{};
    uint64_t looks = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const size_t first = blocks[i].lifetime.first / stretch, last = blocks[i].lifetime.last / stretch;
      looks += (first == last ? counts[first] : i) + i / 16;
      for (size_t j = first; j <= last; ++j) ++counts[j];
    }
    return looks;
  }

 private:
  static constexpr size_t stretches = 64;  // of positions
  void insert(std::vector<uint32_t>& list, uint32_t block) const {
    const auto offset = [this](uint32_t other) { return blocks_[other].offset; };
    list.insert(std::ranges::upper_bound(list, blocks_[block].offset, {}, offset), block);
  }

  std::span<const Block> blocks_;
  size_t stretch_;
  std::vector<uint32_t> all_;
  std::vector<std::vector<uint32_t>> of_stretch_;  // most blocks live in one only
};

// What packing may take, in looks at placed blocks: some seconds. Two thousand allocations of each of 1,472 tiles may
// all live at once.
constexpr uint64_t max_looks = uint64_t{1} << 32;

// By decreasing size, each at the lowest offset that is free during its lifetime. Returns the end of the highest block,
// or nothing, before it begins, when that takes too many looks.
std::optional<uint64_t> pack(std::vector<Block>& blocks, size_t positions, uint64_t& looks) {
  std::ranges::sort(blocks, [](const Block& a, const Block& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (a.lifetime.first != b.lifetime.first) return a.lifetime.first < b.lifetime.first;
    return a.id < b.id;
  });
  looks += PlacedBlocks::looks(blocks, positions);
  if (looks > max_looks) return std::nullopt;
  PlacedBlocks placed(blocks, positions);
  uint64_t peak = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[i];
    for (const uint32_t index : placed.during(block.lifetime)) {
      const Block& other = blocks[index];
      if (!live_together(other.lifetime, block.lifetime)) continue;
      if (other.offset >= block.offset + block.bytes) break;  // the gap before it is large enough
      block.offset = std::max(block.offset, other.offset + other.bytes);
    }
    placed.add(static_cast<uint32_t>(i));
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
  const size_t count = graph.allocations().size();
  Placement placement;
  placement.locations = Table<AllocationId, Location>(count);
  placement.lifetimes = lifetimes(graph);

  std::vector<Block> arena;
  std::vector<std::vector<Block>> tiles(machine.global_memory ? 0 : graph.tiles());
  std::vector<AllocationId> parameter_of(graph.constants().size());  // the first allocation of each constant
  for (size_t i = 0; i < count; ++i) {
    const AllocationId id(i);
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

  const size_t positions = std::max<size_t>(1, graph.supersteps().size());
  uint64_t looks = 0;
  const auto too_many = [&] {
    return fail(
        ErrorKind::unsupported,
        fmt::format(
            "placement: the program has {} allocations, which are too many to pack into the memory of machine {}",
            count, machine.name));
  };
  const std::optional<uint64_t> arena_bytes = pack(arena, positions, looks);
  if (!arena_bytes) return too_many();
  placement.arena_bytes = *arena_bytes;
  placement.lower_bound_bytes = largest_sum(arena, positions);
  for (const Block& block : arena) placement.locations[block.id].offset = block.offset;
  if (machine.global_memory && placement.arena_bytes + placement.parameter_bytes > machine.global_memory_bytes) {
    return fail(
        ErrorKind::unsupported,
        fmt::format("placement: the program needs {} bytes of global memory ({} of parameters), machine {} has {}",
                    placement.arena_bytes + placement.parameter_bytes, placement.parameter_bytes, machine.name,
                    machine.global_memory_bytes));
  }
  for (std::vector<Block>& blocks : tiles) {
    const std::optional<uint64_t> bytes = pack(blocks, positions, looks);
    if (!bytes) return too_many();
    placement.tile_bytes.push_back(*bytes);
    for (const Block& block : blocks) placement.locations[block.id].offset = block.offset;
  }
  if (const auto most = std::ranges::max_element(placement.tile_bytes);
      most != placement.tile_bytes.end() && *most > machine.tile_memory_bytes) {
    return fail(ErrorKind::unsupported,
                fmt::format("placement: the program needs {} bytes on tile {}, a tile of machine {} has {}", *most,
                            most - placement.tile_bytes.begin(), machine.name, machine.tile_memory_bytes));
  }
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
