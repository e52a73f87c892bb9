// Movements without global memory: boxes of the result's parts, each from one shard of an operand, as few as strides allow.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "compiler/low/expand/index_box.h"
#include "compiler/low/expand/tile_expander.h"
#include "compiler/search/gather_axes.h"
#include "compiler/search/tile_space.h"

namespace low {
namespace {

// Where one operand's elements go. The result is seen as an index space whose first axes make up the rows of its matrix, and the others its
// columns; the operand's row and column are linear in the index.
struct Source {
  TileValueRef value;
  Shape space;
  int row_axes = 0;
  Layout rows, columns;  // over `space`
  // The part of the space that this operand fills: a range of one axis.
  int axis = 0;
  Range range;
};

Layout moved(const Graph& graph, const Op& op, const Layout& whole) {
  const Shape& from = graph.type(graph.operands(op)[0]).shape;
  const Shape& to = graph.type(graph.result(op)).shape;
  if (const auto* transpose = std::get_if<Transpose>(&op.attributes)) return transposed(whole, transpose->permutation);
  if (const auto* cut = std::get_if<Slice>(&op.attributes)) return sliced(whole, cut->start, cut->step);
  if (std::holds_alternative<Expand>(op.attributes)) return expanded(whole, from, to);
  return whole;  // concat
}

// A reshape whose matrices' rows divide one another: the longer row is cut.
Source reshape_source(const MatrixShape& from, const MatrixShape& to) {
  Source source;
  if (from.columns % to.columns == 0) {
    source.space = {from.rows, from.columns / to.columns, to.columns};
    source.row_axes = 2;
    source.rows.strides = {1, 0, 0};
    source.columns.strides = {0, to.columns, 1};
  } else {
    source.space = {to.rows, to.columns / from.columns, from.columns};
    source.row_axes = 1;
    source.rows.strides = {to.columns / from.columns, 1, 0};
    source.columns.strides = {0, 0, 1};
  }
  source.range = {0, source.space[0]};
  return source;
}

// Of an index space, a box, and where it lies in the operand's matrix.
struct Piece {
  Shape first, extents;
  int64_t row = 0, column = 0;
};
Piece piece_of(const Source& source, const IndexBox& box) {
  Piece piece{box.first, box.extents, source.rows.offset, source.columns.offset};
  for (int axis = 0; axis < box.first.rank(); ++axis) {
    piece.row += box.first[axis] * source.rows.strides[axis];
    piece.column += box.first[axis] * source.columns.strides[axis];
  }
  return piece;
}

// How far indices may go from the piece's first element without leaving `rect`, axis by axis, from those of the smallest steps.
Shape fitting(const Source& source, const Piece& piece, const Rect& rect, const std::vector<int>& by_step) {
  std::array<int64_t, 2> before{piece.row - rect.row, piece.column - rect.column};
  std::array<int64_t, 2> behind{rect.rows - 1 - before[0], rect.columns - 1 - before[1]};
  Shape extents = piece.extents;
  for (const int axis : by_step) {
    const std::array<int64_t, 2> strides{source.rows.strides[axis], source.columns.strides[axis]};
    for (size_t i = 0; i < 2; ++i) {
      if (strides[i] == 0) continue;
      const int64_t room = strides[i] > 0 ? behind[i] : before[i];
      extents[axis] = std::min(extents[axis], room / std::abs(strides[i]) + 1);
    }
    for (size_t i = 0; i < 2; ++i) {
      (strides[i] > 0 ? behind : before)[i] -= (extents[axis] - 1) * std::abs(strides[i]);
    }
  }
  return extents;
}

// Axes from the smallest to the largest step through the operand.
std::vector<int> axes_by_step(const Source& source) {
  std::vector<int> axes;
  for (int axis = 0; axis < source.space.rank(); ++axis) axes.push_back(axis);
  const auto step = [&](int axis) {
    return std::pair(std::abs(source.rows.strides[axis]), std::abs(source.columns.strides[axis]));
  };
  std::ranges::sort(axes, [&](int a, int b) { return step(a) != step(b) ? step(a) < step(b) : a > b; });
  return axes;
}

// Strides of the space's axes in the result's place.
Strides result_strides(const Source& source, const Strides& place) {
  const SplitShape split = split_axes(source.space, source.row_axes);
  const Strides rows = row_major(split.leading).strides, columns = row_major(split.trailing).strides;
  Strides strides;
  for (const int64_t stride : rows) strides.append(stride * place[0]);
  for (const int64_t stride : columns) strides.append(stride * place[1]);
  return strides;
}

// The boxes of the space that the rectangle of the result consists of.
std::vector<IndexBox> boxes_of(const Source& source, const Rect& rect) {
  const SplitShape split = split_axes(source.space, source.row_axes);
  std::vector<IndexBox> boxes;
  for (const IndexBox& rows : boxes_of_range(split.leading, rect.row, rect.row + rect.rows)) {
    for (const IndexBox& columns : boxes_of_range(split.trailing, rect.column, rect.column + rect.columns)) {
      IndexBox box = joined(rows, columns);
      if (source.space.rank() > 0) {
        const int64_t begin = std::max(box.first[source.axis], source.range.begin);
        const int64_t end = std::min(box.first[source.axis] + box.extents[source.axis], source.range.end);
        if (begin >= end) continue;
        box.first[source.axis] = begin;
        box.extents[source.axis] = end - begin;
      }
      boxes.push_back(box);
    }
  }
  return boxes;
}

// A rectangle of the result's matrix around all that the operand fills.
Rect reach_of(const Source& source, const MatrixShape& to) {
  Rect rect{0, 0, to.rows, to.columns};
  if (source.space.rank() == 0 || source.space[source.axis] == 0) return rect;
  const int64_t extent = source.space[source.axis];
  if (source.axis == 0 && source.row_axes > 0) {
    rect.row = source.range.begin * (to.rows / extent);
    rect.rows = source.range.size() * (to.rows / extent);
  } else if (source.axis == source.row_axes) {
    rect.column = source.range.begin * (to.columns / extent);
    rect.columns = source.range.size() * (to.columns / extent);
  }
  return rect;
}

// At least so many pieces: one for each row, and one for each time that the operand's rows go through.
double ragged_piece_count(const MatrixShape& from, const Rect& rect) {
  const auto elements = static_cast<double>(rect.rows) * static_cast<double>(rect.columns);
  return std::max(static_cast<double>(rect.rows), elements / static_cast<double>(from.columns));
}

// Neither row length divides the other: the rectangle row by row, each row in the runs of the operand's rows.
std::vector<Piece> ragged_pieces(const MatrixShape& from, const MatrixShape& to, const Rect& rect) {
  std::vector<Piece> pieces;
  for (int64_t row = rect.row; row < rect.row + rect.rows; ++row) {
    const int64_t end = rect.column + rect.columns;
    for (int64_t column = rect.column; column < end;) {
      const int64_t place = row * to.columns + column;
      const int64_t length = std::min(end - column, from.columns - place % from.columns);
      pieces.push_back({{row, column}, {1, length}, place / from.columns, place % from.columns});
      column += length;
    }
  }
  return pieces;
}

}  // namespace

Result<void> TileExpander::expand_movement(RegionState& region, const Op& op, const MovementPlan&) {
  const Graph& graph = region.graph;
  const ValueId result = graph.result(op);
  const Shape& shape = graph.type(result).shape;
  const MatrixShape to = matrix_shape(shape);
  bool ragged = false;
  std::vector<Source> sources;
  int64_t begin = 0;
  for (const ValueId operand : graph.operands(op)) {
    const Shape& from = graph.type(operand).shape;
    Source source;
    if (shape.elements() == 0 || from.elements() == 0) {
      continue;
    } else if (std::holds_alternative<Reshape>(op.attributes)) {
      const MatrixShape matrix = matrix_shape(from);
      ragged = matrix.columns % to.columns != 0 && to.columns % matrix.columns != 0;
      if (ragged) {
        source.space = {to.rows, to.columns};
        source.row_axes = 1;
        source.rows.strides = {0, 0};  // each piece has its own place
        source.columns.strides = {0, 1};
        source.range = {0, to.rows};
        LOW_TRY_VOID(budget_.expect(2 * ragged_piece_count(matrix, {0, 0, to.rows, to.columns})));
      } else {
        source = reshape_source(matrix, to);
      }
    } else {
      const MatrixStrides strides = matrix_strides(from);
      source.space = shape;
      source.row_axes = std::max(shape.rank() - 1, 0);
      source.rows = moved(graph, op, {strides.rows, 0});
      source.columns = moved(graph, op, {strides.columns, 0});
      if (const auto* concat = std::get_if<Concat>(&op.attributes)) {
        source.axis = concat->axis;
        source.range = {begin, begin + from[concat->axis]};
        source.rows.offset -= begin * source.rows.strides[concat->axis];
        source.columns.offset -= begin * source.columns.strides[concat->axis];
        begin = source.range.end;
      } else if (shape.rank() > 0) {
        source.range = {0, shape[0]};
      }
    }
    source.value = region.values[operand];
    if (source.value->constant && source.value->shards.empty())
      LOW_TRY_VOID(shard_constant(*source.value, split_parts(from, tile_constant_split(machine_, from))));
    sources.push_back(std::move(source));
  }

  LOW_TRY_VOID(begin_superstep());
  for (const Source& source : sources) {
    const std::vector<int> by_step = axes_by_step(source);
    TileValue& moved_to = *region.values[result];
    std::vector<uint32_t> reached;
    moved_to.index.find(moved_to.shards, reach_of(source, to), [&](uint32_t shard) { reached.push_back(shard); });
    std::ranges::sort(reached);  // in the order of tiles
    for (const uint32_t reached_shard : reached) {
      const Shard& shard = moved_to.shards[reached_shard];
      LOW_TRY_VOID(budget_.take(1));
      const Strides strides = result_strides(source, shard.place.layout.strides);
      const int64_t origin = shard.place.layout.offset - shard.rect.row * shard.place.layout.strides[0] -
                             shard.rect.column * shard.place.layout.strides[1];
      std::vector<Piece> pieces;
      if (ragged) {
        LOW_TRY_VOID(budget_.expect(2 * ragged_piece_count({source.value->rows, source.value->columns}, shard.rect)));
        pieces = ragged_pieces({source.value->rows, source.value->columns}, to, shard.rect);
      } else {
        for (const IndexBox& box : boxes_of(source, shard.rect)) pieces.push_back(piece_of(source, box));
      }
      std::ranges::reverse(pieces);  // the last one is next
      while (!pieces.empty()) {
        const Piece piece = pieces.back();
        pieces.pop_back();
        LOW_TRY_VOID(budget_.take(2));
        const Shard* from = nullptr;
        source.value->index.find(source.value->shards, {piece.row, piece.column, 1, 1},
                                 [&](uint32_t found) { from = &source.value->shards[found]; });
        if (from == nullptr) return fail(ErrorKind::internal, "expand: a movement reads an element that no shard has");
        const Shape extents = fitting(source, piece, from->rect, by_step);
        const Layout& there = from->place.layout;
        Strides steps;
        int64_t target = origin;
        for (int axis = 0; axis < extents.rank(); ++axis) {
          steps.append(source.rows.strides[axis] * there.strides[0] + source.columns.strides[axis] * there.strides[1]);
          target += piece.first[axis] * strides[axis];
        }
        const std::array<Strides, 2> both{steps, strides};
        const CollapsedBox box = collapse(extents, both);
        const int64_t source_offset = there.offset + (piece.row - from->rect.row) * there.strides[0] +
                                      (piece.column - from->rect.column) * there.strides[1];
        transfer(view(from->place, source_offset, box.extents, box.strides[0]), from->tile,
                 view(shard.place, target, box.extents, box.strides[1]), shard.tile);
        // What is left: along the largest steps first, so that what lies together stays so.
        Piece rest = piece;
        for (auto axis = by_step.rbegin(); axis != by_step.rend(); ++axis) {
          if (const int64_t done = extents[*axis]; done < rest.extents[*axis]) {
            Piece other = rest;
            other.first[*axis] += done;
            other.extents[*axis] -= done;
            other.row += done * source.rows.strides[*axis];
            other.column += done * source.columns.strides[*axis];
            pieces.push_back(other);
            rest.extents[*axis] = done;
          }
        }
      }
    }
  }
  end_superstep();
  return {};
}

}  // namespace low
