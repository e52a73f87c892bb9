#include "compiler/low/expand/expander.h"
#include "compiler/low/expand/partial_sums.h"
#include "compiler/low/expand/tile_value.h"

namespace low {
namespace {

// A [batch…, rows, columns] operand, broadcast to the result's batch dimensions.
struct Matrix {
  const Placed* place;
  Strides batch;  // strides over the result's batch dimensions
  int64_t row_stride, column_stride;
};

Matrix matrix(const Placed& place, const Shape& shape, const Shape& result, bool transposed) {
  const int rank = shape.rank();
  Shape from, to;
  Layout layout{.strides = {}, .offset = 0};
  for (int axis = 0; axis < rank - 2; ++axis) {
    from.append(shape[axis]);
    layout.strides.append(place.layout.strides[axis]);
  }
  for (int axis = 0; axis < result.rank() - 2; ++axis) to.append(result[axis]);
  const int64_t rows = place.layout.strides[rank - 2], columns = place.layout.strides[rank - 1];
  return {.place = &place,
          .batch = expanded(layout, from, to).strides,
          .row_stride = transposed ? columns : rows,
          .column_stride = transposed ? rows : columns};
}

int64_t batch_offset(const Matrix& m, const Shape& result, int64_t batch) {
  int64_t offset = m.place->layout.offset;
  for (int axis = m.batch.rank() - 1; axis >= 0; --axis) {
    offset += batch % result[axis] * m.batch[axis];
    batch /= result[axis];
  }
  return offset;
}

}  // namespace

void Expander::expand_matmul(RegionState& region, const Op& op, const MatmulPlan& plan) {
  const Graph& graph = region.graph;
  const auto& attributes = std::get<Matmul>(op.attributes);
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Shape& shape = graph.type(value).shape;
  const int rank = shape.rank();
  const int64_t m = shape[rank - 2], n = shape[rank - 1];
  const Shape& a_shape = graph.type(operands[0]).shape;
  const int64_t k = attributes.transpose_a ? a_shape[a_shape.rank() - 2] : a_shape[a_shape.rank() - 1];
  int64_t batches = 1;
  for (int axis = 0; axis < rank - 2; ++axis) batches *= shape[axis];

  const Placed place = result_place(region, value);
  region.places[value] = place;
  if (shape.elements() == 0) return;  // however many batches of nothing

  // a over (m, k), b over (k, n), extras and result over (m, n).
  std::vector<Matrix> matrices;
  matrices.push_back(matrix(region.places[operands[0]], a_shape, shape, attributes.transpose_a));
  matrices.push_back(matrix(region.places[operands[1]], graph.type(operands[1]).shape, shape, attributes.transpose_b));
  std::vector<Placed> extras;
  extras.reserve(operands.size());
  for (const ValueId extra : operands.subspan(2)) {
    extras.push_back(region.places[extra]);
    extras.back().layout = expanded(extras.back().layout, graph.type(extra).shape, shape);
    matrices.push_back(matrix(extras.back(), shape, shape, false));
  }
  matrices.push_back(matrix(place, shape, shape, false));
  const size_t result_index = matrices.size() - 1;

  KernelContract contract{
      .family = Family::gemm, .extents = {m, n, k}, .accumulate = attributes.accumulate, .stage_k = plan.block_k};
  const MathRate math =
      product_math(machine_, attributes.accumulate, graph.type(operands[0]).dtype, graph.type(operands[1]).dtype);
  contract.math = math.a;
  contract.math_b = math.b;
  const bool split = plan.grid_k > 1;
  const Expr epilogue = epilogue_of(attributes, graph.type(value).dtype);
  contract.expr = split ? plain_sum(attributes.accumulate) : epilogue;
  contract.operands.resize(matrices.size());
  for (size_t i = 0; i < operands.size(); ++i) contract.operands[i].dtype = graph.type(operands[i]).dtype;
  contract.operands[result_index].dtype = graph.type(value).dtype;

  // With a split k, share p of it is summed into slice p of an allocation of its own, and added up in another superstep.
  std::vector<Placed> partials;
  if (split) {
    Shape all{plan.grid_k};
    for (const int64_t extent : shape) all.append(extent);
    const Placed place_of_all = new_place({attributes.accumulate, all});
    for (uint32_t p = 0; p < plan.grid_k; ++p) {
      partials.push_back(place_of_all);
      partials.back().layout = row_major(shape);
      partials.back().layout.offset = p * shape.elements();
    }
    contract.operands = {contract.operands[0], contract.operands[1], {attributes.accumulate, {}}};
  }

  const auto run_block = [&](int64_t batch, Range rows, Range columns, Range depth, uint32_t p, TileId tile) {
    std::vector<View> views;
    contract.extents = {rows.size(), columns.size(), depth.size()};
    for (size_t i = 0; i < contract.operands.size(); ++i) {
      const bool is_result = i + 1 == contract.operands.size();
      const Matrix operand = is_result && split ? matrix(partials[p], shape, shape, false) : matrices[i];
      const Range down = i == 1 ? depth : rows, across = i == 0 ? depth : columns;
      const int64_t offset =
          batch_offset(operand, shape, batch) + down.begin * operand.row_stride + across.begin * operand.column_stride;
      views.push_back(
          view(*operand.place, offset, {down.size(), across.size()}, {operand.row_stride, operand.column_stride}));
      contract.operands[i].access = {access_of(down.size(), operand.row_stride),
                                     access_of(across.size(), operand.column_stride)};
    }
    builder_.run(builder_.contract(contract), tile, views);
  };

  builder_.begin_superstep();
  for (uint32_t gb = 0; gb < plan.grid_batch; ++gb) {
    const Range part_batches = part_range(batches, plan.grid_batch, gb);
    for (uint32_t gm = 0; gm < plan.grid_m; ++gm) {
      const Range part_rows = part_range(m, plan.grid_m, gm);
      for (uint32_t gn = 0; gn < plan.grid_n; ++gn) {
        const Range part_columns = part_range(n, plan.grid_n, gn);
        for (uint32_t p = 0; p < plan.grid_k; ++p) {
          const Range depth = part_range(k, plan.grid_k, p);
          const TileId tile((((gb * plan.grid_m + gm) * plan.grid_n + gn) * plan.grid_k + p) % machine_.tiles);
          for (int64_t batch = part_batches.begin; batch < part_batches.end; ++batch)
            for (int64_t row = part_rows.begin; row < part_rows.end; row += plan.block_m)
              for (int64_t column = part_columns.begin; column < part_columns.end; column += plan.block_n)
                run_block(batch, {row, std::min(row + plan.block_m, part_rows.end)},
                          {column, std::min(column + plan.block_n, part_columns.end)}, depth, p, tile);
        }
      }
    }
  }
  builder_.end_superstep();
  if (!split) return;

  KernelContract sum{.family = Family::pointwise, .math = attributes.accumulate, .accumulate = attributes.accumulate};
  const int extra_count = static_cast<int>(extras.size());
  sum.expr = with_partials(epilogue, attributes.accumulate, extra_count, static_cast<int>(plan.grid_k) - 1);
  builder_.begin_superstep();
  for (const Part& part : matmul_parts(shape, plan)) {
    const int64_t batch = part.rect.row / m, row = part.rect.row % m;
    sum.extents = {part.rect.rows, part.rect.columns};
    sum.operands.clear();
    std::vector<View> views;
    const auto add = [&](const Matrix& operand, DType dtype) {
      const int64_t offset =
          batch_offset(operand, shape, batch) + row * operand.row_stride + part.rect.column * operand.column_stride;
      views.push_back(view(*operand.place, offset, sum.extents, {operand.row_stride, operand.column_stride}));
      sum.operands.push_back(
          {dtype, {access_of(sum.extents[0], operand.row_stride), access_of(sum.extents[1], operand.column_stride)}});
    };
    add(matrix(partials[0], shape, shape, false), attributes.accumulate);
    for (size_t i = 0; i < extras.size(); ++i) add(matrices[2 + i], graph.type(operands[2 + i]).dtype);
    for (uint32_t p = 1; p < plan.grid_k; ++p) add(matrix(partials[p], shape, shape, false), attributes.accumulate);
    add(matrices[result_index], graph.type(value).dtype);
    builder_.run(builder_.contract(sum), TileId(part.tile.index % machine_.tiles), views);
  }
  builder_.end_superstep();
}

}  // namespace low
