#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <limits>

#include "compiler/low/low.h"

namespace low {
namespace {

// Elements that a view reads or writes, each once.
int64_t distinct_elements(const Geometry& geometry) {
  int64_t count = 1;
  for (int axis = 0; axis < geometry.extents.rank(); ++axis)
    if (geometry.strides[axis] != 0 || geometry.extents[axis] == 0) count *= geometry.extents[axis];
  return count;
}

int64_t distinct_bytes(const TileGraph& graph, const View& view) {
  return distinct_elements(graph.geometry(view)) * static_cast<int64_t>(byte_size(graph.type(view.allocation).dtype));
}

KernelWork work_of(const TileGraph& graph, const KernelRun& run) {
  const KernelContract& contract = graph.contract(run);
  const std::span<const View> operands = graph.operands(run);
  KernelWork work = work_of(contract, graph.extents(run));
  work.written_bytes = distinct_bytes(graph, operands.back());
  const size_t picked = picked_operand(contract);
  for (size_t i = 0; i + 1 < operands.size(); ++i) {
    const int64_t count = elements_that_count(contract, graph.extents(run), i);
    const int64_t bytes = std::min(distinct_bytes(graph, operands[i]),
                                   count * static_cast<int64_t>(byte_size(contract.operands[i].dtype)));
    work.read_bytes += i == picked ? std::min(bytes, work.written_bytes) : bytes;
  }
  return work;
}

// Bytes of different addresses that a superstep touches: a view counts once however many runs use it, and an allocation
// for no more than it holds. Views that overlap without being equal count twice below that.
class DistinctBytes {
 public:
  explicit DistinctBytes(const TileGraph& graph) : graph_(graph) {}
  // `most`: elements of the view that count.
  void add(const View& view, int64_t most = std::numeric_limits<int64_t>::max()) {
    const int64_t elements = distinct_elements(graph_.geometries()[view.geometry.index]);
    touched_.push_back({view.allocation, view.geometry, view.offset, std::min(elements, most)});
  }

  double total() && {
    std::ranges::sort(touched_);
    const auto repeated = std::ranges::unique(touched_);
    touched_.erase(repeated.begin(), repeated.end());
    double sum = 0;
    for (size_t i = 0; i < touched_.size();) {
      const AllocationId id = touched_[i].allocation;
      const TensorType& type = graph_.type(id);
      const auto size = static_cast<double>(byte_size(type.dtype));
      double elements = 0;
      for (; i < touched_.size() && touched_[i].allocation == id; ++i)
        elements += static_cast<double>(touched_[i].elements);
      sum += size * std::min(elements, static_cast<double>(type.extents.elements()));
    }
    return sum;
  }

 private:
  struct Touched {
    AllocationId allocation;
    GeometryId geometry;
    int64_t offset, elements;
    auto operator<=>(const Touched&) const = default;
  };
  const TileGraph& graph_;
  std::vector<Touched> touched_;
};

uint64_t saturating_product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

void add_times(uint64_t& sum, uint64_t value, uint64_t times) {
  if (__builtin_add_overflow(sum, saturating_product(value, times), &sum)) sum = UINT64_MAX;
}

void add_times(Activity& sum, const Activity& other, uint64_t times) {
  for (uint64_t Activity::* const field :
       {&Activity::supersteps, &Activity::runs, &Activity::copies, &Activity::exchanges, &Activity::recipients,
        &Activity::sent_bytes, &Activity::delivered_bytes, &Activity::copied_bytes}) {
    add_times(sum.*field, other.*field, times);
  }
}

class Accountant {
 public:
  Accountant(const TileGraph& graph, const Machine& machine) : graph_(graph), machine_(machine) {
    report_.supersteps.resize(graph.supersteps().size());
    report_.executions.resize(graph.supersteps().size());
  }

  CostReport report() && {
    add_region(graph_.regions()[graph_.root().index], 1);
    report_.seconds = report_.total.cycles / machine_.clock_hz;
    return std::move(report_);
  }

 private:
  void add_region(const Region& region, uint64_t executions) {
    for (const Step& step : graph_.steps(region)) {
      if (step.kind == Step::Kind::repeat) {
        const RepeatStep& repeat = graph_.repeats()[step.index];
        add_region(graph_.regions()[repeat.body.index], saturating_product(executions, repeat.count));
        continue;
      }
      report_.supersteps[step.index] = superstep(graph_.supersteps()[step.index], executions);
      report_.executions[step.index] = executions;
      report_.total.add(report_.supersteps[step.index], static_cast<double>(executions));
      const Activity activity = activity_of(graph_.supersteps()[step.index]);
      add_times(report_.in_graph, activity, 1);
      add_times(report_.in_run, activity, executions);
    }
  }

  uint64_t view_bytes(const View& view) const {
    return static_cast<uint64_t>(graph_.geometry(view).extents.elements()) *
           byte_size(graph_.type(view.allocation).dtype);
  }

  Activity activity_of(const Superstep& step) const {
    Activity activity{.supersteps = 1, .exchanges = step.exchanges.count};
    for (uint32_t i = 0; i < step.exchanges.count; ++i) {
      const Exchange& exchange = graph_.exchanges()[step.exchanges.begin + i];
      const uint64_t bytes = view_bytes(exchange.source);  // of a destination, too
      add_times(activity.sent_bytes, bytes, 1);
      add_times(activity.delivered_bytes, bytes, exchange.destinations.count);
      activity.recipients += exchange.destinations.count;
    }
    for (const Command& command : graph_.commands(step)) {
      if (command.kind == Command::Kind::run) {
        ++activity.runs;
        continue;
      }
      ++activity.copies;
      add_times(activity.copied_bytes, view_bytes(graph_.copies()[command.index].destination), 1);
    }
    return activity;
  }

  Cost superstep(const Superstep& step, uint64_t executions) {
    SuperstepWork work;
    DistinctBytes distinct(graph_);
    TileId tile;
    for (uint32_t i = 0; machine_.global_memory && i < step.exchanges.count; ++i) {
      // A pull: the destination's tile copies. Which tile that is matters little here: they spread evenly.
      const Exchange& exchange = graph_.exchanges()[step.exchanges.begin + i];
      distinct.add(exchange.source);
      for (const View& destination : graph_.destinations(exchange)) {
        distinct.add(destination);
        KernelWork pull;
        pull.kind = KernelWork::Kind::copy;
        pull.read_bytes = pull.written_bytes = distinct_bytes(graph_, destination);
        work.bytes += 2 * static_cast<double>(pull.read_bytes);
        work.tiles.push_back(pull_cost(machine_, pull));
      }
    }
    // Commands are sorted by tile.
    for (const Command& command : graph_.commands(step)) {
      if (work.tiles.empty() || graph_.tile(command) != tile) work.tiles.emplace_back();
      tile = graph_.tile(command);
      KernelWork kernel;
      if (command.kind == Command::Kind::run) {
        const KernelRun& run = graph_.runs()[command.index];
        kernel = work_of(graph_, run);
        if (machine_.global_memory)
          for (size_t i = 0; i < graph_.operands(run).size(); ++i)
            distinct.add(graph_.operands(run)[i], elements_that_count(graph_.contract(run), graph_.extents(run), i));
        report_.flop += matrix_flop(graph_.contract(run), graph_.extents(run)) * static_cast<double>(executions);
      } else {
        const LocalCopy& copy = graph_.copies()[command.index];
        kernel = copy_work(graph_.descriptor(copy));
        if (machine_.global_memory) {
          distinct.add(copy.source);
          distinct.add(copy.destination);
        }
      }
      work.tiles.back() += kernel_cost(machine_, kernel);
      work.bytes += static_cast<double>(kernel.read_bytes) + static_cast<double>(kernel.written_bytes);
    }
    // Only a shared cache in front of a global memory tells them from others.
    if (machine_.global_memory) work.distinct_bytes = std::move(distinct).total();
    Cost cost = superstep_cost(machine_, work);
    if (!machine_.global_memory) cost.exchange += exchange_cycles(machine_, tile_exchanges(graph_, step));
    return cost;
  }

  const TileGraph& graph_;
  const Machine& machine_;
  CostReport report_;
};

}  // namespace

std::vector<TileExchange> tile_exchanges(const TileGraph& graph, const Superstep& step) {
  std::vector<TileExchange> tiles(graph.tiles());
  for (uint32_t i = 0; i < step.exchanges.count; ++i) {
    const Exchange& exchange = graph.exchanges()[step.exchanges.begin + i];
    const TileId from = graph.allocation(exchange.source.allocation).home;
    const double bytes = static_cast<double>(graph.geometry(exchange.source).extents.elements()) *
                         static_cast<double>(byte_size(graph.type(exchange.source.allocation).dtype));
    if (from.valid()) tiles[from.index].sent += bytes;
    for (const View& destination : graph.destinations(exchange)) {
      const TileId to = graph.allocation(destination.allocation).home;
      if (to.valid()) {
        tiles[to.index].received += bytes;
        tiles[to.index].pieces += 1;
      } else if (from.valid()) {
        tiles[from.index].pieces_out += 1;
      }
    }
  }
  return tiles;
}

KernelWork copy_work(const CopyDescriptor& descriptor) {
  KernelWork work;
  work.kind = KernelWork::Kind::copy;
  work.n = descriptor.chunk;
  work.m = descriptor.counts.elements();
  // Elements that are read or written several times count once.
  const auto bytes = [&](const Strides& strides, DType dtype) {
    return descriptor.chunk * distinct_elements({descriptor.counts, strides}) * static_cast<int64_t>(byte_size(dtype));
  };
  work.read_bytes = bytes(descriptor.source_strides, descriptor.source);
  work.written_bytes = bytes(descriptor.destination_strides, descriptor.destination);
  work.strided = descriptor.chunk == 1 && work.m > 1;
  return work;
}

Cost pull_cost(const Machine& machine, const KernelWork& copy) {
  Cost cost = kernel_cost(machine, copy);
  cost.exchange += machine.transfer_cycles;
  return cost;
}

CostReport cost_report(const TileGraph& graph, const Machine& machine) { return Accountant(graph, machine).report(); }

std::string to_string(const CostReport& report, const Machine& machine) {
  const double microseconds = 1e6 / machine.clock_hz;
  const auto line = [&](const Cost& items, double cycles) {
    return fmt::format("{:>12.3f} us: compute {:.3f}, memory {:.3f}, exchange {:.3f}, launch {:.3f}; padding {:.3f}\n",
                       cycles * microseconds, items.compute * microseconds, items.memory * microseconds,
                       items.exchange * microseconds, items.launch * microseconds, items.padding * microseconds);
  };
  std::string text = "expanded" + line(report.total.items, report.total.cycles);
  for (size_t i = 0; i < report.supersteps.size(); ++i)
    text +=
        fmt::format("  s{} x {}", i, report.executions[i]) + line(report.supersteps[i], report.supersteps[i].total());
  const Activity& activity = report.in_graph;
  text += fmt::format("  {} kernel runs, {} copies, {} exchanges to {} recipients\n", activity.runs, activity.copies,
                      activity.exchanges, activity.recipients);
  return text;
}

}  // namespace low
