#include "compiler/low/finish.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace low {
namespace {

// No graph nests deeper; it bounds recursion over regions.
constexpr size_t max_depth = 64;

std::unexpected<Error> broken(const std::string& what) { return fail(ErrorKind::internal, "tile graph: " + what); }

}  // namespace

TileGraphFinisher::TileGraphFinisher(TileGraphBuilder& builder)
    : from_(builder.graph_), open_(!builder.open_regions_.empty()) {
  const Interners* shared = builder.interners_.get();
  types_.prepare(shared != nullptr ? &shared->types : nullptr, from_.types_);
  geometries_.prepare(shared != nullptr ? &shared->geometries : nullptr, from_.geometries_);
  contracts_.prepare(shared != nullptr ? &shared->contracts : nullptr, from_.contracts_);
  descriptors_.prepare(shared != nullptr ? &shared->descriptors : nullptr, from_.descriptors_);
}

bool TileGraphFinisher::is_whole(const View& view) const {
  return view.allocation.index < from_.allocations_.size() && view.geometry.index < geometries_.to.size() &&
         uint64_t{view.terms.begin} + view.terms.count <= from_.terms_.size();
}

Result<void> TileGraphFinisher::check_references() const {
  for (size_t i = 0; i < from_.allocations_.size(); ++i) {
    const Allocation& allocation = from_.allocations_[i];
    if (allocation.type.index >= types_.to.size()) return broken(fmt::format("allocation {} has no type", i));
    if (allocation.alias.valid() && allocation.alias.index >= i) {
      return broken(fmt::format("allocation {} is an alias of allocation {}, which is not an earlier one", i,
                                allocation.alias.index));
    }
    if (allocation.role == Role::parameter && allocation.binding >= from_.constants_.size()) {
      return broken(fmt::format("allocation {} is parameter {}, of {} constants", i, allocation.binding,
                                from_.constants_.size()));
    }
  }
  const auto whole = [this](const View& view) { return is_whole(view); };
  for (size_t i = 0; i < from_.runs_.size(); ++i) {
    const KernelRun& run = from_.runs_[i];
    if (run.contract.index >= contracts_.to.size()) return broken(fmt::format("run {} has no contract", i));
    if (!std::ranges::all_of(slice(from_.views_, run.operands), whole))
      return broken(fmt::format("run {} has an operand without allocation or geometry", i));
  }
  for (size_t i = 0; i < from_.copies_.size(); ++i) {
    const LocalCopy& copy = from_.copies_[i];
    if (copy.descriptor.index >= descriptors_.to.size()) return broken(fmt::format("copy {} has no descriptor", i));
    if (!is_whole(copy.source) || !is_whole(copy.destination))
      return broken(fmt::format("copy {} has a view without allocation or geometry", i));
  }
  for (size_t i = 0; i < from_.exchanges_.size(); ++i) {
    const Exchange& exchange = from_.exchanges_[i];
    if (!is_whole(exchange.source) || !std::ranges::all_of(slice(from_.views_, exchange.destinations), whole))
      return broken(fmt::format("exchange {} has a view without allocation or geometry", i));
  }
  for (const auto* interface : {&from_.inputs_, &from_.outputs_}) {
    for (const InterfaceTensor& tensor : *interface) {
      if (tensor.allocation.index >= from_.allocations_.size())
        return broken(fmt::format("input or output '{}' has no allocation", tensor.name));
    }
  }
  return {};
}

// The supersteps that are reached, and what they use.
Result<void> TileGraphFinisher::mark(RegionId id, size_t depth) {
  if (id.index >= from_.regions_.size()) return broken("a Repeat has no body");
  if (depth > max_depth) return broken(fmt::format("Repeats nest deeper than {}", max_depth));
  if (std::exchange(visited_[id.index], uint8_t{1}) != 0)
    return broken(fmt::format("region {} is used twice", id.index));
  for (const Step& step : from_.steps(from_.regions_[id.index])) {
    if (step.kind == Step::Kind::repeat) {
      LOW_TRY_VOID(mark(from_.repeats_[step.index].body, depth + 1));
      continue;
    }
    const Superstep& superstep = from_.supersteps_[step.index];
    for (const Exchange& exchange : slice(from_.exchanges_, superstep.exchanges)) {
      mark_used(exchange.source);
      for (const View& view : from_.destinations(exchange)) mark_used(view);
    }
    for (const Command& command : from_.commands(superstep)) {
      if (command.kind == Command::Kind::run) {
        for (const View& view : from_.operands(from_.runs_[command.index])) mark_used(view);
      } else {
        mark_used(from_.copies_[command.index].source);
        mark_used(from_.copies_[command.index].destination);
      }
    }
  }
  return {};
}

void TileGraphFinisher::renumber_allocations() {
  allocations_.assign(from_.allocations_.size(), AllocationId());
  std::vector<uint32_t> constants(from_.constants_.size(), UINT32_MAX);
  to_.allocations_.reserve(from_.allocations_.size());
  for (size_t i = 0; i < from_.allocations_.size(); ++i) {
    if (used_[i] == 0) continue;
    Allocation allocation = from_.allocations_[i];
    allocation.type = types_(allocation.type);
    if (allocation.alias.valid()) allocation.alias = allocations_[allocation.alias.index];
    if (allocation.role == Role::parameter) {
      uint32_t& constant = constants[allocation.binding];
      if (constant == UINT32_MAX) {  // constants are distinct already
        constant = static_cast<uint32_t>(to_.constants_.size());
        to_.constants_.push_back(std::move(from_.constants_[allocation.binding]));
      }
      allocation.binding = constant;
    }
    allocations_[i] = AllocationId(to_.allocations_.size());
    to_.allocations_.push_back(allocation);
  }
  for (auto* interface : {&from_.inputs_, &from_.outputs_})
    for (InterfaceTensor& tensor : *interface) tensor.allocation = allocations_[tensor.allocation.index];
  to_.inputs_ = std::move(from_.inputs_);
  to_.outputs_ = std::move(from_.outputs_);
}

View TileGraphFinisher::renumbered(const View& view) {
  View result{.allocation = allocations_[view.allocation.index],
              .geometry = geometries_(view.geometry),
              .offset = view.offset,
              .terms = {}};
  if (view.terms.count > 0) {
    const std::span<const Term> terms = slice(from_.terms_, view.terms);
    const std::span<const Term> last = std::span(to_.terms_).last(std::min(to_.terms_.size(), terms.size()));
    result.terms = std::ranges::equal(last, terms)
                       ? Span32{static_cast<uint32_t>(to_.terms_.size() - terms.size()), view.terms.count}
                       : append(to_.terms_, terms);
  }
  return result;
}

Span32 TileGraphFinisher::renumbered(Span32 views) {
  const Span32 result{static_cast<uint32_t>(to_.views_.size()), views.count};
  for (const View& view : slice(from_.views_, views)) to_.views_.push_back(renumbered(view));
  return result;
}

RegionId TileGraphFinisher::rebuild(RegionId id) {
  std::vector<Step> steps;
  for (const Step& step : from_.steps(from_.regions_[id.index])) {
    if (step.kind == Step::Kind::repeat) {
      const RepeatStep& repeat = from_.repeats_[step.index];
      const RegionId body = rebuild(repeat.body);
      steps.push_back({Step::Kind::repeat, static_cast<uint32_t>(to_.repeats_.size())});
      to_.repeats_.push_back({repeat.level, repeat.count, body});
      continue;
    }
    const Superstep& superstep = from_.supersteps_[step.index];
    const Span32 exchanges{static_cast<uint32_t>(to_.exchanges_.size()), superstep.exchanges.count};
    for (const Exchange& exchange : slice(from_.exchanges_, superstep.exchanges)) {
      const View source = renumbered(exchange.source);
      to_.exchanges_.push_back({source, renumbered(exchange.destinations)});
    }
    const Span32 commands{static_cast<uint32_t>(to_.commands_.size()), superstep.commands.count};
    for (const Command& command : from_.commands(superstep)) {
      if (command.kind == Command::Kind::run) {
        const KernelRun& run = from_.runs_[command.index];
        const ContractId contract = contracts_(run.contract);
        to_.commands_.push_back({Command::Kind::run, static_cast<uint32_t>(to_.runs_.size())});
        to_.runs_.push_back({contract, run.tile, renumbered(run.operands)});
      } else {
        const LocalCopy& copy = from_.copies_[command.index];
        const View source = renumbered(copy.source);
        const View destination = renumbered(copy.destination);
        to_.commands_.push_back({Command::Kind::copy, static_cast<uint32_t>(to_.copies_.size())});
        to_.copies_.push_back({descriptors_(copy.descriptor), source, destination, copy.tile});
      }
    }
    steps.push_back({Step::Kind::superstep, static_cast<uint32_t>(to_.supersteps_.size())});
    to_.supersteps_.push_back({exchanges, commands});
  }
  to_.regions_.push_back({append(to_.steps_, steps)});
  return RegionId(to_.regions_.size() - 1);
}

Result<TileGraph> TileGraphFinisher::finish() {
  if (open_) return broken("a region was not ended");
  if (!from_.root_.valid()) return broken("there is no region");
  LOW_TRY_VOID(check_references());
  visited_.assign(from_.regions_.size(), 0);
  used_.assign(from_.allocations_.size(), 0);
  LOW_TRY_VOID(mark(from_.root_, 0));
  for (const auto* interface : {&from_.inputs_, &from_.outputs_})
    for (const InterfaceTensor& tensor : *interface) used_[tensor.allocation.index] = 1;
  for (size_t i = used_.size(); i-- > 0;) {  // an alias is always later than what it shares
    const Allocation& allocation = from_.allocations_[i];
    if (used_[i] != 0 && allocation.alias.valid()) used_[allocation.alias.index] = 1;
  }

  to_.machine_ = std::move(from_.machine_);
  to_.tiles_ = from_.tiles_;
  renumber_allocations();
  to_.views_.reserve(from_.views_.size());
  to_.runs_.reserve(from_.runs_.size());
  to_.copies_.reserve(from_.copies_.size());
  to_.exchanges_.reserve(from_.exchanges_.size());
  to_.commands_.reserve(from_.runs_.size() + from_.copies_.size());
  to_.root_ = rebuild(from_.root_);
  to_.types_ = std::move(types_.values);
  to_.geometries_ = std::move(geometries_.values);
  to_.contracts_ = std::move(contracts_.values);
  to_.descriptors_ = std::move(descriptors_.values);
  LOW_TRY_VOID(verify(to_));
  return std::move(to_);
}

}  // namespace low
