#include "compiler/low/builder.h"

#include <boost/container_hash/hash.hpp>
#include <string_view>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace low {
namespace {

// Multiply-and-shift mixing of one word after another (the finalizer of splitmix64).
class Mixer {
 public:
  Mixer& add(uint64_t word) {
    uint64_t x = state_ ^ word;
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    state_ = x ^ (x >> 31);
    return *this;
  }
  Mixer& add(int64_t word) { return add(static_cast<uint64_t>(word)); }
  template <typename E>
    requires std::is_enum_v<E>
  Mixer& add(E value) {
    return add(static_cast<uint64_t>(value));
  }
  Mixer& add(const Shape& shape) {
    add(static_cast<uint64_t>(shape.rank()));
    for (const int64_t extent : shape) add(extent);
    return *this;
  }
  Mixer& add(const Expr& expr) {
    add(uint64_t{expr.inputs}).add(uint64_t{expr.nodes.size()});
    for (const ExprNode& node : expr.nodes) {
      add(node.op).add(node.dtype).add(node.overflow).add(uint64_t{node.argument}).add(node.literal);
      for (const uint16_t operand : node.operand) add(uint64_t{operand});
    }
    return *this;
  }
  size_t result() const { return static_cast<size_t>(state_); }

 private:
  uint64_t state_ = 0;
};

// No graph nests deeper; it bounds recursion over regions.
constexpr size_t max_depth = 64;

}  // namespace

size_t InternHash::operator()(const TensorType& value) const {
  return Mixer().add(value.dtype).add(value.extents).add(value.padded).add(value.order).add(value.padding).result();
}

size_t InternHash::operator()(const Geometry& value) const {
  return Mixer().add(value.extents).add(value.strides).add(value.valid).result();
}

size_t InternHash::operator()(const KernelContract& value) const {
  Mixer mixer;
  mixer.add(value.family).add(value.extents).add(value.math).add(value.accumulate).add(value.stage_k);
  mixer.add(uint64_t{value.operands.size()});
  for (const OperandContract& operand : value.operands) {
    mixer.add(operand.dtype).add(uint64_t{operand.access.size()});
    for (const Access access : operand.access) mixer.add(access);
  }
  mixer.add(static_cast<uint64_t>(value.inner)).add(uint64_t{value.kind}).add(std::bit_cast<uint64_t>(value.epsilon));
  mixer.add((value.last ? uint64_t{1} : 0) | (value.exclusive ? 2U : 0U) | (value.reverse ? 4U : 0U));
  if (value.map) mixer.add(*value.map);
  if (value.family == Family::attention) {
    const KernelContract::AttentionKind& kind = value.attention;
    mixer.add(std::bit_cast<uint64_t>(kind.scale)).add(std::bit_cast<uint64_t>(kind.softcap));
    mixer.add((kind.masked ? uint64_t{1} : 0) | (kind.causal ? 2U : 0U) | (kind.continues ? 4U : 0U) |
              (kind.partial ? 8U : 0U) | (kind.empty_is_zero ? 16U : 0U));
  }
  return mixer.add(value.expr).result();
}

size_t InternHash::operator()(const CopyDescriptor& value) const {
  return Mixer()
      .add(value.source)
      .add(value.destination)
      .add(value.overflow)
      .add(value.counts)
      .add(value.source_strides)
      .add(value.destination_strides)
      .add(value.chunk)
      .result();
}

TileGraphBuilder::TileGraphBuilder(std::string machine, uint32_t tiles) {
  graph_.machine_ = std::move(machine);
  graph_.tiles_ = tiles;
}

AllocationId TileGraphBuilder::allocation(const Allocation& allocation) {
  graph_.allocations_.push_back(allocation);
  return AllocationId(graph_.allocations_.size() - 1);
}

uint32_t TileGraphBuilder::constant(std::shared_ptr<const Tensor> tensor) {
  auto& constants = graph_.constants_;
  const auto index = static_cast<uint32_t>(constants.size());
  const std::span<const std::byte> bytes = tensor->bytes();
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<uint32_t>& alike = constants_by_hash_[boost::hash<std::string_view>()(content)];
  for (const uint32_t other : alike)
    if (constants[other] == tensor || *constants[other] == *tensor) return other;
  alike.push_back(index);
  constants.push_back(std::move(tensor));
  return index;
}

void TileGraphBuilder::input(std::string name, const Type& type, AllocationId allocation, int64_t offset) {
  graph_.inputs_.push_back({std::move(name), type, allocation, offset});
}

void TileGraphBuilder::output(std::string name, const Type& type, AllocationId allocation, int64_t offset) {
  graph_.outputs_.push_back({std::move(name), type, allocation, offset});
}

void TileGraphBuilder::begin_region() { open_regions_.emplace_back(); }

RegionId TileGraphBuilder::end_region() {
  LOW_CHECK(!open_regions_.empty());
  graph_.regions_.push_back({append(graph_.steps_, open_regions_.back())});
  open_regions_.pop_back();
  const RegionId id(graph_.regions_.size() - 1);
  if (open_regions_.empty() && !graph_.root_.valid()) graph_.root_ = id;
  return id;
}

void TileGraphBuilder::repeat(uint32_t level, uint64_t count, RegionId body) {
  LOW_CHECK(!open_regions_.empty());
  open_regions_.back().push_back({Step::Kind::repeat, static_cast<uint32_t>(graph_.repeats_.size())});
  graph_.repeats_.push_back({level, count, body});
}

void TileGraphBuilder::begin_superstep() {
  superstep_.clear();
  first_exchange_ = static_cast<uint32_t>(graph_.exchanges_.size());
}

void TileGraphBuilder::exchange(const View& source, std::span<const View> destinations) {
  graph_.exchanges_.push_back({source, append(graph_.views_, destinations)});
}

void TileGraphBuilder::run(ContractId contract, TileId tile, std::span<const View> operands) {
  superstep_.push_back({Command::Kind::run, static_cast<uint32_t>(graph_.runs_.size())});
  graph_.runs_.push_back({contract, tile, append(graph_.views_, operands)});
}

void TileGraphBuilder::copy(DescriptorId descriptor, const View& source, const View& destination, TileId tile) {
  superstep_.push_back({Command::Kind::copy, static_cast<uint32_t>(graph_.copies_.size())});
  graph_.copies_.push_back({descriptor, source, destination, tile});
}

void TileGraphBuilder::end_superstep() {
  LOW_CHECK(!open_regions_.empty());
  const auto exchanges = static_cast<uint32_t>(graph_.exchanges_.size()) - first_exchange_;
  if (superstep_.empty() && exchanges == 0) return;
  // By tile, each tile's in the order they came.
  std::vector<std::pair<TileId, uint32_t>> order;
  for (uint32_t i = 0; i < superstep_.size(); ++i) order.emplace_back(graph_.tile(superstep_[i]), i);
  std::sort(order.begin(), order.end());
  open_regions_.back().push_back({Step::Kind::superstep, static_cast<uint32_t>(graph_.supersteps_.size())});
  const Span32 commands{static_cast<uint32_t>(graph_.commands_.size()), static_cast<uint32_t>(order.size())};
  for (const auto& [tile, i] : order) graph_.commands_.push_back(superstep_[i]);
  graph_.supersteps_.push_back({{first_exchange_, exchanges}, commands});
  superstep_.clear();
  first_exchange_ = static_cast<uint32_t>(graph_.exchanges_.size());
}

// Everything is added a second time, to a new builder, in the order of the program: what is not reached is dropped, and ids come
// out in the order of first use.
Result<TileGraph> TileGraphBuilder::finish() && {
  const auto broken = [](std::string what) { return fail(ErrorKind::internal, "tile graph: " + std::move(what)); };
  if (!open_regions_.empty()) return broken("a region was not ended");
  if (!graph_.root_.valid()) return broken("there is no region");

  // References first, so that the rest can follow them.
  const size_t allocation_count = graph_.allocations_.size();
  const auto view_is_whole = [&](const View& view) {
    return view.allocation.index < allocation_count && view.geometry.index < geometries_.values().size() &&
           uint64_t{view.terms.begin} + view.terms.count <= graph_.terms_.size();
  };
  for (size_t i = 0; i < allocation_count; ++i) {
    const Allocation& allocation = graph_.allocations_[i];
    if (allocation.type.index >= types_.values().size()) return broken(fmt::format("allocation {} has no type", i));
    if (allocation.alias.valid() && allocation.alias.index >= i) {
      return broken(fmt::format("allocation {} is an alias of allocation {}, which is not an earlier one", i,
                                allocation.alias.index));
    }
    if (allocation.role == Role::parameter && allocation.binding >= graph_.constants_.size()) {
      return broken(fmt::format("allocation {} is parameter {}, of {} constants", i, allocation.binding,
                                graph_.constants_.size()));
    }
  }
  for (size_t i = 0; i < graph_.runs_.size(); ++i) {
    const KernelRun& run = graph_.runs_[i];
    if (run.contract.index >= contracts_.values().size()) return broken(fmt::format("run {} has no contract", i));
    if (!std::ranges::all_of(slice(graph_.views_, run.operands), view_is_whole)) {
      return broken(fmt::format("run {} has an operand without allocation or geometry", i));
    }
  }
  for (size_t i = 0; i < graph_.copies_.size(); ++i) {
    const LocalCopy& copy = graph_.copies_[i];
    if (copy.descriptor.index >= descriptors_.values().size())
      return broken(fmt::format("copy {} has no descriptor", i));
    if (!view_is_whole(copy.source) || !view_is_whole(copy.destination)) {
      return broken(fmt::format("copy {} has a view without allocation or geometry", i));
    }
  }
  for (size_t i = 0; i < graph_.exchanges_.size(); ++i) {
    const Exchange& exchange = graph_.exchanges_[i];
    if (!view_is_whole(exchange.source) ||
        !std::ranges::all_of(slice(graph_.views_, exchange.destinations), view_is_whole)) {
      return broken(fmt::format("exchange {} has a view without allocation or geometry", i));
    }
  }
  for (const auto* interface : {&graph_.inputs_, &graph_.outputs_}) {
    for (const InterfaceTensor& tensor : *interface) {
      if (tensor.allocation.index >= allocation_count) {
        return broken(fmt::format("input or output '{}' has no allocation", tensor.name));
      }
    }
  }

  // The supersteps that are reached, in program order, and what they use.
  std::vector<uint8_t> visited(graph_.regions_.size());
  std::vector<uint8_t> used(allocation_count);
  const auto use = [&](const View& view) { used[view.allocation.index] = 1; };
  const std::function<Result<void>(RegionId, size_t)> mark = [&](RegionId id, size_t depth) -> Result<void> {
    if (id.index >= graph_.regions_.size()) return broken("a Repeat has no body");
    if (depth > max_depth) return broken(fmt::format("Repeats nest deeper than {}", max_depth));
    if (std::exchange(visited[id.index], uint8_t{1}) != 0)
      return broken(fmt::format("region {} is used twice", id.index));
    for (const Step& step : graph_.steps(graph_.regions_[id.index])) {
      if (step.kind == Step::Kind::repeat) {
        LOW_TRY_VOID(mark(graph_.repeats_[step.index].body, depth + 1));
        continue;
      }
      const Superstep& superstep = graph_.supersteps_[step.index];
      for (const Exchange& exchange : slice(graph_.exchanges_, superstep.exchanges)) {
        use(exchange.source);
        std::ranges::for_each(graph_.destinations(exchange), use);
      }
      for (const Command& command : graph_.commands(superstep)) {
        if (command.kind == Command::Kind::run) {
          std::ranges::for_each(graph_.operands(graph_.runs_[command.index]), use);
        } else {
          use(graph_.copies_[command.index].source);
          use(graph_.copies_[command.index].destination);
        }
      }
    }
    return {};
  };
  LOW_TRY_VOID(mark(graph_.root_, 0));
  for (const auto* interface : {&graph_.inputs_, &graph_.outputs_}) {
    for (const InterfaceTensor& tensor : *interface) used[tensor.allocation.index] = 1;
  }
  for (size_t i = allocation_count; i-- > 0;) {  // an alias is always later than what it shares
    const Allocation& allocation = graph_.allocations_[i];
    if (used[i] != 0 && allocation.alias.valid()) used[allocation.alias.index] = 1;
  }

  TileGraphBuilder next(graph_.machine_, graph_.tiles_);
  // Old ids to new ones; each value is hashed once.
  Table<TypeId, TypeId> types(types_.values().size());
  Table<GeometryId, GeometryId> geometries(geometries_.values().size());
  Table<ContractId, ContractId> contracts(contracts_.values().size());
  Table<DescriptorId, DescriptorId> descriptors(descriptors_.values().size());
  Table<AllocationId, AllocationId> allocations(allocation_count);
  const auto renumber = [](auto& table, auto id, const auto& from, auto& to) {
    if (!table[id].valid()) table[id] = to.intern(from[id]);
    return table[id];
  };
  std::vector<uint32_t> constants(graph_.constants_.size(), UINT32_MAX);
  for (size_t i = 0; i < allocation_count; ++i) {
    if (used[i] == 0) continue;
    Allocation allocation = graph_.allocations_[i];
    allocation.type = renumber(types, allocation.type, types_, next.types_);
    if (allocation.alias.valid()) allocation.alias = allocations[allocation.alias];
    if (allocation.role == Role::parameter) {
      uint32_t& constant = constants[allocation.binding];
      if (constant == UINT32_MAX) {  // constants are distinct already
        constant = static_cast<uint32_t>(next.graph_.constants_.size());
        next.graph_.constants_.push_back(graph_.constants_[allocation.binding]);
      }
      allocation.binding = constant;
    }
    allocations[AllocationId(i)] = next.allocation(allocation);
  }
  for (InterfaceTensor& tensor : graph_.inputs_) tensor.allocation = allocations[tensor.allocation];
  for (InterfaceTensor& tensor : graph_.outputs_) tensor.allocation = allocations[tensor.allocation];
  next.graph_.inputs_ = std::move(graph_.inputs_);
  next.graph_.outputs_ = std::move(graph_.outputs_);

  const auto view_of = [&](const View& old) {
    View view = old;
    view.allocation = allocations[old.allocation];
    view.geometry = renumber(geometries, old.geometry, geometries_, next.geometries_);
    view.terms = next.terms(graph_.terms(old));
    return view;
  };
  std::vector<View> views;
  const auto views_of = [&](std::span<const View> old) -> std::span<const View> {
    views.clear();
    for (const View& view : old) views.push_back(view_of(view));
    return views;
  };
  const std::function<RegionId(RegionId)> rebuild = [&](RegionId id) {
    next.begin_region();
    for (const Step& step : graph_.steps(graph_.regions_[id.index])) {
      if (step.kind == Step::Kind::repeat) {
        const RepeatStep& repeat = graph_.repeats_[step.index];
        const RegionId body = rebuild(repeat.body);
        next.repeat(repeat.level, repeat.count, body);
        continue;
      }
      const Superstep& superstep = graph_.supersteps_[step.index];
      next.begin_superstep();
      for (const Exchange& exchange : slice(graph_.exchanges_, superstep.exchanges)) {
        const View source = view_of(exchange.source);
        next.exchange(source, views_of(graph_.destinations(exchange)));
      }
      for (const Command& command : graph_.commands(superstep)) {
        if (command.kind == Command::Kind::run) {
          const KernelRun& run = graph_.runs_[command.index];
          const ContractId contract = renumber(contracts, run.contract, contracts_, next.contracts_);
          next.run(contract, run.tile, views_of(graph_.operands(run)));
        } else {
          const LocalCopy& copy = graph_.copies_[command.index];
          const View source = view_of(copy.source);
          const View destination = view_of(copy.destination);
          next.copy(renumber(descriptors, copy.descriptor, descriptors_, next.descriptors_), source, destination,
                    copy.tile);
        }
      }
      next.end_superstep();
    }
    return next.end_region();
  };
  rebuild(graph_.root_);

  TileGraph graph = std::move(next.graph_);
  graph.types_ = std::move(next.types_).take();
  graph.geometries_ = std::move(next.geometries_).take();
  graph.contracts_ = std::move(next.contracts_).take();
  graph.descriptors_ = std::move(next.descriptors_).take();
  LOW_TRY_VOID(verify(graph));
  return graph;
}

}  // namespace low
