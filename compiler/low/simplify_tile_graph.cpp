#include <algorithm>
#include <optional>

#include "compiler/low/builder.h"
#include "compiler/low/low.h"
#include "compiler/low/touched_intervals.h"

namespace low {
namespace {

// What the whole graph does to one allocation.
struct Use {
  uint32_t position;  // of the superstep in program order, a Repeat's body once
  bool in_repeat;
  Command command;
  bool write;
  ByteInterval interval;
};

// A model input or output whose storage may as well be a part of another allocation.
struct Rebinding {
  AllocationId allocation;
  int64_t offset = 0;  // elements
};

class Simplifier {
 public:
  Simplifier(TileGraph graph, const SimplifyOptions& options) : graph_(std::move(graph)), options_(options) {}

  Result<TileGraph> run() && {
    fixed_.assign(graph_.allocations().size(), false);
    for (const Exchange& exchange : graph_.exchanges()) {
      // What takes part in an exchange keeps its place.
      fix(exchange.source);
      for (const View& destination : graph_.destinations(exchange)) fix(destination);
    }
    dead_copies_.assign(graph_.copies().size(), false);
    bound_.assign(graph_.allocations().size(), 0);
    const auto may_move = [this](const InterfaceTensor& tensor) { return !fixed_[tensor.allocation.index]; };
    if (std::ranges::any_of(graph_.inputs(), may_move) || std::ranges::any_of(graph_.outputs(), may_move)) {
      uint32_t position = 0;
      uses_.resize(graph_.allocations().size());
      collect_uses(graph_.regions()[graph_.root().index], false, position);
    }
    inputs_ = rebind(graph_.inputs(), true);
    outputs_ = rebind(graph_.outputs(), false);
    const std::vector<PlannedStep> steps = plan(graph_.root());
    if (!changed_) return std::move(graph_);
    TileGraphBuilder builder(std::move(graph_));
    for (const InterfaceTensor& t : inputs_) builder.input(t.name, t.type, t.allocation, t.offset);
    for (const InterfaceTensor& t : outputs_) builder.output(t.name, t.type, t.allocation, t.offset);
    build(steps, builder);
    return std::move(builder).finish();
  }

 private:
  void collect_uses(const Region& region, bool in_repeat, uint32_t& position) {
    for (const Step& step : graph_.steps(region)) {
      if (step.kind == Step::Kind::repeat) {
        collect_uses(graph_.regions()[graph_.repeats()[step.index].body.index], true, position);
        continue;
      }
      const Superstep& superstep = graph_.supersteps()[step.index];
      for (const Command& command : graph_.commands(superstep)) {
        std::vector<TouchedInterval> accesses;
        append_touched(graph_, command, accesses);
        for (const TouchedInterval& access : accesses)
          uses_[access.interval.allocation.index].push_back(
              {position, in_repeat, command, access.write, access.interval});
      }
      ++position;
    }
  }

  void fix(const View& view) { fixed_[view.allocation.index] = true; }

  // If every use of the interface tensor's allocation is a whole, contiguous copy in one superstep outside of any
  // Repeat, from or to one place of another allocation that nothing else uses in the meantime: that place.
  std::optional<Rebinding> find_rebinding(const InterfaceTensor& tensor, bool input) {
    const AllocationId id = tensor.allocation;
    if (fixed_[id.index]) return {};
    const std::vector<Use>& uses = uses_[id.index];
    if (uses.empty() || tensor.type.shape.elements() == 0) return {};
    std::optional<Rebinding> place;
    int64_t moved = 0;
    for (const Use& use : uses) {
      if (use.in_repeat || use.position != uses[0].position || use.command.kind != Command::Kind::copy ||
          use.write == input)
        return {};
      const LocalCopy& copy = graph_.copies()[use.command.index];
      const CopyDescriptor& descriptor = graph_.descriptor(copy);
      const View& here = input ? copy.source : copy.destination;
      const View& there = input ? copy.destination : copy.source;
      if (descriptor.counts.rank() != 0 || descriptor.source != descriptor.destination || here.terms.count != 0 ||
          there.terms.count != 0)
        return {};
      const Rebinding target{there.allocation, there.offset - here.offset};
      if (place && (place->allocation != target.allocation || place->offset != target.offset)) return {};
      place = target;
      moved += descriptor.chunk;
    }
    if (moved != tensor.type.shape.elements() || place->offset < 0) return {};
    const Allocation& target = graph_.allocation(place->allocation);
    if (target.role != Role::intermediate || (bound_[place->allocation.index] & (input ? 1 : 2)) != 0) return {};
    const auto size = static_cast<int64_t>(byte_size(tensor.type.dtype));
    const int64_t first = place->offset * size, last = first + moved * size - 1;
    for (const Use& use : uses_[place->allocation.index]) {
      if (use.interval.last < first || use.interval.first > last) continue;
      if (input && use.position < uses[0].position) return {};
      if (!input && use.write && use.position > uses[0].position) return {};
    }
    return place;
  }

  std::vector<InterfaceTensor> rebind(std::span<const InterfaceTensor> tensors, bool input) {
    std::vector<InterfaceTensor> result(tensors.begin(), tensors.end());
    for (InterfaceTensor& tensor : result) {
      if (std::ranges::count(tensors, tensor.allocation, &InterfaceTensor::allocation) != 1) continue;
      const std::optional<Rebinding> place = find_rebinding(tensor, input);
      if (!place) continue;
      for (const Use& use : uses_[tensor.allocation.index]) dead_copies_[use.command.index] = true;
      tensor.allocation = place->allocation;
      tensor.offset = place->offset;
      bound_[place->allocation.index] |= input ? 1 : 2;
      changed_ = true;
    }
    return result;
  }

  // A superstep of the result, or a Repeat.
  struct PlannedStep {
    Span32 exchanges;  // of the graph
    std::vector<Command> commands;
    RepeatStep repeat;                // without its body, which is
    std::vector<PlannedStep> region;  // not empty for a Repeat
    bool repeats = false;
  };

  // Joins supersteps: at most the first of a group has exchanges.
  std::vector<PlannedStep> plan(RegionId id) {
    std::vector<PlannedStep> steps;
    TouchedIntervals touched;  // by the last step, if others may join it
    bool open = false;
    for (const Step& step : graph_.steps(graph_.regions()[id.index])) {
      if (step.kind == Step::Kind::repeat) {
        const RepeatStep& repeat = graph_.repeats()[step.index];
        steps.push_back(
            {.exchanges = {}, .commands = {}, .repeat = repeat, .region = plan(repeat.body), .repeats = true});
        open = false;
        continue;
      }
      const Superstep& superstep = graph_.supersteps()[step.index];
      std::vector<TouchedInterval> accesses;
      std::vector<Command> commands;
      for (const Command& command : graph_.commands(superstep)) {
        if (command.kind == Command::Kind::copy && dead_copies_[command.index]) continue;
        commands.push_back(command);
        append_shared_touched(graph_, command, accesses);
      }
      if (open && options_.join_supersteps && superstep.exchanges.count == 0 && !touched.conflicts_with(accesses)) {
        std::vector<Command>& before = steps.back().commands;
        before.insert(before.end(), commands.begin(), commands.end());
        touched.add(accesses);
        changed_ = true;
        continue;
      }
      steps.push_back({.exchanges = superstep.exchanges, .commands = std::move(commands), .repeat = {}, .region = {}});
      touched.clear();
      if (options_.join_supersteps) touched.add(accesses);
      open = true;
    }
    return steps;
  }

  static RegionId build(const std::vector<PlannedStep>& steps, TileGraphBuilder& builder) {
    builder.begin_region();
    for (const PlannedStep& step : steps) {
      if (step.repeats) {
        const RegionId body = build(step.region, builder);
        builder.repeat(step.repeat.level, step.repeat.count, body);
        continue;
      }
      builder.begin_superstep();
      builder.reuse_exchanges(step.exchanges);
      for (const Command& command : step.commands) builder.reuse_command(command);
      builder.end_superstep();
    }
    return builder.end_region();
  }

  TileGraph graph_;
  const SimplifyOptions options_;
  bool changed_ = false;
  std::vector<std::vector<Use>> uses_;  // by owning allocation; empty when no input or output may move
  std::vector<bool> fixed_;             // by owning allocation: takes part in an exchange
  std::vector<bool> dead_copies_;
  std::vector<uint8_t> bound_;  // bit 0: an input lies here, bit 1: an output
  std::vector<InterfaceTensor> inputs_, outputs_;
};

}  // namespace

Result<TileGraph> simplify_tile_graph(TileGraph graph, const SimplifyOptions& options) {
  return Simplifier(std::move(graph), options).run();
}

}  // namespace low
