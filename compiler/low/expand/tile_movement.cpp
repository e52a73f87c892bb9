#include <algorithm>

#include "compiler/low/expand/tile_expander.h"

namespace low {
namespace {

// The result of a movement, as a layout over its operand's row-major elements.
Layout over_operand(const Graph& graph, const Op& op) {
  const Shape& from = graph.type(graph.operands(op)[0]).shape;
  const Shape& to = graph.type(graph.result(op)).shape;
  const Layout whole = row_major(from);
  if (const auto* transpose = std::get_if<Transpose>(&op.attributes)) return transposed(whole, transpose->permutation);
  if (const auto* cut = std::get_if<Slice>(&op.attributes)) return sliced(whole, cut->start, cut->step);
  if (std::holds_alternative<Expand>(op.attributes)) return expanded(whole, from, to);
  return row_major(to);  // reshape
}

const Shard* shard_at(const TileValue& value, int64_t row, int64_t column) {
  for (const Shard& shard : value.shards)
    if (contains(shard.rect, {row, column, 1, 1})) return &shard;
  return nullptr;
}

}  // namespace

// Row by row of the result's parts; each row in the longest runs that one shard of the operand has with one stride.
Result<void> TileExpander::expand_movement(RegionState& region, const Op& op, const MovementPlan&) {
  const Graph& graph = region.graph;
  const ValueId operand = graph.operands(op)[0], result = graph.result(op);
  const Shape& shape = graph.type(result).shape;
  const TileValueRef source = region.values[operand];
  if (source->constant && source->shards.empty())
    shard_constant(*source, {{{0, 0, source->rows, source->columns}, TileId(0)}});
  const Layout layout = over_operand(graph, op);
  const int rank = shape.rank();
  const int64_t step = rank == 0 ? 0 : layout.strides[rank - 1];

  begin_superstep();
  for (const Shard& shard : region.values[result]->shards) {
    for (int64_t i = 0; i < shard.rect.rows; ++i) {
      int64_t base = layout.offset, rest = shard.rect.row + i;
      for (int axis = rank - 2; axis >= 0; --axis) {
        base += rest % shape[axis] * layout.strides[axis];
        rest /= shape[axis];
      }
      for (int64_t j = 0; j < shard.rect.columns;) {
        const int64_t first = base + (shard.rect.column + j) * step;
        const int64_t row = first / source->columns, column = first % source->columns;
        const Shard* from = shard_at(*source, row, column);
        if (from == nullptr) return fail(ErrorKind::internal, "expand: a movement reads an element that no shard has");
        // How far the run goes within the row, or down the column, of this shard.
        const bool down = step != 0 && step % source->columns == 0;
        const int64_t row_step = down ? step / source->columns : 0, column_step = down ? 0 : step;
        int64_t length = 1;
        while (j + length < shard.rect.columns &&
               contains(from->rect, {row + length * row_step, column + length * column_step, 1, 1}))
          ++length;
        const Layout& there = from->place.layout;
        const int64_t source_stride = row_step * there.strides[0] + column_step * there.strides[1];
        const View source_view = view(
            from->place,
            there.offset + (row - from->rect.row) * there.strides[0] + (column - from->rect.column) * there.strides[1],
            {1, length}, {0, source_stride});
        const Layout& here = shard.place.layout;
        const View target = view(shard.place, here.offset + i * here.strides[0] + j * here.strides[1], {1, length},
                                 {0, here.strides[1]});
        transfer(source_view, from->tile, target, shard.tile);
        j += length;
      }
    }
  }
  end_superstep();
  return {};
}

}  // namespace low
