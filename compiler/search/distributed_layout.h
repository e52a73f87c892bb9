// Where a value lies on a machine without global memory: what a later operation sees of an earlier one's decision. All
// elements are counted in the value's matrix [rows, columns]; see plan.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/base/range.h"
#include "compiler/search/attention.h"
#include "compiler/search/plan.h"
#include "compiler/search/space.h"

namespace low {

// [rows, columns] of a shape: the last axis, and all before it; [1, 1] for rank 0.
struct MatrixExtents {
  int64_t rows = 1, columns = 1;
};
MatrixExtents matrix_extents(const Shape& shape);

struct DistributedLayout {
  enum class Kind : uint8_t {
    host,      // outside of the tiles: model inputs, collected values
    constant,  // known to the compiler: each tile is given what it wants
    tiles,
  } kind = Kind::host;
  uint64_t iterations = 1;  // constant: the slices that a tile holds, one for each iteration of the Repeats around
  // tiles: rows are `batch` matrices of m rows. Part (b, i, j, p) holds rows [p * share, …) of rows [i * part_m, …) of
  // the matrices [b * part_batch, …), columns [j * part_n, …), on tile ((b * grid_m + i) * grid_n + j) * shares + p.
  int64_t batch = 1, m = 1, n = 1;
  int64_t part_batch = 1, part_m = 1, part_n = 1, share = 1;
  uint32_t grid_batch = 1, grid_m = 1, grid_n = 1, shares = 1;
  bool operator==(const DistributedLayout&) const = default;

  // Of the largest shard, which tile 0 has.
  int64_t shard_elements() const { return part_batch * share * part_n; }
  uint64_t parts() const { return uint64_t{grid_batch} * grid_m * grid_n * shares; }
};

// What (b, i, j, p) is for a tile.
struct GridPlace {
  int64_t b = 0, i = 0, j = 0, p = 0;
};
inline GridPlace place_in_grid(uint64_t tile, uint32_t grid_m, uint32_t grid_n, uint32_t shares) {
  const auto index = static_cast<int64_t>(tile);
  const int64_t part = quotient(index, shares), row = quotient(part, grid_n), matrix = quotient(row, grid_m);
  return {matrix, row - matrix * grid_m, part - row * grid_n, index - part * shares};
}
// A tile's shard, in its matrices.
struct ShardRanges {
  Range batch, rows, columns;
  int64_t elements() const { return batch.size() * rows.size() * columns.size(); }
};
ShardRanges shard_of(const DistributedLayout& layout, uint64_t tile);

// Of equal layouts the same.
uint64_t hash_of(const DistributedLayout& layout);

// The layouts that decisions give to their results.
DistributedLayout layout_of(const MatmulShape& shape, const MatmulPlan& plan);
DistributedLayout layout_of(const Shape& shape, const SplitPlan& plan);
DistributedLayout layout_of(const AttentionExtents& shape, const AttentionPlan& plan);

// What a tile wants of a value: columns of rows of some of its matrices, each of `matrix_rows` rows.
struct Wanted {
  int64_t matrix_begin = 0, matrix_end = 1, matrix_rows = 1;
  int64_t row_begin = 0, row_end = 1;
  int64_t column_begin = 0, column_end = 1;
  int64_t elements() const { return (matrix_end - matrix_begin) * (row_end - row_begin) * (column_end - column_begin); }
};

// How that gets to the tile.
struct Arrival {
  int64_t remote = 0;  // elements that come from elsewhere
  int64_t local = 0;   // elements that lie on the tile already
  int64_t pieces = 0;  // rectangles that the remote ones come in
  bool direct() const { return remote == 0; }
};
Arrival arrival(const DistributedLayout& layout, const Wanted& wanted, uint64_t tile);

}  // namespace low
