#include "compiler/exchange/exchange.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/exchange/distributed_traffic.h"
#include "compiler/exchange/pulls.h"
#include "compiler/low/interner.h"

namespace low {
namespace {

// Bytes through each endpoint of a superstep, in cycles where rates differ.
struct Traffic {
  std::vector<double> tile_cycles;    // transfers at the tile's rates, without fixed costs
  std::vector<double> tile_fixed;     // fixed costs
  std::vector<double> source_cycles;  // what others ask of a tile
  double bytes = 0;                   // all

  explicit Traffic(uint32_t tiles) : tile_cycles(tiles), tile_fixed(tiles), source_cycles(tiles) {}
};

double rate(const Machine& machine, TileId tile, TileId home) {
  if (!home.valid()) return machine.across_bytes_per_cycle;
  if (home == tile) return machine.own_bytes_per_cycle;
  return machine.cluster_of(home.index) == machine.cluster_of(tile.index) ? machine.cluster_bytes_per_cycle
                                                                          : machine.across_bytes_per_cycle;
}

void add_transfer(const TileGraph& graph, const Machine& machine, TileId tile, const View& source,
                  const View& destination, const CopyDescriptor& copy, Traffic& traffic) {
  const auto elements = static_cast<double>(copy.counts.elements()) * static_cast<double>(copy.chunk);
  const double read = elements * static_cast<double>(byte_size(copy.source));
  const double written = elements * static_cast<double>(byte_size(copy.destination));
  const TileId from = graph.allocation(source.allocation).home;
  const TileId to = graph.allocation(destination.allocation).home;
  traffic.tile_cycles[tile.index] += read / rate(machine, tile, from) + written / rate(machine, tile, to);
  traffic.tile_fixed[tile.index] += machine.transfer_cycles;
  if (from.valid() && from != tile) traffic.source_cycles[from.index] += read / rate(machine, tile, from);
  traffic.bytes += (from.valid() ? 0 : read) + (to.valid() ? 0 : written);
}

void summarize(const Machine& machine, const Traffic& traffic, ScheduledSuperstep& step) {
  for (size_t tile = 0; tile < traffic.tile_cycles.size(); ++tile) {
    step.cycles = std::max(step.cycles, traffic.tile_cycles[tile] + traffic.tile_fixed[tile]);
    step.lower_bound_cycles =
        std::max({step.lower_bound_cycles, traffic.tile_cycles[tile], traffic.source_cycles[tile]});
  }
  step.lower_bound_cycles = std::max(step.lower_bound_cycles, traffic.bytes / machine.device_bytes_per_cycle);
  step.cycles = std::max(step.cycles, step.lower_bound_cycles);
}

}  // namespace

Result<Schedule> schedule_exchange(const TileGraph& graph, const Placement& placement, const Machine& machine) {
  if (machine.tiles != graph.tiles() || placement.locations.size() != graph.allocations().size()) {
    return fail(
        ErrorKind::internal,
        fmt::format(
            "exchange: the graph has {} tiles and {} allocations, machine {} {} tiles, the placement {} allocations",
            graph.tiles(), graph.allocations().size(), machine.name, machine.tiles, placement.locations.size()));
  }
  Schedule schedule;
  Interner<DescriptorId, CopyDescriptor> descriptors;
  for (const Superstep& superstep : graph.supersteps()) {
    ScheduledSuperstep step;
    Traffic traffic(graph.tiles());
    const std::vector<DistributedPull> pulls = superstep_pulls(graph, superstep);
    const std::span<const Command> commands = graph.commands(superstep);
    size_t pull = 0, command = 0;
    step.tile_begin.push_back(static_cast<uint32_t>(schedule.commands.size()));
    for (uint32_t tile = 0; tile < graph.tiles(); ++tile) {
      for (; pull < pulls.size() && pulls[pull].tile.index == tile; ++pull) {
        const DistributedPull& next = pulls[pull];
        schedule.commands.push_back({ScheduledCommand::Kind::pull, static_cast<uint32_t>(schedule.pulls.size())});
        schedule.pulls.push_back({next.source, next.destination, descriptors.intern(next.descriptor)});
        add_transfer(graph, machine, next.tile, next.source, next.destination, next.descriptor, traffic);
      }
      for (; command < commands.size() && graph.tile(commands[command]).index == tile; ++command) {
        const Command& next = commands[command];
        if (next.kind == Command::Kind::run) {
          schedule.commands.push_back({ScheduledCommand::Kind::run, next.index});
          continue;
        }
        schedule.commands.push_back({ScheduledCommand::Kind::copy, next.index});
        const LocalCopy& copy = graph.copies()[next.index];
        add_transfer(graph, machine, copy.tile, copy.source, copy.destination, graph.descriptor(copy), traffic);
      }
      step.tile_begin.push_back(static_cast<uint32_t>(schedule.commands.size()));
    }
    if (machine.global_memory) {
      summarize(machine, traffic, step);
    } else {
      const DistributedTraffic between = distributed_traffic(graph, machine, superstep, pulls);
      step.cycles = between.cycles();
      step.lower_bound_cycles = between.lower_bound_cycles();
    }
    schedule.supersteps.push_back(std::move(step));
  }
  schedule.descriptors = std::move(descriptors).take();
  return schedule;
}

std::string print(const Schedule& schedule, const TileGraph& graph) {
  constexpr std::string_view kinds[] = {"run", "copy", "pull"};
  std::string out = "low-schedule 1\n";
  for (size_t i = 0; i < schedule.descriptors.size(); ++i) {
    const CopyDescriptor& copy = schedule.descriptors[i];
    out += fmt::format("descriptor {} {} to {} counts {} source {} destination {} chunk {}\n", i, name(copy.source),
                       name(copy.destination), to_string(copy.counts), to_string(copy.source_strides),
                       to_string(copy.destination_strides), copy.chunk);
  }
  const auto view = [&graph](const View& v) {
    std::string text = fmt::format("a{}@{}", v.allocation.index, v.offset);
    for (const Term& term : graph.terms(v)) text += fmt::format("+{}%{}*{}", term.level, term.period, term.stride);
    return text;
  };
  for (size_t i = 0; i < schedule.pulls.size(); ++i) {
    const Pull& pull = schedule.pulls[i];
    out += fmt::format("pull {} descriptor {} {} to {}\n", i, pull.descriptor.index, view(pull.source),
                       view(pull.destination));
  }
  for (size_t i = 0; i < schedule.supersteps.size(); ++i) {
    const ScheduledSuperstep& step = schedule.supersteps[i];
    out += fmt::format("superstep {} cycles {} lower bound {}\n", i, step.cycles, step.lower_bound_cycles);
    for (size_t tile = 0; tile + 1 < step.tile_begin.size(); ++tile) {
      if (step.tile_begin[tile] == step.tile_begin[tile + 1]) continue;
      out += fmt::format("  tile {}:", tile);
      for (uint32_t c = step.tile_begin[tile]; c < step.tile_begin[tile + 1]; ++c) {
        out += fmt::format(" {} {}", kinds[static_cast<size_t>(schedule.commands[c].kind)], schedule.commands[c].index);
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace low
