#include "compiler/low/finish.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace low {
namespace {

// No graph nests deeper; it bounds recursion over regions.

std::unexpected<Error> broken(const std::string& what) { return fail(ErrorKind::internal, "tile graph: " + what); }

}  // namespace

TileGraphFinisher::TileGraphFinisher(TileGraphBuilder& builder)
    : graph_(builder.graph_), open_(!builder.open_regions_.empty()) {
  const Interners* shared = builder.interners_.get();
  types_.prepare(shared != nullptr ? &shared->types : nullptr, graph_.types_);
  geometries_.prepare(shared != nullptr ? &shared->geometries : nullptr, graph_.geometries_);
  contracts_.prepare(shared != nullptr ? &shared->contracts : nullptr, graph_.contracts_);
  descriptors_.prepare(shared != nullptr ? &shared->descriptors : nullptr, graph_.descriptors_);
  visited_.assign(graph_.regions_.size(), 0);
  used_.assign(graph_.allocations_.size(), 0);
}

Result<void> TileGraphFinisher::check_tables() const {
  for (size_t i = 0; i < graph_.allocations_.size(); ++i) {
    const Allocation& allocation = graph_.allocations_[i];
    if (allocation.type.index >= types_.to.size()) return broken(fmt::format("allocation {} has no type", i));
    if (allocation.role == Role::parameter && allocation.binding >= graph_.constants_.size()) {
      return broken(fmt::format("allocation {} is parameter {}, of {} constants", i, allocation.binding,
                                graph_.constants_.size()));
    }
  }
  for (const auto* interface : {&graph_.inputs_, &graph_.outputs_}) {
    for (const InterfaceTensor& tensor : *interface) {
      if (tensor.allocation.index >= graph_.allocations_.size())
        return broken(fmt::format("input or output '{}' has no allocation", tensor.name));
    }
  }
  return {};
}

bool TileGraphFinisher::reach(std::span<const View> views) {
  for (const View& view : views)
    if (!reach(view)) return false;
  return true;
}

Result<Superstep> TileGraphFinisher::list(const Superstep& superstep) {
  const Span32 exchanges{static_cast<uint32_t>(exchanges_.size()), superstep.exchanges.count};
  for (const Exchange& exchange : slice(graph_.exchanges_, superstep.exchanges)) {
    if (!reach(exchange.source) || !reach(graph_.destinations(exchange)))
      return broken(fmt::format("exchange {} has a view without allocation or geometry", exchanges_.size()));
    exchanges_.push_back(exchange);
  }
  const Span32 commands{static_cast<uint32_t>(commands_.size()), superstep.commands.count};
  for (const Command& command : graph_.commands(superstep)) {
    if (command.kind == Command::Kind::run) {
      KernelRun run = graph_.runs_[command.index];
      if (run.contract.index >= contracts_.to.size())
        return broken(fmt::format("run {} has no contract", runs_.size()));
      if (!reach(graph_.operands(run)))
        return broken(fmt::format("run {} has an operand without allocation or geometry", runs_.size()));
      run.contract = contracts_(run.contract);
      commands_.push_back({Command::Kind::run, static_cast<uint32_t>(runs_.size())});
      runs_.push_back(run);
    } else {
      LocalCopy copy = graph_.copies_[command.index];
      if (copy.descriptor.index >= descriptors_.to.size())
        return broken(fmt::format("copy {} has no descriptor", copies_.size()));
      if (!reach(copy.source) || !reach(copy.destination))
        return broken(fmt::format("copy {} has a view without allocation or geometry", copies_.size()));
      copy.descriptor = descriptors_(copy.descriptor);
      commands_.push_back({Command::Kind::copy, static_cast<uint32_t>(copies_.size())});
      copies_.push_back(copy);
    }
  }
  return Superstep{exchanges, commands};
}

Result<RegionId> TileGraphFinisher::list(RegionId id, size_t depth) {
  if (id.index >= graph_.regions_.size()) return broken("a Repeat has no body");
  if (depth > max_nested_repeats) return broken(fmt::format("Repeats nest deeper than {}", max_nested_repeats));
  if (std::exchange(visited_[id.index], uint8_t{1}) != 0)
    return broken(fmt::format("region {} is used twice", id.index));
  std::vector<Step> steps;
  for (const Step& step : graph_.steps(graph_.regions_[id.index])) {
    if (step.kind == Step::Kind::repeat) {
      const RepeatStep& repeat = graph_.repeats_[step.index];
      LOW_TRY(const RegionId body, list(repeat.body, depth + 1));
      steps.push_back({Step::Kind::repeat, static_cast<uint32_t>(repeats_.size())});
      repeats_.push_back({repeat.level, repeat.count, body});
      continue;
    }
    LOW_TRY(const Superstep superstep, list(graph_.supersteps_[step.index]));
    steps.push_back({Step::Kind::superstep, static_cast<uint32_t>(supersteps_.size())});
    supersteps_.push_back(superstep);
  }
  regions_.push_back({append(steps_, steps)});
  return RegionId(regions_.size() - 1);
}

void TileGraphFinisher::renumber_allocations() {
  for (const auto* interface : {&graph_.inputs_, &graph_.outputs_})
    for (const InterfaceTensor& tensor : *interface) used_[tensor.allocation.index] = 1;
  allocations_.assign(graph_.allocations_.size(), AllocationId());
  std::vector<uint32_t> numbers(graph_.constants_.size(), UINT32_MAX);
  std::vector<ConstantBox> constants;
  size_t count = 0;
  for (size_t i = 0; i < graph_.allocations_.size(); ++i) {
    if (used_[i] == 0) continue;
    Allocation allocation = graph_.allocations_[i];
    allocation.type = types_(allocation.type);
    if (allocation.role == Role::parameter) {
      uint32_t& constant = numbers[allocation.binding];
      if (constant == UINT32_MAX) {  // constants are distinct already
        constant = static_cast<uint32_t>(constants.size());
        constants.push_back(std::move(graph_.constants_[allocation.binding]));
      }
      allocation.binding = constant;
    }
    allocations_[i] = AllocationId(count);
    graph_.allocations_[count++] = allocation;
  }
  graph_.allocations_.resize(count);
  graph_.constants_ = std::move(constants);
  for (auto* interface : {&graph_.inputs_, &graph_.outputs_})
    for (InterfaceTensor& tensor : *interface) tensor.allocation = allocations_[tensor.allocation.index];
}

void TileGraphFinisher::renumber(View& view) const {
  view.allocation = allocations_[view.allocation.index];
  view.geometry = geometries_.to[view.geometry.index];
}

Result<TileGraph> TileGraphFinisher::finish() {
  if (open_) return broken("a region was not ended");
  if (!graph_.root_.valid()) return broken("there is no region");
  LOW_TRY_VOID(check_tables());
  runs_.reserve(graph_.runs_.size());
  copies_.reserve(graph_.copies_.size());
  exchanges_.reserve(graph_.exchanges_.size());
  commands_.reserve(graph_.commands_.size());
  LOW_TRY(graph_.root_, list(graph_.root_, 0));
  renumber_allocations();
  // All views of the pool, those that nothing reaches any more included: they mean nothing.
  for (View& view : graph_.views_) {
    if (view.allocation.index < allocations_.size() && view.geometry.index < geometries_.to.size()) renumber(view);
  }
  for (LocalCopy& copy : copies_) {
    renumber(copy.source);
    renumber(copy.destination);
  }
  for (Exchange& exchange : exchanges_) renumber(exchange.source);

  graph_.regions_ = std::move(regions_);
  graph_.steps_ = std::move(steps_);
  graph_.repeats_ = std::move(repeats_);
  graph_.supersteps_ = std::move(supersteps_);
  graph_.commands_ = std::move(commands_);
  graph_.runs_ = std::move(runs_);
  graph_.copies_ = std::move(copies_);
  graph_.exchanges_ = std::move(exchanges_);
  graph_.types_ = std::move(types_.values);
  graph_.geometries_ = std::move(geometries_.values);
  graph_.contracts_ = std::move(contracts_.values);
  graph_.descriptors_ = std::move(descriptors_.values);
  LOW_TRY_VOID(verify(graph_));
  return std::move(graph_);
}

}  // namespace low
