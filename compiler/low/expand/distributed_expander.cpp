#include "compiler/low/expand/distributed_expander.h"

#include "compiler/low/expand/groups.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/space.h"

#include <algorithm>

#include <fmt/format.h>

namespace low {
namespace {

bool is_reshape_view(const Graph& graph, const RegionPlan& plan, ValueId value) {
  const OpId producer = graph.value(value).producer;
  const auto* movement = std::get_if<MovementPlan>(&plan.ops[producer.index]);
  return movement != nullptr && !movement->copy;
}

// Whether the operation computes its result in parts; others are views, or come from elsewhere.
bool computes_parts(const OpPlan& plan) {
  if (const auto* movement = std::get_if<MovementPlan>(&plan)) return movement->copy;
  return std::holds_alternative<MatmulPlan>(plan) || std::holds_alternative<SplitPlan>(plan) ||
         std::holds_alternative<AttentionPlan>(plan);
}

// How many parts producer_parts() makes, at most.
double part_count(const Graph& graph, const RegionPlan& plan, ValueId value) {
  if (graph.type(value).shape.elements() == 0) return 0;
  const OpId producer = graph.value(value).producer;
  const OpPlan& decision = plan.ops[producer.index];
  if (const auto* matmul = std::get_if<MatmulPlan>(&decision))
    return static_cast<double>(matmul_shape(graph, graph.op(producer)).batch) * matmul->grid_m * matmul->grid_n *
           matmul->grid_k;
  if (const auto* attention = std::get_if<AttentionPlan>(&decision))
    return static_cast<double>(attention_extents(graph, graph.op(producer)).batch) * attention->grid_m *
           attention->grid_heads;
  return 0;  // no more than there are tiles
}

// The parts in which the operation that produces `value` writes it, if it computes it.
std::optional<std::vector<Part>> producer_parts(const Graph& graph, const RegionPlan& plan, ValueId value) {
  const OpId producer = graph.value(value).producer;
  const Shape& shape = graph.type(value).shape;
  const OpPlan& decision = plan.ops[producer.index];
  if (const auto* matmul = std::get_if<MatmulPlan>(&decision)) return matmul_parts(shape, *matmul);
  if (const auto* split = std::get_if<SplitPlan>(&decision)) return split_parts(shape, *split);
  if (const auto* attention = std::get_if<AttentionPlan>(&decision))
    return attention_parts(attention_extents(graph, graph.op(producer)), *attention);
  if (const auto* movement = std::get_if<MovementPlan>(&decision); movement != nullptr && movement->copy)
    return split_parts(shape, movement->split);
  return {};
}

}  // namespace

DistributedExpander::DistributedExpander(const Graph& graph, const Plan& plan, const Machine& machine,
                                         ExpansionCaches& caches, const ExpansionLimits& limits)
    : graph_(graph),
      plan_(plan),
      machine_(machine),
      caches_(caches),
      budget_(machine, limits),
      builder_(machine.name, machine.tiles, caches.interners),
      geometries_(*caches.interners) {}

ValueId DistributedExpander::writer_of(const Graph& graph, const RegionPlan& plan, ValueId value) const {
  while (is_reshape_view(graph, plan, value)) value = graph.operands(graph.op(graph.value(value).producer))[0];
  return computes_parts(plan.ops[graph.value(value).producer.index]) ? value : ValueId();
}

Result<std::vector<Part>> DistributedExpander::output_parts(const Graph& graph, const RegionPlan& plan, size_t output) {
  const ValueId value = graph.operands(graph.op(graph.outputs()[output]))[0];
  const ValueId writer = writer_of(graph, plan, value);
  if (!writer.valid()) return split_parts(graph.type(value).shape, plan.outputs[output]);
  LOW_TRY_VOID(budget_.expect(part_count(graph, plan, writer)));
  return *producer_parts(graph, plan, writer);
}

Result<TileGraph> DistributedExpander::run() && {
  RegionState region{.graph = graph_, .plan = plan_.region, .level = 0};
  const auto outside = [&](const Type& type, Role role, uint32_t binding) {
    const TensorType storage{.dtype = type.dtype, .extents = type.shape};
    return builder_.allocation({.type = builder_.type(storage), .home = {}, .role = role, .binding = binding});
  };
  const auto whole = [](const Type& type, AllocationId allocation) {
    const MatrixExtents matrix = matrix_extents(type.shape);
    return Shard{{0, 0, matrix.rows, matrix.columns},
                 TileId(),
                 {.allocation = allocation, .layout = row_major({matrix.rows, matrix.columns}), .terms = {}}};
  };
  for (uint32_t i = 0; i < graph_.inputs().size(); ++i) {
    const Op& op = graph_.op(graph_.inputs()[i]);
    const Type& type = graph_.type(graph_.result(op));
    const AllocationId allocation = outside(type, Role::input, i);
    builder_.input(op.name, type, allocation);
    const MatrixExtents matrix = matrix_extents(type.shape);
    region.inputs.push_back(new_value(type.dtype, matrix));
    region.inputs.back()->shards.push_back(whole(type, allocation));
  }
  region.destinations.resize(graph_.outputs().size());
  builder_.begin_region();
  LOW_TRY_VOID(expand_region(region));
  for (uint32_t i = 0; i < graph_.outputs().size(); ++i) {
    const Op& op = graph_.op(graph_.outputs()[i]);
    const ValueId value = graph_.operands(op)[0];
    const Type& type = graph_.type(value);
    const AllocationId allocation = outside(type, Role::output, i);
    builder_.output(op.name, type, allocation);
    const Shard destination = whole(type, allocation);
    budget_.begin(op);
    LOW_TRY_VOID(begin_superstep());
    LOW_TRY_VOID(pull_into(region.values[value], destination.rect, TileId(), destination.place));
    end_superstep();
  }
  builder_.end_region();
  return std::move(builder_).finish();
}

void DistributedExpander::choose_destinations(RegionState& region) {
  for (size_t i = 0; i < region.destinations.size(); ++i) {
    if (!region.destinations[i]) continue;
    const ValueId value = region.graph.operands(region.graph.op(region.graph.outputs()[i]))[0];
    const ValueId writer = writer_of(region.graph, region.plan, value);
    if (!writer.valid() || region.wanted[writer] != nullptr) continue;
    region.wanted[writer] = &*region.destinations[i];
    region.written[i] = true;
  }
}

Result<void> DistributedExpander::expand_region(RegionState& region) {
  const Graph& graph = region.graph;
  region.values = Table<ValueId, DistributedValueRef>(graph.value_count());
  region.wanted = Table<ValueId, const Places*>(graph.value_count(), nullptr);
  region.written.assign(graph.outputs().size(), false);
  choose_destinations(region);
  for (size_t i = 0; i < graph.op_count(); ++i) LOW_TRY_VOID(expand_op(region, OpId(i)));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (!region.destinations[i] || region.written[i]) continue;
    const ValueId value = graph.operands(graph.op(graph.outputs()[i]))[0];
    budget_.begin(graph.op(graph.outputs()[i]));
    LOW_TRY_VOID(begin_superstep());
    for (const Shard& shard : *region.destinations[i])
      LOW_TRY_VOID(pull_into(region.values[value], shard.rect, shard.tile, shard.place));
    end_superstep();
  }
  return {};
}

DistributedValueRef DistributedExpander::new_value(DType dtype, MatrixExtents extents) {
  auto value = std::make_shared<DistributedValue>();
  value->dtype = dtype;
  value->rows = extents.rows;
  value->columns = extents.columns;
  kept_.push_back(value);
  return value;
}

Result<void> DistributedExpander::expand_op(RegionState& region, OpId id) {
  const Graph& graph = region.graph;
  const Op& op = graph.op(id);
  const OpPlan& plan = region.plan.ops[id.index];
  if (std::holds_alternative<Output>(op.attributes)) return {};
  if (std::holds_alternative<Input>(op.attributes)) {
    const auto index = static_cast<size_t>(std::ranges::find(graph.inputs(), id) - graph.inputs().begin());
    region.values[graph.result(op)] = region.inputs[index];
    return {};
  }
  budget_.begin(op);
  if (std::holds_alternative<Repeat>(op.attributes)) {
    LOW_TRY_VOID(expect_work(region, op, plan));
    return expand_repeat(region, id, std::get<RepeatPlan>(plan));
  }

  const ValueId result = graph.result(op);
  const Type& type = graph.type(result);
  const MatrixExtents matrix = matrix_extents(type.shape);
  const DistributedValueRef value = new_value(type.dtype, matrix);
  region.values[result] = value;
  LOW_TRY_VOID(expect_work(region, op, plan));
  if (const auto* constant = std::get_if<Constant>(&op.attributes)) {
    value->constant = constant->tensor;
    return {};
  }
  if (const auto* movement = std::get_if<MovementPlan>(&plan); movement != nullptr && !movement->copy) {
    // The same matrix under another shape.
    region.values[result] = region.values[graph.operands(op)[0]];
    return {};
  }
  LOW_TRY_VOID(budget_.expect(part_count(graph, region.plan, result)));
  const std::optional<std::vector<Part>> parts = producer_parts(graph, region.plan, result);
  if (!parts)
    return fail(ErrorKind::internal, fmt::format("expand: operation \"{}\" ({}) should have been fused by a graph pass",
                                                 op.name, kind_name(op.attributes)));
  if (region.wanted[result] != nullptr) {
    value->shards = *region.wanted[result];
  } else {
    LOW_TRY(value->shards, new_places(type.dtype, *parts, 1));
  }
  if (std::holds_alternative<Matmul>(op.attributes)) return expand_matmul(region, op, std::get<MatmulPlan>(plan));
  if (std::holds_alternative<Attention>(op.attributes))
    return expand_attention(region, op, std::get<AttentionPlan>(plan));
  if (const std::optional<Parts> how = parts_of(op.attributes)) {
    switch (*how) {
      case Parts::elements:
        return expand_pointwise(region, op);
      case Parts::rows:
        return expand_rows(region, op);
      case Parts::indexed:
        return expand_gather(region, op);
      case Parts::updated:
        return expand_updated(region, op);
    }
  }
  return expand_movement(region, op, std::get<MovementPlan>(plan));
}

Result<void> DistributedExpander::expect_work(const RegionState& region, const Op& op, const OpPlan& plan) {
  const auto pieces = [](int64_t extent, uint32_t grid, int64_t piece) {
    const int64_t part = part_range(extent, grid, 0).size();
    return std::max(static_cast<double>(part) / static_cast<double>(piece), 1.0);
  };
  if (op.results.count == 1 && region.graph.type(region.graph.result(op)).shape.elements() == 0) return {};
  double added = 0;
  if (const auto* matmul = std::get_if<MatmulPlan>(&plan)) {
    const MatmulShape shape = matmul_shape(region.graph, op);
    constexpr double operands = 3;  // of a run, at least
    added = operands * static_cast<double>(shape.batch) * matmul->grid_m * matmul->grid_n * matmul->grid_k *
            pieces(shape.k, matmul->grid_k, matmul->block_k);
  } else if (const auto* attention = std::get_if<AttentionPlan>(&plan)) {
    const AttentionExtents extents = attention_extents(region.graph, op);
    constexpr double operands = 4;
    added = operands * static_cast<double>(extents.batch) * static_cast<double>(extents.q_heads) * attention->grid_m *
                pieces(extents.n, 1, attention->block_n) +
            2.0 * attention->key_parts * static_cast<double>(extents.kv_batch * extents.kv_heads);
  } else if (std::holds_alternative<Pointwise>(op.attributes)) {
    // Operands whose rows repeat in a pattern are put together row by row.
    const int64_t rows = matrix_extents(region.graph.type(region.graph.result(op)).shape).rows;
    for (const ValueId operand : region.graph.operands(op)) {
      const int64_t own = matrix_extents(region.graph.type(operand).shape).rows;
      if (own != rows && own != 1) added += 2.0 * static_cast<double>(rows);
    }
  } else if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
    // Iterated and collected values, by iteration and part; constants are not cut.
    const Graph& body = *repeat->body;
    const auto slices = [&](ValueId of_body) {
      return static_cast<double>(std::min<int64_t>(body.type(of_body).shape.elements(), machine_.tiles)) *
             static_cast<double>(repeat->count);
    };
    const std::span<const ValueId> operands = region.graph.operands(op);
    for (size_t i = repeat->carried + repeat->invariant; i < operands.size(); ++i) {
      const DistributedValue& all = *region.values[operands[i]];
      if (!all.constant || !all.shards.empty()) added += slices(body.result(body.op(body.inputs()[i])));
    }
    for (size_t i = repeat->carried; i < body.outputs().size(); ++i)
      added += slices(body.operands(body.op(body.outputs()[i]))[0]);
  }
  return budget_.expect(added);
}

Result<void> DistributedExpander::expand_pointwise(RegionState& region, const Op& op) {
  const Graph& graph = region.graph;
  const ValueId result = graph.result(op);
  const Shape& shape = graph.type(result).shape;
  const std::span<const ValueId> operands = graph.operands(op);
  RunForms forms;
  std::vector<Placed> places;
  const auto make_form = [&](const Rect& rect) {
    KernelContract contract{.family = PointwiseKernel(), .expr = std::get<Pointwise>(op.attributes).expr};
    std::vector<Strides> strides;
    strides.reserve(places.size());
    for (const Placed& place : places) strides.push_back(place.layout.strides);
    const CollapsedBox box = collapse({rect.rows, rect.columns}, strides);
    RunForm form;
    for (size_t i = 0; i < places.size(); ++i) {
      const ValueId value = i < operands.size() ? operands[i] : result;
      contract.operands.push_back({graph.type(value).dtype, access_list(box.extents, box.strides[i])});
      form.geometries.push_back(geometry(box.extents, box.strides[i]));
    }
    form.contract = configured(builder_, contract, box.extents);
    return form;
  };
  LOW_TRY_VOID(begin_superstep());
  for (const Shard& shard : region.values[result]->shards) {
    places.clear();
    for (const ValueId operand : operands) {
      LOW_TRY(Placed place,
              pull_broadcast(region.values[operand], graph.type(operand).shape, shape, shard.rect, shard.tile));
      places.push_back(std::move(place));
    }
    places.push_back(shard.place);
    LOW_TRY_VOID(
        run(forms, {shard.rect.rows, shard.rect.columns}, places, shard.tile, [&] { return make_form(shard.rect); }));
  }
  end_superstep();
  return {};
}

// Along the last axis: whole rows of the first operand for the rows of each shard.
Result<void> DistributedExpander::expand_rows(RegionState& region, const Op& op) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId result = graph.result(op);
  const Shape& shape = graph.type(result).shape;
  const DistributedValueRef x = region.values[operands[0]];
  const KernelContract group = kernel_of(graph, op);
  RunForms forms;
  std::vector<Placed> places;
  const auto make_form = [&](const Rect& rect) {
    KernelContract contract = group;
    RunForm form;
    std::vector<Shape> boxes;
    for (size_t i = 0; i < places.size(); ++i) {
      Shape box{rect.rows, i == 0 ? x->columns : rect.columns};
      Strides steps = places[i].layout.strides;
      if (contract.is<ReduceKernel>() && i > 0) {  // one element a row
        box = {box[0]};
        steps = {steps[0]};
      }
      contract.operands[i].access = access_list(box, steps);
      form.geometries.push_back(geometry(box, steps));
      boxes.push_back(box);
    }
    form.contract = configured(builder_, contract, run_extents(contract, boxes));
    return form;
  };
  LOW_TRY_VOID(begin_superstep());
  for (const Shard& shard : region.values[result]->shards) {
    places.clear();
    LOW_TRY(Placed rows, pull(x, {shard.rect.row, 0, shard.rect.rows, x->columns}, shard.tile));
    places.push_back(std::move(rows));
    for (const ValueId extra : operands.subspan(1)) {
      LOW_TRY(Placed place,
              pull_broadcast(region.values[extra], graph.type(extra).shape, shape, shard.rect, shard.tile));
      places.push_back(std::move(place));
    }
    places.push_back(shard.place);
    LOW_TRY_VOID(run(forms, {shard.rect.rows}, places, shard.tile, [&] { return make_form(shard.rect); }));
  }
  end_superstep();
  return {};
}

}  // namespace low
