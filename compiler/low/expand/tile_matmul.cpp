#include <algorithm>
#include <array>

#include "compiler/low/expand/partial_sums.h"
#include "compiler/low/expand/tile_expander.h"
#include "compiler/search/tile_space.h"

namespace low {
namespace {

// An operand [batch…, rows, columns] as stored, and which of its batches a batch of the result reads.
struct Operand {
  int64_t rows = 0;  // of one batch's matrix as stored
  bool transposed = false;
  Strides batch_strides;  // over the result's batch dimensions, in batches

  int64_t batch(const Shape& result, int64_t index) const {
    int64_t own = 0;
    for (int axis = batch_strides.rank() - 1; axis >= 0; --axis) {
      own += index % result[axis] * batch_strides[axis];
      index /= result[axis];
    }
    return own;
  }
  // Rows `outer` and columns `inner` of the logical matrix, as a rectangle of the stored one.
  Rect rect(int64_t own_batch, Range outer, Range inner) const {
    if (transposed) return {own_batch * rows + inner.begin, outer.begin, inner.size(), outer.size()};
    return {own_batch * rows + outer.begin, inner.begin, outer.size(), inner.size()};
  }
};

Operand operand_of(const Shape& shape, const Shape& result, bool transposed) {
  Shape from, to;
  for (int axis = 0; axis + 2 < shape.rank(); ++axis) from.append(shape[axis]);
  for (int axis = 0; axis + 2 < result.rank(); ++axis) to.append(result[axis]);
  return {shape[shape.rank() - 2], transposed, expanded(row_major(from), from, to).strides};
}

// Strides over the logical (outer, inner) axes.
Strides logical(const Placed& place, bool transposed) {
  return transposed ? Strides{place.layout.strides[1], place.layout.strides[0]} : place.layout.strides;
}

}  // namespace

Result<void> TileExpander::expand_matmul(RegionState& region, const Op& op, const MatmulPlan& plan) {
  const Graph& graph = region.graph;
  const auto& attributes = std::get<Matmul>(op.attributes);
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId result = graph.result(op);
  const Shape& shape = graph.type(result).shape;
  const int64_t m = shape[shape.rank() - 2];
  const Shape& a_shape = graph.type(operands[0]).shape;
  const Shape& b_shape = graph.type(operands[1]).shape;
  const int64_t k = attributes.transpose_a ? a_shape[a_shape.rank() - 2] : a_shape[a_shape.rank() - 1];
  const Operand a = operand_of(a_shape, shape, attributes.transpose_a),
                b = operand_of(b_shape, shape, attributes.transpose_b);
  const DType accumulate = attributes.accumulate;
  const TileValueRef a_value = region.values[operands[0]], b_value = region.values[operands[1]];

  const Expr epilogue = epilogue_of(attributes, graph.type(result).dtype);
  const Expr plain = plain_sum(accumulate);
  const int extras = static_cast<int>(operands.size()) - 2;

  // Whole parts (before their rows are shared among the tiles of a split k), each with the k share of its tile.
  struct Work {
    int64_t batch;
    Rect rect;  // of the result
    TileId tile;
    Range share;
  };
  MatmulPlan whole = plan;
  whole.grid_k = 1;
  std::vector<Work> work;
  for (const Part& part : matmul_parts(shape, whole))
    for (uint32_t p = 0; p < plan.grid_k; ++p)
      work.push_back(
          {part.rect.row / m, part.rect, TileId(part.tile.index * plan.grid_k + p), part_range(k, plan.grid_k, p)});

  // A large constant b: tile (i, j) keeps the i-th slice of the rows of its own rectangle.
  if (b_value->constant && b_value->shards.empty()) {
    std::vector<Part> kept;
    double batches_of_b = 1;
    for (int axis = 0; axis + 2 < b_shape.rank(); ++axis) batches_of_b *= static_cast<double>(b_shape[axis]);
    LOW_TRY_VOID(budget_.expect(batches_of_b * plan.grid_m * plan.grid_n * plan.grid_k));
    for (uint32_t gn = 0; gn < plan.grid_n; ++gn) {
      const Range columns = part_range(shape[shape.rank() - 1], plan.grid_n, gn);
      if (columns.size() == 0) continue;
      for (uint32_t p = 0; p < plan.grid_k; ++p) {
        const Range share = part_range(k, plan.grid_k, p);
        for (uint32_t gm = 0; gm < plan.grid_m; ++gm) {
          const Range slice = part_range(share.size(), plan.grid_m, gm);
          if (slice.size() == 0) continue;
          int64_t batches = 1;
          for (int axis = 0; axis + 2 < b_shape.rank(); ++axis) batches *= b_shape[axis];
          for (int64_t batch = 0; batch < batches; ++batch)
            kept.push_back({b.rect(batch, {share.begin + slice.begin, share.begin + slice.end}, columns),
                            TileId((gm * plan.grid_n + gn) * plan.grid_k + p)});
        }
      }
    }
    bool large = false;
    for (const Part& part : kept)
      large = large || part.rect.rows * part.rect.columns * plan.grid_m > max_replicated_elements;
    if (large) LOW_TRY_VOID(shard_constant(*b_value, kept));
  }

  int64_t panels = 1;
  for (uint32_t p = 0; p < plan.grid_k; ++p) {
    const int64_t depth = part_range(k, plan.grid_k, p).size();
    panels = std::max(panels, (depth + plan.block_k - 1) / plan.block_k);
  }
  const bool split = plan.grid_k > 1;
  // Sums that outlive a superstep.
  std::vector<Placed> sums(work.size());
  LOW_TRY_VOID(budget_.take(static_cast<double>(work.size()) * (split || panels > 1 ? 2 : 1)));
  if (split || panels > 1)
    for (size_t i = 0; i < work.size(); ++i)
      sums[i] = new_local(accumulate, work[i].rect.rows, work[i].rect.columns, work[i].tile);

  const TileValueRef output = region.values[result];
  const MathRate math =
      product_math(machine_, accumulate, graph.type(operands[0]).dtype, graph.type(operands[1]).dtype);
  RunForms forms;
  std::vector<Placed> places;
  const auto make_form = [&](const std::array<int64_t, 3>& e, bool final, bool adds) {
    KernelContract contract{.family = Family::gemm,
                            .extents = {e[0], e[1], e[2]},
                            .math = math.a,
                            .math_b = math.b,
                            .accumulate = accumulate,
                            .stage_k = e[2]};
    RunForm form;
    const auto add = [&](const Shape& extents, bool transposed, DType dtype) {
      const Strides strides = logical(places[form.geometries.size()], transposed);
      contract.operands.push_back({dtype, access_list(extents, strides)});
      form.geometries.push_back(geometry(extents, strides));
    };
    add({e[0], e[2]}, a.transposed, a_value->dtype);
    add({e[2], e[1]}, b.transposed, b_value->dtype);
    const Shape part{e[0], e[1]};
    if (final)
      for (const ValueId extra : operands.subspan(2)) add(part, false, graph.type(extra).dtype);
    if (adds) add(part, false, accumulate);
    add(part, false, final ? graph.type(result).dtype : accumulate);
    contract.expr = with_partials(final ? epilogue : plain, accumulate, final ? extras : 0, adds ? 1 : 0);
    form.contract = builder_.contract(contract);
    return form;
  };
  for (int64_t panel = 0; panel < panels; ++panel) {
    LOW_TRY_VOID(begin_superstep());
    for (size_t i = 0; i < work.size(); ++i) {
      const Work& part = work[i];
      const Range rows{part.rect.row % m, part.rect.row % m + part.rect.rows};
      const Range columns{part.rect.column, part.rect.column + part.rect.columns};
      const Range depth{std::min(part.share.end, part.share.begin + panel * plan.block_k),
                        std::min(part.share.end, part.share.begin + (panel + 1) * plan.block_k)};
      const bool last = panel + 1 == panels;
      if (depth.size() == 0 && !(panel == 0) && (split || !last)) continue;  // nothing to add
      const bool final = last && !split;
      const bool adds = panel > 0;
      places.clear();
      LOW_TRY(Placed of_a, pull(a_value, a.rect(a.batch(shape, part.batch), rows, depth), part.tile));
      places.push_back(std::move(of_a));
      LOW_TRY(Placed of_b, pull(b_value, b.rect(b.batch(shape, part.batch), depth, columns), part.tile));
      places.push_back(std::move(of_b));
      if (final) {
        for (const ValueId extra : operands.subspan(2)) {
          LOW_TRY(Placed place,
                  pull_broadcast(region.values[extra], graph.type(extra).shape, shape, part.rect, part.tile));
          places.push_back(std::move(place));
        }
      }
      if (adds) places.push_back(sums[i]);
      places.push_back(final ? output->shards[i].place : sums[i]);
      const std::array<int64_t, 3> extents{part.rect.rows, part.rect.columns, depth.size()};
      LOW_TRY_VOID(run(forms, {extents[0], extents[1], extents[2], final ? 1 : 0, adds ? 1 : 0}, places, part.tile,
                       [&] { return make_form(extents, final, adds); }));
    }
    end_superstep();
  }
  if (!split) return {};

  // Every tile of a part adds up its share of rows of all partial sums.
  std::vector<TileValueRef> partial;
  for (uint32_t p = 0; p < plan.grid_k; ++p) {
    partial.push_back(std::make_shared<TileValue>(TileValue{.dtype = accumulate,
                                                            .rows = output->rows,
                                                            .columns = output->columns,
                                                            .shards = {},
                                                            .constant = nullptr,
                                                            .steps = {}}));
    for (size_t i = p; i < work.size(); i += plan.grid_k)
      partial[p]->shards.push_back({work[i].rect, work[i].tile, sums[i]});
    kept_.push_back(partial[p]);
  }
  RunForms sum_forms;
  const auto make_sum = [&](const Rect& rect) {
    const Shape extents{rect.rows, rect.columns};
    KernelContract contract{
        .family = Family::pointwise, .extents = extents, .math = accumulate, .accumulate = accumulate};
    contract.expr = with_partials(epilogue, accumulate, extras, static_cast<int>(plan.grid_k) - 1);
    RunForm form;
    for (size_t i = 0; i < places.size(); ++i) {
      const bool extra = i > 0 && i < operands.size() - 1;
      const DType dtype = i + 1 == places.size() ? graph.type(result).dtype
                          : extra                ? graph.type(operands[i + 1]).dtype
                                                 : accumulate;
      contract.operands.push_back({dtype, access_list(extents, places[i].layout.strides)});
      form.geometries.push_back(geometry(extents, places[i].layout.strides));
    }
    form.contract = builder_.contract(contract);
    return form;
  };
  LOW_TRY_VOID(begin_superstep());
  for (const Shard& shard : output->shards) {
    places.clear();
    const auto add_partial = [&](uint32_t p) -> Result<void> {
      LOW_TRY(Placed place, pull(partial[p], shard.rect, shard.tile));
      places.push_back(std::move(place));
      return {};
    };
    LOW_TRY_VOID(add_partial(0));
    for (const ValueId extra : operands.subspan(2)) {
      LOW_TRY(Placed place,
              pull_broadcast(region.values[extra], graph.type(extra).shape, shape, shard.rect, shard.tile));
      places.push_back(std::move(place));
    }
    for (uint32_t p = 1; p < plan.grid_k; ++p) LOW_TRY_VOID(add_partial(p));
    places.push_back(shard.place);
    LOW_TRY_VOID(run(sum_forms, {shard.rect.rows, shard.rect.columns}, places, shard.tile,
                     [&] { return make_sum(shard.rect); }));
  }
  end_superstep();
  return {};
}

}  // namespace low
