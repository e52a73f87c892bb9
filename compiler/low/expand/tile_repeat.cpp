#include <algorithm>

#include "compiler/low/expand/tile_expander.h"

namespace low {

Result<void> TileExpander::expand_repeat(RegionState& region, OpId id, const RepeatPlan& plan) {
  const Graph& graph = region.graph;
  const Op& op = graph.op(id);
  const auto& repeat = std::get<Repeat>(op.attributes);
  const Graph& body_graph = *repeat.body;
  const std::span<const ValueId> operands = graph.operands(op);
  const auto new_value = [&](const Type& type) {
    const MatrixShape matrix = matrix_shape(type.shape);
    auto value = std::make_shared<TileValue>(TileValue{.dtype = type.dtype,
                                                       .rows = matrix.rows,
                                                       .columns = matrix.columns,
                                                       .shards = {},
                                                       .constant = nullptr,
                                                       .steps = {}});
    kept_.push_back(value);
    return value;
  };
  if (repeat.count == 0) {
    for (uint32_t c = 0; c < repeat.carried; ++c) region.values[graph.result(op, c)] = region.values[operands[c]];
    for (uint32_t c = 0; c < repeat.collected; ++c) {
      const ValueId value = graph.result(op, repeat.carried + c);
      region.values[value] = new_value(graph.type(value));  // has no elements
    }
    return {};
  }

  RegionState body{.graph = body_graph, .plan = plan.body[0], .level = region.level + 1};
  const auto with_term = [&](const Shard& shard, int64_t period, int64_t stride, int64_t offset) {
    Shard result = shard;
    result.place.layout.offset += offset;
    result.place.terms.push_back({.level = region.level, .period = static_cast<uint32_t>(period), .stride = stride});
    return result;
  };

  // Carried: two halves where the body writes the next value.
  if (repeat.carried > 0) LOW_TRY_VOID(begin_superstep());
  for (uint32_t c = 0; c < repeat.carried; ++c) {
    const Type& type = graph.type(operands[c]);
    LOW_TRY(const std::vector<Part> parts, output_parts(body_graph, body.plan, c));
    LOW_TRY(const Places halves, new_places(type.dtype, parts, 2));
    LOW_TRY_VOID(budget_.take(3.0 * static_cast<double>(halves.size())));  // the values that share them
    const TileValueRef current = new_value(type), last = new_value(type);
    Places next;
    for (const Shard& half : halves) {
      LOW_TRY_VOID(pull_into(region.values[operands[c]], half.rect, half.tile, half.place));
      const int64_t elements = half.rect.rows * half.rect.columns;
      current->shards.push_back(with_term(half, 2, elements, 0));
      next.push_back(with_term(half, 2, -elements, elements));
      last->shards.push_back(half);
      if (repeat.count % 2 == 1) last->shards.back().place.layout.offset += elements;
    }
    body.inputs.push_back(current);
    body.destinations.emplace_back(std::move(next));
    region.values[graph.result(op, c)] = last;
  }
  if (repeat.carried > 0) end_superstep();

  for (uint32_t i = 0; i < repeat.invariant; ++i) body.inputs.push_back(region.values[operands[repeat.carried + i]]);

  for (uint32_t i = 0; i < repeat.iterated; ++i) {
    const TileValueRef all = region.values[operands[repeat.carried + repeat.invariant + i]];
    const OpId input = body_graph.inputs()[repeat.carried + repeat.invariant + i];
    const Type& type = body_graph.type(body_graph.result(body_graph.op(input)));
    const TileValueRef slice = new_value(type);
    if (all->constant && all->shards.empty()) {
      slice->constant = all->constant;
      slice->steps = all->steps;
      slice->steps.push_back({region.level, repeat.count});
      body.inputs.push_back(slice);
      continue;
    }
    // A computed value: each tile takes its share of every iteration's rows beforehand.
    const auto parts = static_cast<uint32_t>(std::clamp<int64_t>(slice->rows, 1, machine_.tiles));
    LOW_TRY(
        const Places shares,
        new_places(type.dtype, split_parts({slice->rows, slice->columns}, {.axis = 0, .parts = parts}), repeat.count));
    LOW_TRY_VOID(begin_superstep());
    for (const Shard& share : shares) {
      const int64_t elements = share.rect.rows * share.rect.columns;
      for (int64_t iteration = 0; iteration < repeat.count; ++iteration) {
        // A slice of rank 0 is one column of its value's only row.
        Rect rect = share.rect;
        if (type.shape.rank() == 0) {
          rect.column += iteration;
        } else {
          rect.row += iteration * slice->rows;
        }
        Placed place = share.place;
        place.layout.offset += iteration * elements;
        LOW_TRY_VOID(pull_into(all, rect, share.tile, place));
      }
      slice->shards.push_back(with_term(share, repeat.count, elements, 0));
    }
    end_superstep();
    body.inputs.push_back(slice);
  }

  // Collected: all iterations' values where the body writes each of them.
  for (uint32_t i = 0; i < repeat.collected; ++i) {
    const ValueId value = graph.result(op, repeat.carried + i);
    const ValueId one = body_graph.operands(body_graph.op(body_graph.outputs()[repeat.carried + i]))[0];
    const Type& type = body_graph.type(one);
    LOW_TRY(const std::vector<Part> parts, output_parts(body_graph, body.plan, repeat.carried + i));
    LOW_TRY(const Places slots, new_places(type.dtype, parts, repeat.count));
    LOW_TRY_VOID(budget_.take(static_cast<double>(slots.size()) * static_cast<double>(repeat.count + 1)));
    const TileValueRef all = new_value(graph.type(value));
    const int64_t rows = matrix_shape(type.shape).rows;
    Places next;
    for (const Shard& slot : slots) {
      const int64_t elements = slot.rect.rows * slot.rect.columns;
      next.push_back(with_term(slot, repeat.count, elements, 0));
      for (int64_t iteration = 0; iteration < repeat.count; ++iteration) {
        Shard shard = slot;
        if (type.shape.rank() == 0) {
          shard.rect.column += iteration;
        } else {
          shard.rect.row += iteration * rows;
        }
        shard.place.layout.offset += iteration * elements;
        all->shards.push_back(std::move(shard));
      }
    }
    body.destinations.emplace_back(std::move(next));
    region.values[value] = all;
  }

  builder_.begin_region();
  LOW_TRY_VOID(expand_region(body));
  const RegionId body_id = builder_.end_region();
  builder_.repeat(region.level, static_cast<uint64_t>(repeat.count), body_id);
  return {};
}

}  // namespace low
