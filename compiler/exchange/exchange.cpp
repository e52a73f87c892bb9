#include "compiler/exchange/exchange.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/exchange/pulls.h"
#include "compiler/low/interner.h"
#include "compiler/low/low.h"

namespace low {
namespace {

// How long the transfers of a superstep take: what its cost has of exchanges and copies.
class TransferTime {
 public:
  TransferTime(const TileGraph& graph, const Machine& machine) : machine_(machine) {
    work_.tiles.resize(graph.tiles());
    machine_.launch_cycles = 0;
  }

  // Without global memory pulls are exchanges, for cycles().
  void add_pull(TileId tile, const KernelWork& pull) {
    if (machine_.global_memory) add(tile, pull, pull_cost(machine_, pull));
  }
  void add_copy(TileId tile, const KernelWork& copy) { add(tile, copy, kernel_cost(machine_, copy)); }

  double cycles(std::span<const TileExchange> exchanges) const {
    return superstep_cost(machine_, work_).total() + exchange_cycles(machine_, exchanges);
  }

 private:
  void add(TileId tile, const KernelWork& copy, const Cost& cost) {
    work_.tiles[tile.index] += cost;
    work_.bytes += static_cast<double>(copy.read_bytes + copy.written_bytes);
  }

  Machine machine_;
  SuperstepWork work_;
};

// What would take no time but for its bytes.
Machine without_fixed_costs(Machine machine) {
  machine.command_cycles = machine.transfer_cycles = 0;
  return machine;
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
  const Machine only_bytes = without_fixed_costs(machine);
  for (const Superstep& superstep : graph.supersteps()) {
    ScheduledSuperstep step;
    TransferTime time(graph, machine), bound(graph, only_bytes);
    const std::vector<DistributedPull> pulls = superstep_pulls(graph, superstep);
    const std::span<const Command> commands = graph.commands(superstep);
    size_t pull = 0, command = 0;
    step.tile_begin.push_back(static_cast<uint32_t>(schedule.commands.size()));
    for (uint32_t tile = 0; tile < graph.tiles(); ++tile) {
      for (; pull < pulls.size() && pulls[pull].tile.index == tile; ++pull) {
        const DistributedPull& next = pulls[pull];
        schedule.commands.push_back({ScheduledCommand::Kind::pull, static_cast<uint32_t>(schedule.pulls.size())});
        schedule.pulls.push_back({next.source, next.destination, descriptors.intern(next.descriptor)});
        const KernelWork work = copy_work(next.descriptor);
        time.add_pull(next.tile, work);
        bound.add_pull(next.tile, work);
      }
      for (; command < commands.size() && graph.tile(commands[command]).index == tile; ++command) {
        const Command& next = commands[command];
        if (next.kind == Command::Kind::run) {
          schedule.commands.push_back({ScheduledCommand::Kind::run, next.index});
          continue;
        }
        schedule.commands.push_back({ScheduledCommand::Kind::copy, next.index});
        const LocalCopy& copy = graph.copies()[next.index];
        const KernelWork work = copy_work(graph.descriptor(copy));
        time.add_copy(copy.tile, work);
        bound.add_copy(copy.tile, work);
      }
      step.tile_begin.push_back(static_cast<uint32_t>(schedule.commands.size()));
    }
    std::vector<TileExchange> exchanges;
    if (!machine.global_memory) exchanges = tile_exchanges(graph, superstep);
    step.cycles = time.cycles(exchanges);
    step.lower_bound_cycles = bound.cycles(exchanges);
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
