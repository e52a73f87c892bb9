#include "compiler/search/distributed_layout.h"

#include "compiler/base/hash.h"

#include <algorithm>

#include "compiler/base/integers.h"

namespace low {
namespace {

// Which of a matrix's row pieces (parts, cut into shares) a row lies in.
int64_t row_piece(const DistributedLayout& layout, int64_t row) {
  const int64_t part = quotient(row, layout.part_m);
  if (layout.shares == 1) return part;
  return part * ceil_div(layout.part_m, layout.share) + (row - part * layout.part_m) / layout.share;
}

}  // namespace

MatrixExtents matrix_extents(const Shape& shape) {
  MatrixExtents extents;
  const int rank = shape.rank();
  if (rank > 0) extents.columns = shape[rank - 1];
  for (int axis = 0; axis + 1 < rank; ++axis) extents.rows *= shape[axis];
  return extents;
}

uint64_t hash_of(const DistributedLayout& layout) {
  WordHash hash;
  hash.add(layout.kind).add(layout.iterations).add(layout.batch).add(layout.m).add(layout.n);
  hash.add(layout.part_batch).add(layout.part_m).add(layout.part_n).add(layout.share);
  hash.add(layout.grid_batch).add(layout.grid_m).add(layout.grid_n).add(layout.shares);
  return hash.result();
}

DistributedLayout layout_of(const MatmulShape& shape, const MatmulPlan& plan) {
  DistributedLayout layout;
  layout.kind = DistributedLayout::Kind::tiles;
  layout.batch = shape.batch;
  layout.m = shape.m;
  layout.n = shape.n;
  layout.part_batch = part_size(shape.batch, plan.grid_batch);
  layout.part_m = part_size(shape.m, plan.grid_m);
  layout.part_n = part_size(shape.n, plan.grid_n);
  layout.share = part_size(layout.part_m, plan.grid_k);
  layout.grid_batch = plan.grid_batch;
  layout.grid_m = plan.grid_m;
  layout.grid_n = plan.grid_n;
  layout.shares = plan.grid_k;
  return layout;
}

DistributedLayout layout_of(const AttentionExtents& shape, const AttentionPlan& plan) {
  DistributedLayout layout;
  layout.kind = DistributedLayout::Kind::tiles;
  layout.batch = shape.batch;
  layout.m = shape.m;
  layout.n = shape.q_heads * shape.dv;
  layout.grid_batch = plan.grid_batch;
  layout.grid_m = plan.grid_m;
  layout.grid_n = plan.grid_heads;
  layout.part_batch = part_size(shape.batch, plan.grid_batch);
  layout.part_m = layout.share = part_size(shape.m, plan.grid_m);
  layout.part_n = part_size(shape.q_heads, plan.grid_heads) * shape.dv;
  return layout;
}

DistributedLayout layout_of(const Shape& shape, const SplitPlan& plan) {
  const MatrixExtents extents = matrix_extents(shape);
  DistributedLayout layout;
  layout.kind = DistributedLayout::Kind::tiles;
  layout.m = std::max<int64_t>(extents.rows, 1);
  layout.n = std::max<int64_t>(extents.columns, 1);
  layout.part_m = layout.m;
  layout.part_n = layout.n;
  if (static_cast<int>(plan.axis) + 1 < shape.rank()) {
    layout.part_m = part_size(layout.m, plan.parts);
    layout.grid_m = plan.parts;
  } else {
    layout.part_n = part_size(layout.n, plan.parts);
    layout.grid_n = plan.parts;
  }
  layout.share = layout.part_m;
  return layout;
}

namespace {

// Which matrices are looked at: each one, unless they are many more than a tile of any workload reads. Of those, evenly
// spaced ones speak for their neighbours: a plan that moves so many pieces is dear, whatever their number.
struct Steps {
  int64_t wanted = 1, layout = 1;  // from one matrix of the reader, and of the layout within it, to the next
};

Steps steps_of(const DistributedLayout& layout, const Wanted& wanted) {
  constexpr int64_t looks = 1 << 14, fewer_wanted = 1 << 10, fewer_of_layout = 1 << 4;
  const int64_t matrices = wanted.matrix_end - wanted.matrix_begin;
  const int64_t inner = (wanted.row_end - wanted.row_begin) / layout.m + 1;
  if (matrices <= looks / inner) return {};
  return {.wanted = (matrices - 1) / fewer_wanted + 1, .layout = (inner - 1) / fewer_of_layout + 1};
}

}  // namespace

ShardRanges shard_of(const DistributedLayout& layout, uint64_t tile) {
  const auto [b, i, j, p] = place_in_grid(tile, layout.grid_m, layout.grid_n, layout.shares);
  const Range rows = piece_range(layout.m, layout.part_m, i);
  return {piece_range(layout.batch, layout.part_batch, b),
          {std::min(rows.begin + p * layout.share, rows.end), std::min(rows.begin + (p + 1) * layout.share, rows.end)},
          piece_range(layout.n, layout.part_n, j)};
}

Arrival arrival(const DistributedLayout& layout, const Wanted& wanted, uint64_t tile) {
  Arrival result;
  const int64_t elements = wanted.elements();
  if (elements <= 0) return result;
  if (layout.kind == DistributedLayout::Kind::constant) {
    result.local = elements;
    return result;
  }
  if (layout.kind == DistributedLayout::Kind::host) {
    result.remote = elements;
    result.pieces = wanted.matrix_end - wanted.matrix_begin;
    return result;
  }
  // The tile's own shard; outside of the grid an empty one.
  const ShardRanges own = tile < layout.parts() ? shard_of(layout, tile) : ShardRanges();
  const Range columns{wanted.column_begin, wanted.column_end};
  const int64_t local_columns = intersection(columns, own.columns).size();
  const int64_t column_pieces = quotient(columns.end - 1, layout.part_n) - quotient(columns.begin, layout.part_n) + 1;
  const Steps steps = steps_of(layout, wanted);
  int64_t rows_seen = 0;
  for (int64_t matrix = wanted.matrix_begin; matrix < wanted.matrix_end; matrix += steps.wanted) {
    int64_t row = matrix * wanted.matrix_rows + wanted.row_begin;
    const int64_t end = matrix * wanted.matrix_rows + wanted.row_end;
    while (row < end) {  // the layout's matrices may be others than the reader's
      const int64_t of = quotient(row, layout.m);
      const Range rows{row - of * layout.m, std::min(end - of * layout.m, layout.m)};
      const bool mine = of >= own.batch.begin && of < own.batch.end;
      const int64_t local_rows = mine ? intersection(rows, own.rows).size() : 0;
      result.local += local_rows * local_columns;
      result.pieces += (row_piece(layout, rows.end - 1) - row_piece(layout, rows.begin) + 1) * column_pieces -
                       (local_rows * local_columns > 0 ? 1 : 0);
      rows_seen += rows.size();
      row = (of + steps.layout) * layout.m;
    }
  }
  if (steps.wanted > 1 || steps.layout > 1) {
    const double ratio = static_cast<double>(elements) / (static_cast<double>(rows_seen) * columns.size());
    result.local = std::min(elements, static_cast<int64_t>(static_cast<double>(result.local) * ratio));
    result.pieces = static_cast<int64_t>(std::min(static_cast<double>(result.pieces) * ratio, 0x1p50));
  }
  result.remote = elements - result.local;
  return result;
}

}  // namespace low
