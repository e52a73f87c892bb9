#include <algorithm>

#include "compiler/low/expand/attention_runs.h"
#include "compiler/low/expand/expander.h"

namespace low {
namespace {

// Rows and columns of one batch of a value [batch, rows, columns]: the layout of a matrix whose element (0, 0) is (batch, row, column).
Placed matrix_of(const Placed& value, int64_t batch, int64_t row, int64_t column) {
  Placed matrix = value;
  const Strides& strides = value.layout.strides;
  matrix.layout = {.strides = {strides[1], strides[2]},
                   .offset = value.layout.offset + batch * strides[0] + row * strides[1] + column * strides[2]};
  return matrix;
}

}  // namespace

Result<void> Expander::expand_attention(RegionState& region, const Op& op, const AttentionPlan& plan) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Shape& shape = graph.type(value).shape;
  const AttentionRuns runs(graph, op, machine_);
  const AttentionExtents& extents = runs.extents();
  const bool causal = extents.causal, flash = plan.algorithm == AttentionAlgorithm::flash;
  LOW_TRY_VOID(runs.check_size());

  const Placed result = result_place(region, value);
  region.places[value] = result;
  if (shape.elements() == 0) return {};  // however many batches of nothing
  std::vector<Placed> extras;
  for (const ValueId extra : runs.extras()) {
    extras.push_back(region.places[extra]);
    extras.back().layout = expanded(extras.back().layout, graph.type(extra).shape, shape);
  }
  // Where a row's diagonal stands: flash reads a number for each block, materialized scores a mask.
  std::optional<Placed> diagonals, causal_mask;
  if (causal && flash) {
    Tensor numbers(DType::i32, {extents.m});
    for (int64_t row = 0; row < extents.m; ++row) numbers.data<int32_t>()[row] = runs.diagonal(row, 0);
    diagonals = constant_place({std::make_shared<const Tensor>(std::move(numbers))});
  } else if (causal) {
    causal_mask = constant_place({std::make_shared<const Tensor>(runs.causal_mask())});
  }
  std::vector<std::optional<Placed>> scores(machine_.tiles);

  std::vector<Placed> places;
  std::vector<Strides> strides;
  const auto run = [&](const AttentionStage& stage, int64_t rows, TileId tile) {
    strides.clear();
    for (const Placed& place : places) strides.push_back(place.layout.strides);
    const AttentionRuns::Form form = runs.form(stage, rows, extents.n, strides);
    std::vector<View> views;
    views.reserve(places.size());
    for (size_t i = 0; i < places.size(); ++i)
      views.push_back(view(places[i], places[i].layout.offset, form.extents[i], form.strides[i]));
    builder_.run(builder_.contract(form.contract), tile, views);
  };
  const auto mask_of = [&](int64_t batch, int64_t head, int64_t row) {
    // The mask is row-major or broadcast along any axis: its strides say where a row of a head begins.
    const Placed& mask = region.places[operands[3]];
    const Shape& mask_shape = graph.type(operands[3]).shape;
    const int64_t index = batch * extents.q_heads + head, heads = runs.attributes().mask_heads;
    const Strides& s = mask.layout.strides;
    Placed matrix = mask;
    matrix.layout.offset += (mask_shape[0] == 1 ? 0 : index / heads * s[0]) +
                            (mask_shape[1] == 1 ? 0 : index % heads * s[1]) + (mask_shape[2] == 1 ? 0 : row * s[2]);
    matrix.layout.strides = {mask_shape[2] == 1 ? 0 : s[2], mask_shape[3] == 1 ? 0 : s[3]};
    return matrix;
  };
  const auto block = [&](int64_t batch, int64_t head, Range rows, TileId tile) {
    const int64_t kv_batch = extents.kv_batch_of(batch), kv_head = extents.kv_head_of(head);
    const Placed q = matrix_of(region.places[operands[0]], batch, rows.begin, head * extents.d);
    const Placed k = matrix_of(region.places[operands[1]], kv_batch, 0, kv_head * extents.d);
    const Placed v = matrix_of(region.places[operands[2]], kv_batch, 0, kv_head * extents.dv);
    const Placed out = matrix_of(result, batch, rows.begin, head * extents.dv);
    const auto add_extras = [&] {
      for (const Placed& extra : extras) places.push_back(matrix_of(extra, batch, rows.begin, head * extents.dv));
      places.push_back(out);
    };
    if (flash) {
      places = {q, k, v};
      if (runs.masked()) places.push_back(mask_of(batch, head, rows.begin));
      if (causal) {
        places.push_back(*diagonals);
        places.back().layout.offset += rows.begin;
      }
      add_extras();
      run({.kind = AttentionStage::Kind::flash}, rows.size(), tile);
      return;
    }
    // One block of scores for each tile, used by its runs one after the other.
    std::optional<Placed>& kept = scores[tile.index];
    if (!kept) kept = new_place({runs.sum_type(), {plan.block_m, extents.n}});
    places = {q, k};
    if (runs.masked()) places.push_back(mask_of(batch, head, rows.begin));
    if (causal) {
      places.push_back(*causal_mask);
      places.back().layout.offset += rows.begin * extents.n;
    }
    places.push_back(*kept);
    run({.kind = AttentionStage::Kind::scores}, rows.size(), tile);
    places = {*kept, *kept};
    run({.kind = AttentionStage::Kind::softmax}, rows.size(), tile);
    places = {*kept, v};
    add_extras();
    run({.kind = AttentionStage::Kind::sums}, rows.size(), tile);
  };

  builder_.begin_superstep();
  for (uint32_t gb = 0; gb < plan.grid_batch; ++gb) {
    const Range batches = part_range(extents.batch, plan.grid_batch, gb);
    for (uint32_t gm = 0; gm < plan.grid_m; ++gm) {
      const Range rows = part_range(extents.m, plan.grid_m, gm);
      for (uint32_t gh = 0; gh < plan.grid_heads; ++gh) {
        const Range heads = part_range(extents.q_heads, plan.grid_heads, gh);
        const TileId tile(((gb * plan.grid_m + gm) * plan.grid_heads + gh) % machine_.tiles);
        for (int64_t batch = batches.begin; batch < batches.end; ++batch)
          for (int64_t head = heads.begin; head < heads.end; ++head)
            for (int64_t row = rows.begin; row < rows.end; row += plan.block_m)
              block(batch, head, {row, std::min(row + plan.block_m, rows.end)}, tile);
      }
    }
  }
  builder_.end_superstep();
  return {};
}

}  // namespace low
