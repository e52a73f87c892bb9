// Where a value lives on a machine without global memory: as shards, rectangles of its matrix [rows, columns] (columns is the last axis, rows
// all others together), each in the memory of one tile.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compiler/low/expand/placed.h"
#include "compiler/search/plan.h"

namespace low {

struct Rect {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
  auto operator<=>(const Rect&) const = default;
};
Rect intersection(const Rect& a, const Rect& b);
inline bool is_empty(const Rect& rect) { return rect.rows <= 0 || rect.columns <= 0; }
inline bool contains(const Rect& outer, const Rect& inner) { return intersection(outer, inner) == inner; }

// The rectangle that a tile computes or keeps.
struct Part {
  Rect rect;
  TileId tile;
};

struct Shard {
  Rect rect;
  TileId tile;   // none: outside of the tiles (model inputs and outputs)
  Placed place;  // layout over [rect.rows, rect.columns]
};

// An enclosing Repeat that a constant steps through.
struct ConstantStep {
  uint32_t level = 0;
  int64_t count = 1;
};

struct TileValue {
  DType dtype = DType::f32;
  int64_t rows = 1, columns = 1;
  std::vector<Shard> shards;
  // A constant has no shards until one is needed. Its shape is [steps…, value's shape].
  std::shared_ptr<const Tensor> constant;
  std::vector<ConstantStep> steps;
};
using TileValueRef = std::shared_ptr<TileValue>;

// [rows, columns] of a shape; [1, 1] for rank 0.
struct MatrixShape {
  int64_t rows = 1, columns = 1;
};
MatrixShape matrix_shape(const Shape& shape);

// The parts that a plan gives an operation's result, in tile order.
std::vector<Part> split_parts(const Shape& shape, const SplitPlan& plan);
std::vector<Part> matmul_parts(const Shape& result, const MatmulPlan& plan);

}  // namespace low
