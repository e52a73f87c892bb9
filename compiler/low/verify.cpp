// verify(TileGraph): tables first, then the tree of regions with each superstep's views and rule.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/low/tile_graph.h"
#include "compiler/low/view_use.h"

namespace low {
namespace {

constexpr uint32_t max_tiles = 1U << 20;

using Problem = std::string;  // empty: none

Problem check(const TensorType& type) {
  const std::optional<int64_t> elements = checked_elements(type.extents.extents());
  if (!elements || *elements > max_tensor_bytes / static_cast<int64_t>(byte_size(type.dtype)))
    return fmt::format("{}{} is negative or larger than {} bytes", name(type.dtype), to_string(type.extents),
                       max_tensor_bytes);
  return "";
}

Problem check(const Geometry& geometry) {
  if (geometry.strides.rank() != geometry.extents.rank()) {
    return fmt::format("extents {} and strides {} differ in rank", to_string(geometry.extents),
                       to_string(geometry.strides));
  }
  if (!checked_elements(geometry.extents.extents())) {
    return fmt::format("extents {} are out of range", to_string(geometry.extents));
  }
  return "";
}

Problem check(const CopyDescriptor& copy) {
  if (copy.source_strides.rank() != copy.counts.rank() || copy.destination_strides.rank() != copy.counts.rank()) {
    return fmt::format("counts {}, source strides {} and destination strides {} differ in rank", to_string(copy.counts),
                       to_string(copy.source_strides), to_string(copy.destination_strides));
  }
  const std::optional<int64_t> loops = checked_elements(copy.counts.extents());
  if (!loops || copy.chunk < 0 || copy.chunk > max_tensor_bytes ||
      (*loops > 0 && copy.chunk > max_tensor_bytes / *loops)) {
    return fmt::format("counts {} of chunk {} are out of range", to_string(copy.counts), copy.chunk);
  }
  return "";
}

Problem check(const KernelContract& contract) { return low::problem(contract); }

class Verifier {
 public:
  explicit Verifier(const TileGraph& graph) : graph_(graph) {}

  Result<void> verify() {
    if (graph_.tiles() == 0 || graph_.tiles() > max_tiles) {
      return problem(fmt::format("it has {} tiles, expected 1 to {}", graph_.tiles(), max_tiles));
    }
    if (!graph_.root().valid()) return problem("it has no region");
    LOW_TRY_VOID(each("type", graph_.types()));
    LOW_TRY_VOID(each("geometry", graph_.geometries()));
    LOW_TRY_VOID(each("contract", graph_.contracts()));
    LOW_TRY_VOID(each("descriptor", graph_.descriptors()));
    sizes_.reserve(graph_.allocations().size());
    for (size_t i = 0; i < graph_.allocations().size(); ++i) sizes_.push_back(graph_.storage_elements(AllocationId(i)));
    for (const Geometry& geometry : graph_.geometries()) {
      Reach found{.low = 1, .high = 0};
      if (!reach(geometry.extents.extents(), geometry.strides.extents(), 1, 0, {}, {}, found))
        found = {.low = INT64_MIN, .high = INT64_MAX};  // never within an allocation
      reaches_.push_back(found);
    }
    LOW_TRY_VOID(allocations());
    LOW_TRY_VOID(interface());
    return region(graph_.root());
  }

 private:
  [[nodiscard]] static std::unexpected<Error> problem(const std::string& what) {
    return fail(ErrorKind::internal, "tile graph: " + what);
  }
  // In a superstep's command.
  [[nodiscard]] std::unexpected<Error> problem(const ViewUse& use, const std::string& what) const {
    return problem(fmt::format("superstep {}, {}: {}", superstep_, to_string(use), what));
  }

  template <typename T>
  static Result<void> each(std::string_view kind, std::span<const T> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (const Problem found = check(values[i]); !found.empty())
        return problem(fmt::format("{} {}: {}", kind, i, found));
    }
    return {};
  }

  Result<void> allocations() {
    is_parameter_ = Table<AllocationId, uint8_t>(graph_.allocations().size());
    for (size_t i = 0; i < graph_.allocations().size(); ++i) {
      const AllocationId id(i);
      const Allocation& allocation = graph_.allocation(id);
      const auto wrong = [i](const std::string& what) { return problem(fmt::format("allocation {}: {}", i, what)); };
      if (allocation.home.valid() && allocation.home.index >= graph_.tiles()) {
        return wrong(fmt::format("its home is tile {} of {}", allocation.home.index, graph_.tiles()));
      }
      if (allocation.role != Role::parameter) continue;
      is_parameter_[id] = 1;
      const TensorType& type = graph_.type(id);
      const ConstantBox& tensor = graph_.constants()[allocation.binding];
      if (type.dtype != tensor.dtype() || graph_.storage_elements(id) != tensor.elements()) {
        return wrong(fmt::format("it is {}{}, its constant {}{}", name(type.dtype), to_string(type.extents),
                                 name(tensor.dtype()), to_string(tensor.shape)));
      }
    }
    return {};
  }

  Result<void> interface() const {
    struct Bound {
      AllocationId allocation;
      uint64_t begin, end;
      size_t input;
    };
    std::vector<Bound> bound;
    for (const auto& [kind, tensors] :
         {std::pair<std::string_view, std::span<const InterfaceTensor>>{"input", graph_.inputs()},
          {"output", graph_.outputs()}}) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        const InterfaceTensor& tensor = tensors[i];
        const auto wrong = [&, label = kind](const std::string& what) {
          return problem(fmt::format("{} {} '{}': {}", label, i, tensor.name, what));
        };
        const AllocationId id = tensor.allocation;
        if (id.index >= graph_.allocations().size()) return wrong("it has no allocation");
        if (is_parameter_[id] != 0) return wrong("it lies in a parameter");
        const DType dtype = graph_.type(id).dtype;
        if (tensor.type.dtype != dtype) {
          return wrong(fmt::format("it is {}, its allocation {}", name(tensor.type.dtype), name(dtype)));
        }
        const std::optional<int64_t> elements = checked_elements(tensor.type.shape.extents());
        if (!elements || tensor.offset < 0 || tensor.offset > graph_.storage_elements(id) ||
            *elements > graph_.storage_elements(id) - tensor.offset) {
          return wrong(fmt::format("{} from element {} does not fit into an allocation of {} elements",
                                   to_string(tensor.type), tensor.offset, graph_.storage_elements(id)));
        }
        if (kind != "input" || *elements == 0) continue;
        const uint64_t begin = static_cast<uint64_t>(tensor.offset) * byte_size(dtype);
        const uint64_t end = begin + static_cast<uint64_t>(*elements) * byte_size(dtype);
        for (const Bound& other : bound) {
          if (other.allocation == id && other.begin < end && begin < other.end) {
            return wrong(fmt::format("it shares storage with input {}", other.input));
          }
        }
        bound.push_back({id, begin, end, i});
      }
    }
    return {};
  }

  Result<void> region(RegionId id) {
    if (id.index >= graph_.regions().size()) return problem("a Repeat has no body");
    for (const Step& step : graph_.steps(graph_.regions()[id.index])) {
      if (step.kind == Step::Kind::superstep) {
        superstep_ = step.index;
        LOW_TRY_VOID(superstep(graph_.supersteps()[step.index]));
        continue;
      }
      const RepeatStep& repeat = graph_.repeats()[step.index];
      if (repeat.level != counts_.size()) {
        return problem(
            fmt::format("repeat {} has level {}, it lies in {} others", step.index, repeat.level, counts_.size()));
      }
      if (repeat.count == 0) return problem(fmt::format("repeat {} has count 0, expected at least 1", step.index));
      if (counts_.size() == max_nested_repeats)
        return problem(fmt::format("Repeats nest deeper than {}", max_nested_repeats));
      counts_.push_back(repeat.count);
      LOW_TRY_VOID(region(repeat.body));
      counts_.pop_back();
    }
    return {};
  }

  Result<void> superstep(const Superstep& step) {
    uint32_t ordinal = 0;
    for (uint32_t i = 0; i < step.exchanges.count; ++i) LOW_TRY_VOID(exchange(step.exchanges.begin + i, ordinal));
    TileId last(0);
    for (const Command& command : graph_.commands(step)) {
      const TileId tile = graph_.tile(command);
      if (tile.index >= graph_.tiles()) {
        return problem(fmt::format("superstep {}: tile {} of {}", superstep_, tile.index, graph_.tiles()));
      }
      if (tile < last) return problem(fmt::format("superstep {}: its commands are not ordered by tile", superstep_));
      last = tile;
      if (command.kind == Command::Kind::run) {
        LOW_TRY_VOID(run(command.index));
      } else {
        LOW_TRY_VOID(copy(command.index));
      }
    }
    Result<void> uses;
    for (const Command& command : graph_.commands(step)) {
      for_each_use(graph_, command, [&](const ViewUse& found) {
        if (uses) uses = use(found);
      });
      LOW_TRY_VOID(uses);
    }
    for (const Command& command : graph_.commands(step)) LOW_TRY_VOID(in_place(command));
    if (const auto rule = verify_superstep_rule(graph_, step, counts_, budget_); !rule) {
      return fail(rule.error().kind, fmt::format("tile graph: superstep {}: {}", superstep_, rule.error().message));
    }
    return {};
  }

  Result<void> exchange(uint32_t index, uint32_t& ordinal) const {
    const Exchange& exchange = graph_.exchanges()[index];
    const Geometry& from = graph_.geometry(exchange.source);
    const DType dtype = graph_.type(exchange.source.allocation).dtype;
    GeometryId same = exchange.source.geometry;  // the last one that was found to have the same extents
    uint32_t operand = 0;
    const auto use_of = [&](const View& view, const Geometry& geometry, const View& destination) {
      return ViewUse{.kind = ViewUse::Kind::exchange,
                     .index = index,
                     .operand = operand,
                     .write = operand > 0,
                     .tile = transfer_tile(graph_, exchange.source, destination, ordinal),
                     .view = view,
                     .extents = geometry.extents.extents(),
                     .strides = geometry.strides.extents()};
    };
    const std::span<const View> destinations = graph_.destinations(exchange);
    if (!is_plainly_in_bounds(exchange.source) && !destinations.empty())
      LOW_TRY_VOID(use(use_of(exchange.source, from, destinations[0])));
    for (const View& destination : destinations) {
      const Geometry& to = graph_.geometry(destination);
      if (destination.geometry != same && to.extents != from.extents) {
        return problem(fmt::format("superstep {}, exchange {}: source {} and destination {} differ in extents",
                                   superstep_, index, to_string(from.extents), to_string(to.extents)));
      }
      same = destination.geometry;
      if (graph_.type(destination.allocation).dtype != dtype) {
        return problem(fmt::format("superstep {}, exchange {}: source {} and destination {} differ in dtype",
                                   superstep_, index, name(dtype), name(graph_.type(destination.allocation).dtype)));
      }
      ++operand;
      if (!is_plainly_in_bounds(destination) || is_parameter_[destination.allocation] != 0)
        LOW_TRY_VOID(use(use_of(destination, to, destination)));
      ++ordinal;
    }
    return {};
  }

  // The usual case, of which nothing more needs to be known: all elements lie within the allocation in every iteration,
  // by numbers that are far from what 64 bits hold.
  bool is_plainly_in_bounds(const View& view) const {
    constexpr int64_t far = int64_t{1} << 60, far_stride = int64_t{1} << 40, far_steps = int64_t{1} << 16;
    const Reach& relative = reaches_[view.geometry.index];
    const int64_t size = sizes_[view.allocation.index];
    if (relative.low < -far || relative.high > far || view.offset < 0 || view.offset >= size || size > far)
      return false;
    int64_t low = view.offset + relative.low, high = view.offset + relative.high;
    for (const Term& term : graph_.terms(view)) {
      if (term.level >= counts_.size() || term.period == 0 || term.stride > far_stride || term.stride < -far_stride)
        return false;
      const auto steps = static_cast<int64_t>(std::min<uint64_t>(term.period, counts_[term.level])) - 1;
      if (steps > far_steps || low < -far || high > far) return false;
      (term.stride < 0 ? low : high) += steps * term.stride;
    }
    return relative.low > relative.high || (low >= 0 && high < size);
  }

  Result<void> run(uint32_t index) {
    const KernelRun& run = graph_.runs()[index];
    const KernelContract& contract = graph_.contract(run);
    const std::span<const View> operands = graph_.operands(run);
    const auto wrong = [&](const std::string& what) {
      return problem(fmt::format("superstep {}, tile {}, run {}: {}", superstep_, run.tile.index, index, what));
    };
    if (operands.size() != contract.operands.size()) {
      return wrong(fmt::format("{} operands, contract {} has {}", operands.size(), run.contract.index,
                               contract.operands.size()));
    }
    extents_.clear();
    for (size_t i = 0; i < operands.size(); ++i) {
      extents_.push_back(graph_.geometry(operands[i]).extents);
      if (const size_t rank = contract.operands[i].access.size(); static_cast<size_t>(extents_[i].rank()) != rank) {
        return wrong(fmt::format("operand {} has extents {}, contract {} wants {} axes", i, to_string(extents_[i]),
                                 run.contract.index, rank));
      }
    }
    const Shape run_space = run_extents(contract, extents_);
    if (const std::string found = run_problem(contract, run_space); !found.empty()) return wrong(found);
    for (size_t i = 0; i < operands.size(); ++i) {
      const OperandContract& expected = contract.operands[i];
      const DType dtype = graph_.type(operands[i].allocation).dtype;
      if (dtype != expected.dtype) {
        return wrong(fmt::format("operand {} is {}, contract {} wants {}", i, name(dtype), run.contract.index,
                                 name(expected.dtype)));
      }
      const Geometry& geometry = graph_.geometry(operands[i]);
      const Shape extents = operand_extents(contract, run_space, i);
      if (geometry.extents != extents) {
        return wrong(fmt::format("operand {} has extents {}, the others want {}", i, to_string(geometry.extents),
                                 to_string(extents)));
      }
      for (int axis = 0; axis < extents.rank(); ++axis) {
        const int64_t stride = geometry.strides[axis];
        const Access access = expected.access[static_cast<size_t>(axis)];
        const bool result = i + 1 == operands.size();
        if (extents[axis] <= 1) continue;
        if ((access == Access::broadcast && stride != 0) || (access == Access::unit && stride != 1)) {
          return wrong(fmt::format("operand {} has stride {} along axis {}, contract {} wants {}", i, stride, axis,
                                   run.contract.index, access == Access::unit ? 1 : 0));
        }
        if (result && stride == 0) return wrong(fmt::format("the result has stride 0 along axis {}", axis));
      }
    }
    return {};
  }

  Result<void> copy(uint32_t index) const {
    const LocalCopy& copy = graph_.copies()[index];
    const CopyDescriptor& descriptor = graph_.descriptor(copy);
    const auto wrong = [&](const std::string& what) {
      return problem(fmt::format("superstep {}, tile {}, copy {}: {}", superstep_, copy.tile.index, index, what));
    };
    const int64_t elements = descriptor.counts.elements() * descriptor.chunk;
    for (const bool source : {true, false}) {
      const View& view = source ? copy.source : copy.destination;
      const Strides& strides = source ? descriptor.source_strides : descriptor.destination_strides;
      const std::string_view side = source ? "source" : "destination";
      const DType wanted = source ? descriptor.source : descriptor.destination;
      if (const DType dtype = graph_.type(view.allocation).dtype; dtype != wanted) {
        return wrong(fmt::format("the {} is {}, descriptor {} wants {}", side, name(dtype), copy.descriptor.index,
                                 name(wanted)));
      }
      const Geometry& geometry = graph_.geometry(view);
      if (geometry.extents.elements() != elements) {
        return wrong(fmt::format("the {} has {} elements, descriptor {} moves {}", side, geometry.extents.elements(),
                                 copy.descriptor.index, elements));
      }
      for (int axis = 0; axis < strides.rank(); ++axis) {
        if (!source && strides[axis] == 0 && descriptor.counts[axis] > 1) {
          return wrong(fmt::format("the destination has stride 0 in loop {}", axis));
        }
      }
    }
    return {};
  }

  // Bounds in every iteration, and the home of what a tile touches.
  Result<void> use(const ViewUse& use) const {
    for (const Term& term : graph_.terms(use.view)) {
      if (term.level >= counts_.size()) {
        return problem(use, fmt::format("a term of level {}, inside of {} Repeats", term.level, counts_.size()));
      }
      if (term.period == 0) return problem(use, "a term of period 0");
    }
    if (use.write && is_parameter_[use.view.allocation] != 0) {
      return problem(use, fmt::format("it writes to allocation {}, a parameter", use.view.allocation.index));
    }
    const TileId home = graph_.allocation(use.view.allocation).home;
    if (use.kind != ViewUse::Kind::exchange && home.valid() && home != use.tile) {
      return problem(use, fmt::format("allocation {} is at home on tile {}", use.view.allocation.index, home.index));
    }
    const int64_t size = sizes_[use.view.allocation.index];
    if (use.kind != ViewUse::Kind::copy && is_plainly_in_bounds(use.view)) return {};
    Reach elements;
    if (!reach(use.extents, use.strides, use.chunk, use.view.offset, graph_.terms(use.view), counts_, elements)) {
      return problem(use,
                     fmt::format("it reaches out of allocation {} ({} elements)", use.view.allocation.index, size));
    }
    if (elements.low <= elements.high && (elements.low < 0 || elements.high >= size)) {
      return problem(use, fmt::format("it reaches elements {} to {} of allocation {}, which has {}", elements.low,
                                      elements.high, use.view.allocation.index, size));
    }
    if (use.kind != ViewUse::Kind::copy || elements.low > elements.high) return {};
    const Geometry& geometry = graph_.geometry(use.view);
    Reach of_geometry;
    const bool same_reach = reach(geometry.extents.extents(), geometry.strides.extents(), 1, use.view.offset,
                                  graph_.terms(use.view), counts_, of_geometry) &&
                            of_geometry.low == elements.low && of_geometry.high == elements.high;
    const size_t bytes = byte_size(graph_.type(use.view.allocation).dtype);
    if (!same_reach ||
        !byte_box(use.extents, use.strides, use.chunk, use.view.offset, bytes)
             .same_shape(byte_box(geometry.extents.extents(), geometry.strides.extents(), 1, use.view.offset, bytes))) {
      return problem(use, "its geometry is not the box that its descriptor moves");
    }
    return {};
  }

  // A command may write over what it reads only where the element that it reads is the one that it then writes.
  Result<void> in_place(const Command& command) const {
    if (command.kind == Command::Kind::run) {
      const std::span<const View> operands = graph_.operands(graph_.runs()[command.index]);
      const AllocationId result = operands.back().allocation;
      if (std::ranges::none_of(operands.first(operands.size() - 1),
                               [&](const View& view) { return view.allocation == result; }))
        return {};
    }
    std::vector<ViewUse> uses;
    for_each_use(graph_, command, [&](const ViewUse& use) { uses.push_back(use); });
    const ViewUse& result = uses.back();
    // Operands below `others` are read more than once, or elsewhere than where the result is written.
    size_t others = 0;
    if (command.kind == Command::Kind::run) {
      const KernelContract& contract = graph_.contract(graph_.runs()[command.index]);
      // A state is updated in place, row by row.
      others = first_in_place(contract);
    }
    for (size_t i = 0; i + 1 < uses.size(); ++i) {
      const ViewUse& operand = uses[i];
      if (operand.view.allocation != result.view.allocation) continue;
      if (!uses_overlap(graph_, operand, result, counts_)) continue;
      bool same = command.kind == Command::Kind::run && i >= others && operand.view.offset == result.view.offset &&
                  byte_size(graph_.type(operand.view.allocation).dtype) ==
                      byte_size(graph_.type(result.view.allocation).dtype) &&
                  std::ranges::equal(graph_.terms(operand.view), graph_.terms(result.view));
      for (size_t axis = 0; same && axis < result.extents.size(); ++axis) {
        same = operand.strides[axis] == result.strides[axis] || result.extents[axis] <= 1;
      }
      if (!same) {
        return problem(result, fmt::format("it overlaps operand {} of the same command in allocation {}", i,
                                           result.view.allocation.index));
      }
    }
    return {};
  }

  const TileGraph& graph_;
  Table<AllocationId, uint8_t> is_parameter_;
  std::vector<int64_t> sizes_;    // by allocation: elements
  std::vector<Reach> reaches_;    // by geometry: of an offset of 0, without terms
  std::vector<uint64_t> counts_;  // of the enclosing Repeats
  uint32_t superstep_ = 0;
  RuleBudget budget_;
  std::vector<Shape> extents_;  // of the operands of the run at hand
};

}  // namespace

Result<void> verify(const TileGraph& graph) { return Verifier(graph).verify(); }

}  // namespace low
