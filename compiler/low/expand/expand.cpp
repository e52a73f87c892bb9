#include <fmt/format.h>

#include "compiler/low/expand/distributed_expander.h"
#include "compiler/low/expand/expander.h"
#include "compiler/search/attention.h"
#include "compiler/search/space.h"

namespace low {
namespace {

// The operation that writes a value anew, as opposed to a view of another value.
bool writes_result(const Op& op, const OpPlan& plan) {
  if (std::holds_alternative<Matmul>(op.attributes) || std::holds_alternative<Attention>(op.attributes) || is_split(op))
    return true;
  if (const auto* movement = std::get_if<MovementPlan>(&plan)) return movement->copy;
  return false;
}

}  // namespace

Result<TileGraph> expand(const Graph& graph, const Plan& plan, const Machine& machine, ExpansionCaches& caches,
                         const ExpansionLimits& limits) {
  if (!machine.global_memory) return DistributedExpander(graph, plan, machine, caches, limits).run();
  return Expander(graph, plan, machine, caches, limits).run();
}

Result<TileGraph> expand(const Graph& graph, const Plan& plan, const Machine& machine) {
  ExpansionCaches caches;
  return expand(graph, plan, machine, caches);
}

Expander::Expander(const Graph& graph, const Plan& plan, const Machine& machine, ExpansionCaches& caches,
                   const ExpansionLimits& limits)
    : graph_(graph),
      plan_(plan),
      machine_(machine),
      caches_(caches),
      builder_(machine.name, machine.tiles, caches.interners),
      budget_(machine, limits) {}

Result<TileGraph> Expander::run() && {
  RegionState region{.graph = graph_, .plan = plan_.region, .level = 0};
  for (uint32_t i = 0; i < graph_.inputs().size(); ++i) {
    const Op& op = graph_.op(graph_.inputs()[i]);
    const Type& type = graph_.type(graph_.result(op));
    region.inputs.push_back(new_place(type, Role::input, i));
    builder_.input(op.name, type, region.inputs.back().allocation);
  }
  for (uint32_t i = 0; i < graph_.outputs().size(); ++i) {
    const Op& op = graph_.op(graph_.outputs()[i]);
    const Type& type = graph_.type(graph_.operands(op)[0]);
    region.destinations.push_back(new_place(type, Role::output, i));
    builder_.output(op.name, type, region.destinations.back().allocation);
  }
  builder_.begin_region();
  LOW_TRY_VOID(expand_region(region));
  builder_.end_region();
  return std::move(builder_).finish();
}

Placed Expander::new_place(const Type& type, Role role, uint32_t binding) {
  const TensorType storage{.dtype = type.dtype, .extents = type.shape};
  const AllocationId id =
      builder_.allocation({.type = builder_.type(storage), .home = {}, .role = role, .binding = binding});
  return {.allocation = id, .layout = row_major(type.shape), .terms = {}};
}

Placed Expander::constant_place(const Constant& constant) { return parameter_place(whole_constant(constant.tensor)); }

Placed Expander::parameter_place(ConstantBox box) {
  const Type type{box.dtype(), box.shape};
  const uint32_t index = builder_.constant(std::move(box));
  if (parameters_.size() <= index) parameters_.resize(index + 1);
  if (!parameters_[index]) parameters_[index] = new_place(type, Role::parameter, index).allocation;
  return {.allocation = *parameters_[index], .layout = row_major(type.shape), .terms = {}};
}

Placed Expander::result_place(RegionState& region, ValueId value) {
  if (region.wanted[value]) return *region.wanted[value];
  return new_place(region.graph.type(value));
}

View Expander::view(const Placed& place, int64_t offset, const Shape& extents, const Strides& strides) {
  Geometry geometry{.extents = extents, .strides = strides};
  for (int axis = 0; axis < extents.rank(); ++axis)
    if (extents[axis] == 1) geometry.strides[axis] = 0;
  return {.allocation = place.allocation,
          .geometry = builder_.geometry(geometry),
          .offset = offset,
          .terms = builder_.terms(place.terms)};
}

// A value's producer can write only one place: the first output wins; a carried initial value comes next, if nothing
// else reads it (later iterations overwrite the half that it lies in).
void Expander::choose_destinations(RegionState& region) {
  const Graph& graph = region.graph;
  std::vector<uint32_t> uses(graph.value_count(), 0);
  for (const Op& op : graph.ops())
    for (const ValueId operand : graph.operands(op)) ++uses[operand.index];
  const auto producer_writes = [&](ValueId value) {
    const OpId producer = graph.value(value).producer;
    const Op& op = graph.op(producer);
    if (writes_result(op, region.plan.ops[producer.index])) return true;
    // Collected values of a Repeat are written in place; its carried ones live in its own allocation.
    const auto* repeat = std::get_if<Repeat>(&op.attributes);
    return repeat != nullptr && graph.value(value).result >= repeat->carried;
  };
  const auto is_reshape_view = [&](ValueId value) {
    const OpId producer = graph.value(value).producer;
    return std::holds_alternative<Reshape>(graph.op(producer).attributes) &&
           !std::get<MovementPlan>(region.plan.ops[producer.index]).copy;
  };
  // Lets the producer of `value`, or of what it is a reshape of, write `place`; false when that is not possible.
  const auto direct = [&](ValueId value, Placed place, bool sole_use) {
    std::optional<Layout> layout = place.layout;
    while (layout && is_reshape_view(value) && !(sole_use && uses[value.index] > 1)) {
      const ValueId operand = graph.operands(graph.op(graph.value(value).producer))[0];
      layout = reshaped(*layout, graph.type(value).shape, graph.type(operand).shape);
      value = operand;
    }
    if (!layout || !producer_writes(value) || region.wanted[value] || (sole_use && uses[value.index] > 1)) return false;
    place.layout = *layout;
    region.wanted[value] = std::move(place);
    return true;
  };
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId value = graph.operands(graph.op(graph.outputs()[i]))[0];
    if (direct(value, region.destinations[i], false)) region.written[i] = true;
  }
  for (size_t i = 0; i < graph.op_count(); ++i) {
    const Op& op = graph.op(OpId(i));
    const auto* repeat = std::get_if<Repeat>(&op.attributes);
    if (repeat == nullptr || repeat->count == 0) continue;
    for (uint32_t c = 0; c < repeat->carried; ++c) {
      const ValueId value = graph.operands(op)[c];
      const Type& type = graph.type(value);
      // Not [2, extents…]: the value itself may have the largest rank.
      Placed half = new_place({type.dtype, {2, type.shape.elements()}});
      half.layout = row_major(type.shape);
      if (producer_writes(value) && !region.wanted[value] && uses[value.index] == 1) region.wanted[value] = half;
      region.carried[OpId(i)].push_back(std::move(half));
    }
  }
  // From the last concat to the first: one that is an operand of another has its place by then. An operand that
  // something else reads stays row-major, as readers expect.
  for (size_t i = graph.op_count(); i-- > 0;) {
    const Op& op = graph.op(OpId(i));
    const auto* concat = std::get_if<Concat>(&op.attributes);
    if (concat == nullptr) continue;
    const ValueId value = graph.result(op);
    const Placed place = result_place(region, value);
    Placed part = place;
    bool any = false;
    for (const ValueId operand : graph.operands(op)) {
      if (graph.type(operand).shape.elements() > 0 && uses[operand.index] == 1 && direct(operand, part, true)) {
        region.assembled[operand] = 1;
        any = true;
      }
      part.layout.offset += graph.type(operand).shape[concat->axis] * place.layout.strides[concat->axis];
    }
    if (any) region.wanted[value] = place;
  }
}

Result<void> Expander::expand_region(RegionState& region) {
  const Graph& graph = region.graph;
  region.places = Table<ValueId, Placed>(graph.value_count());
  region.wanted = Table<ValueId, std::optional<Placed>>(graph.value_count());
  region.carried = Table<OpId, std::vector<Placed>>(graph.op_count());
  region.assembled = Table<ValueId, uint8_t>(graph.value_count(), 0);
  region.written.assign(graph.outputs().size(), false);
  choose_destinations(region);
  for (size_t i = 0; i < graph.op_count(); ++i) LOW_TRY_VOID(expand_op(region, OpId(i)));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (region.written[i]) continue;
    const ValueId value = graph.operands(graph.op(graph.outputs()[i]))[0];
    budget_.begin(graph.op(graph.outputs()[i]));
    LOW_TRY_VOID(copy_value(graph.type(value), region.places[value], region.destinations[i], region.plan.outputs[i]));
  }
  return {};
}

Result<void> Expander::expand_op(RegionState& region, OpId id) {
  const Op& op = region.graph.op(id);
  const OpPlan& plan = region.plan.ops[id.index];
  if (std::holds_alternative<Input>(op.attributes)) {
    size_t index = 0;
    while (region.graph.inputs()[index] != id) ++index;
    region.places[region.graph.result(op)] = region.inputs[index];
    return {};
  }
  if (const auto* constant = std::get_if<Constant>(&op.attributes)) {
    region.places[region.graph.result(op)] = constant_place(*constant);
    return {};
  }
  if (std::holds_alternative<Output>(op.attributes)) return {};
  budget_.begin(op);
  LOW_TRY_VOID(count(region, op, plan));
  if (std::holds_alternative<Matmul>(op.attributes)) {
    expand_matmul(region, op, std::get<MatmulPlan>(plan));
    return {};
  }
  if (std::holds_alternative<Attention>(op.attributes))
    return expand_attention(region, op, std::get<AttentionPlan>(plan));
  if (const std::optional<Parts> parts = parts_of(op.attributes)) {
    const auto& split = std::get<SplitPlan>(plan);
    switch (*parts) {
      case Parts::elements:
        expand_pointwise(region, op, split);
        return {};
      case Parts::rows:
        return expand_group(region, op, split);
      case Parts::indexed:
        return expand_gather(region, op, split);
      case Parts::updated:
        return expand_updated(region, op, split);
    }
  }
  if (std::holds_alternative<Repeat>(op.attributes)) return expand_repeat(region, id, std::get<RepeatPlan>(plan));
  if (std::holds_alternative<Concat>(op.attributes))
    return expand_concat(region, op, std::get<MovementPlan>(plan).split);
  if (std::holds_alternative<Pad>(op.attributes)) return expand_pad(region, op, std::get<MovementPlan>(plan).split);
  if (const auto* movement = std::get_if<MovementPlan>(&plan)) return expand_movement(region, op, *movement);
  return fail(ErrorKind::internal, fmt::format("expand: operation \"{}\" ({}) should have been fused by a graph pass",
                                               op.name, kind_name(op.attributes)));
}

Result<void> Expander::count(const RegionState& region, const Op& op, const OpPlan& plan) {
  LOW_TRY_VOID(budget_.take_superstep());
  if (op.results.count == 1 && region.graph.type(region.graph.result(op)).shape.elements() == 0) return {};
  const auto blocks = [](int64_t extent, uint32_t grid, int64_t block) {
    const int64_t part = part_range(extent, grid, 0).size();
    return static_cast<double>(grid) * static_cast<double>((part + block - 1) / block);
  };
  const double operands = op.operands.count + 1;  // and the result
  if (const auto* matmul = std::get_if<MatmulPlan>(&plan)) {
    const MatmulShape shape = matmul_shape(region.graph, op);
    const auto batch = static_cast<double>(shape.batch);
    const double runs = batch * blocks(shape.m, matmul->grid_m, matmul->block_m) *
                        blocks(shape.n, matmul->grid_n, matmul->block_n) * matmul->grid_k;
    if (matmul->grid_k == 1) return budget_.take(runs * operands);
    // The products, and their sums.
    const double parts = batch * matmul->grid_m * matmul->grid_n * matmul->grid_k;
    return budget_.take(3 * runs + parts * (operands + matmul->grid_k));
  }
  if (const auto* attention = std::get_if<AttentionPlan>(&plan)) {
    const AttentionExtents extents = attention_extents(region.graph, op);
    const double rows = blocks(extents.m, attention->grid_m, attention->block_m);
    const double kinds = attention->algorithm == AttentionAlgorithm::flash ? 1 : 3;  // of runs
    return budget_.take(static_cast<double>(extents.batch) * static_cast<double>(extents.q_heads) * rows *
                        (operands + 2 * kinds));
  }
  if (const auto* split = std::get_if<SplitPlan>(&plan)) return budget_.take(split->parts * operands);
  // Movements that are no views: copies count for themselves, concat and pad copy from each operand.
  const auto* movement = std::get_if<MovementPlan>(&plan);
  if (const auto* concat = std::get_if<Concat>(&op.attributes); concat != nullptr && movement != nullptr) {
    const bool along = static_cast<uint32_t>(concat->axis) == movement->split.axis;
    return budget_.take(2 * (along ? movement->split.parts + operands : movement->split.parts * operands));
  }
  return {};
}

Result<void> Expander::expand_movement(RegionState& region, const Op& op, const MovementPlan& plan) {
  const Graph& graph = region.graph;
  const ValueId operand = graph.operands(op)[0], value = graph.result(op);
  const Shape& from = graph.type(operand).shape;
  const Shape& to = graph.type(value).shape;
  Placed moved = region.places[operand];
  if (const auto* transpose = std::get_if<Transpose>(&op.attributes)) {
    moved.layout = transposed(moved.layout, transpose->permutation);
  } else if (const auto* cut = std::get_if<Slice>(&op.attributes)) {
    moved.layout = sliced(moved.layout, cut->start, cut->step);
  } else if (std::holds_alternative<Expand>(op.attributes)) {
    moved.layout = expanded(moved.layout, from, to);
  } else if (const std::optional<Layout> layout = reshaped(moved.layout, from, to)) {
    moved.layout = *layout;
  } else {
    // No strides read this operand as the new shape: it is written row-major, under the operand's shape.
    if (!plan.copy)
      return fail(ErrorKind::invalid,
                  fmt::format("plan: reshape \"{}\" cannot be a view of its operand; it must be `copy`", op.name));
    Placed place = result_place(region, value);
    Placed as_operand = place;
    const std::optional<Layout> back = reshaped(place.layout, to, from);
    if (!back) {  // the wanted place is strided itself: go through an allocation
      const Placed packed = new_place({graph.type(operand).dtype, from});
      LOW_TRY_VOID(copy_value({graph.type(operand).dtype, from}, moved, packed, {}));
      Placed packed_as_result = packed;
      packed_as_result.layout = row_major(to);
      LOW_TRY_VOID(copy_value(graph.type(value), packed_as_result, place, plan.split));
    } else {
      as_operand.layout = *back;
      LOW_TRY_VOID(copy_value({graph.type(operand).dtype, from}, moved, as_operand,
                              {.axis = 0, .parts = from.rank() > 0 ? plan.split.parts : 1}));
    }
    region.places[value] = place;
    return {};
  }
  if (!plan.copy) {
    region.places[value] = moved;
    return {};
  }
  const Placed place = result_place(region, value);
  LOW_TRY_VOID(copy_value(graph.type(value), moved, place, plan.split));
  region.places[value] = place;
  return {};
}

void Expander::copy(const View& source, const View& destination, TileId tile) {
  add_copy(builder_, caches_, source, destination, tile);
}

Result<void> Expander::copy_value(const Type& type, const Placed& from, const Placed& to, const SplitPlan& split) {
  LOW_TRY_VOID(budget_.take_superstep());
  LOW_TRY_VOID(budget_.take(2.0 * split.parts));
  builder_.begin_superstep();
  for (uint32_t part = 0; part < split.parts; ++part) {
    Shape extents = type.shape;
    int64_t source = from.layout.offset, destination = to.layout.offset;
    if (extents.rank() > 0) {
      const int axis = static_cast<int>(split.axis);
      const Range range = part_range(extents[axis], split.parts, part);
      extents[axis] = range.size();
      source += range.begin * from.layout.strides[axis];
      destination += range.begin * to.layout.strides[axis];
    }
    if (extents.elements() == 0) continue;
    copy(view(from, source, extents, from.layout.strides), view(to, destination, extents, to.layout.strides),
         TileId(part % machine_.tiles));
  }
  builder_.end_superstep();
  return {};
}

}  // namespace low
