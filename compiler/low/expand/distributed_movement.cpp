// Movements without global memory: boxes of the result's parts, each from one shard of an operand, as few as strides
// allow.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <ranges>
#include <span>

#include "compiler/low/expand/distributed_expander.h"
#include "compiler/low/expand/index_box.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/gather_axes.h"

namespace low {
namespace {

// Where one operand's elements go. The result is seen as an index space whose first axes make up the rows of its
// matrix, and the others its columns; the operand's row and column are linear in the index.
struct Source {
  DistributedValueRef value;
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
Source reshape_source(const MatrixExtents& from, const MatrixExtents& to) {
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

// How far indices may go from the piece's first element without leaving `rect`, axis by axis, from those of the
// smallest steps.
Shape fitting(const Source& source, const Piece& piece, const Rect& rect, std::span<const int> by_step) {
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
  std::vector<int> axes(static_cast<size_t>(source.space.rank()));
  std::iota(axes.begin(), axes.end(), 0);
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
Rect reach_of(const Source& source, const MatrixExtents& to) {
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
double ragged_piece_count(const MatrixExtents& from, const Rect& rect) {
  const auto elements = static_cast<double>(rect.rows) * static_cast<double>(rect.columns);
  return std::max(static_cast<double>(rect.rows), elements / static_cast<double>(from.columns));
}

// Neither row length divides the other: the rectangle row by row, each row in the runs of the operand's rows.
std::vector<Piece> ragged_pieces(const MatrixExtents& from, const MatrixExtents& to, const Rect& rect) {
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

// The expansion of one movement: for each shard of the result, the pieces of each operand that it is made of.
class DistributedExpander::MovementExpansion {
 public:
  MovementExpansion(DistributedExpander& expander, RegionState& region, const Op& op)
      : e_(expander),
        region_(region),
        op_(op),
        shape_(region.graph.type(region.graph.result(op)).shape),
        to_(matrix_extents(shape_)) {}

  Result<void> run() {
    LOW_TRY_VOID(find_sources());
    LOW_TRY_VOID(e_.begin_superstep());
    for (const Source& source : sources_) {
      const std::vector<int> by_step = axes_by_step(source);
      DistributedValue& moved_to = *region_.values[region_.graph.result(op_)];
      std::vector<uint32_t> reached;
      moved_to.index.find(moved_to.shards, reach_of(source, to_), [&](uint32_t shard) { reached.push_back(shard); });
      std::ranges::sort(reached);  // in the order of tiles
      for (const uint32_t shard : reached) LOW_TRY_VOID(move(source, by_step, moved_to.shards[shard]));
    }
    e_.end_superstep();
    return {};
  }

 private:
  Result<void> find_sources() {
    int64_t begin = 0;  // concat: of the operand, along the axis
    for (const ValueId operand : region_.graph.operands(op_)) {
      const Shape& from = region_.graph.type(operand).shape;
      if (shape_.elements() == 0 || from.elements() == 0) continue;
      LOW_TRY(Source source, std::holds_alternative<Reshape>(op_.attributes) ? reshaped(from) : mapped(from, begin));
      source.value = region_.values[operand];
      if (source.value->constant && source.value->shards.empty())
        LOW_TRY_VOID(
            e_.shard_constant(*source.value, split_parts(from, distributed_constant_split(e_.machine_, from))));
      sources_.push_back(std::move(source));
    }
    return {};
  }

  Result<Source> reshaped(const Shape& from) {
    const MatrixExtents matrix = matrix_extents(from);
    ragged_ = matrix.columns % to_.columns != 0 && to_.columns % matrix.columns != 0;
    if (!ragged_) return reshape_source(matrix, to_);
    Source source;
    source.space = {to_.rows, to_.columns};
    source.row_axes = 1;
    source.rows.strides = {0, 0};  // each piece has its own place
    source.columns.strides = {0, 1};
    source.range = {0, to_.rows};
    LOW_TRY_VOID(e_.budget_.expect(2 * ragged_piece_count(matrix, {0, 0, to_.rows, to_.columns})));
    return source;
  }

  // Of any other movement; `begin` goes on to the next operand of a concat.
  Result<Source> mapped(const Shape& from, int64_t& begin) const {
    const MatrixStrides strides = matrix_strides(from);
    Source source;
    source.space = shape_;
    source.row_axes = std::max(shape_.rank() - 1, 0);
    source.rows = moved(region_.graph, op_, {strides.rows, 0});
    source.columns = moved(region_.graph, op_, {strides.columns, 0});
    if (const auto* concat = std::get_if<Concat>(&op_.attributes)) {
      source.axis = concat->axis;
      source.range = {begin, begin + from[concat->axis]};
      source.rows.offset -= begin * source.rows.strides[concat->axis];
      source.columns.offset -= begin * source.columns.strides[concat->axis];
      begin = source.range.end;
    } else if (shape_.rank() > 0) {
      source.range = {0, shape_[0]};
    }
    return source;
  }

  // The pieces of the source that a rectangle of the result consists of.
  Result<std::vector<Piece>> pieces_of(const Source& source, const Rect& rect) {
    if (ragged_) {
      const MatrixExtents from{source.value->rows, source.value->columns};
      LOW_TRY_VOID(e_.budget_.expect(2 * ragged_piece_count(from, rect)));
      return ragged_pieces(from, to_, rect);
    }
    std::vector<Piece> pieces;
    for (const IndexBox& box : boxes_of(source, rect)) pieces.push_back(piece_of(source, box));
    return pieces;
  }

  Result<void> move(const Source& source, std::span<const int> by_step, const Shard& shard) {
    LOW_TRY_VOID(e_.budget_.take(1));
    const Strides strides = result_strides(source, shard.place.layout.strides);
    const int64_t origin = shard.place.layout.offset - shard.rect.row * shard.place.layout.strides[0] -
                           shard.rect.column * shard.place.layout.strides[1];
    LOW_TRY(std::vector<Piece> pieces, pieces_of(source, shard.rect));
    std::ranges::reverse(pieces);  // the last one is next
    while (!pieces.empty()) {
      const Piece piece = pieces.back();
      pieces.pop_back();
      LOW_TRY_VOID(e_.budget_.take(2));
      const Shard* from = nullptr;
      source.value->index.find(source.value->shards, {piece.row, piece.column, 1, 1},
                               [&](uint32_t found) { from = &source.value->shards[found]; });
      if (from == nullptr) return fail(ErrorKind::internal, "expand: a movement reads an element that no shard has");
      const Shape extents = fitting(source, piece, from->rect, by_step);
      int64_t target = origin;
      for (int axis = 0; axis < extents.rank(); ++axis) target += piece.first[axis] * strides[axis];
      transfer(source, piece, extents, *from, shard, strides, target);
      add_rest(source, piece, extents, by_step, pieces);
    }
    return {};
  }

  // Moves the first `extents` elements of a piece from the shard that has them to `target` in the result's.
  void transfer(const Source& source, const Piece& piece, const Shape& extents, const Shard& from, const Shard& to,
                const Strides& strides, int64_t target) {
    const Layout& there = from.place.layout;
    Strides steps;
    for (int axis = 0; axis < extents.rank(); ++axis)
      steps.append(source.rows.strides[axis] * there.strides[0] + source.columns.strides[axis] * there.strides[1]);
    const std::array<Strides, 2> both{steps, strides};
    const CollapsedBox box = collapse(extents, both);
    const int64_t offset = there.offset + (piece.row - from.rect.row) * there.strides[0] +
                           (piece.column - from.rect.column) * there.strides[1];
    e_.transfer(e_.view(from.place, offset, box.extents, box.strides[0]), from.tile,
                e_.view(to.place, target, box.extents, box.strides[1]), to.tile);
  }

  // What is left of a piece without its first `extents` elements: along the largest steps first, so that what lies
  // together stays so.
  static void add_rest(const Source& source, const Piece& piece, const Shape& extents, std::span<const int> by_step,
                       std::vector<Piece>& pieces) {
    Piece rest = piece;
    for (const int axis : by_step | std::views::reverse) {
      const int64_t done = extents[axis];
      if (done >= rest.extents[axis]) continue;
      Piece other = rest;
      other.first[axis] += done;
      other.extents[axis] -= done;
      other.row += done * source.rows.strides[axis];
      other.column += done * source.columns.strides[axis];
      pieces.push_back(other);
      rest.extents[axis] = done;
    }
  }

  DistributedExpander& e_;
  RegionState& region_;
  const Op& op_;
  const Shape& shape_;
  MatrixExtents to_;
  bool ragged_ = false;  // a reshape between rows of which neither is a multiple of the other
  std::vector<Source> sources_;
};

Result<void> DistributedExpander::expand_movement(RegionState& region, const Op& op, const MovementPlan&) {
  return MovementExpansion(*this, region, op).run();
}

}  // namespace low
