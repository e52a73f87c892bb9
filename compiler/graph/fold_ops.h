// What the files of `fold` share: a walk over several operands, and the operations that have files of their own.
// Operands and attributes are those of a verified operation.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace low {

using FoldOperands = std::span<const Tensor* const>;

// fold_movement.cpp
Tensor fold_concat(const Concat& concat, FoldOperands operands, const Type& result);
Tensor fold_pad(const Pad& pad, FoldOperands operands, const Type& result);
Tensor fold_gather(const Gather& gather, FoldOperands operands, const Type& result);
// fold_reduce.cpp
Tensor fold_reduce(const Reduce& reduce, FoldOperands operands, const Type& result);
Tensor fold_cumulative(const Cumulative& cumulative, FoldOperands operands, const Type& result);
// fold_rowwise.cpp
Tensor fold_rowwise(const Rowwise& rowwise, FoldOperands operands, const Type& result);

// Strides with which an operand of shape `from` is read for a result of shape `to`: 0 along broadcast axes.
inline Strides broadcast_strides(const Shape& from, const Shape& to) {
  const Strides own = from.row_major_strides();
  Strides strides;
  for (int i = 0; i < to.rank(); ++i) {
    const int axis = i - (to.rank() - from.rank());
    strides.append(axis < 0 || from[axis] == 1 ? 0 : own[axis]);
  }
  return strides;
}

// Walks a shape row-major while it keeps one offset per operand.
class Walk {
 public:
  Walk(const Shape& shape, std::vector<Strides> strides, std::vector<int64_t> start)
      : shape_(shape), strides_(std::move(strides)), offsets_(std::move(start)) {}
  int64_t offset(size_t operand) const { return offsets_[operand]; }
  void next() {
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      const bool wraps = ++index_[static_cast<size_t>(axis)] == shape_[axis];
      const int64_t steps = wraps ? 1 - shape_[axis] : 1;
      for (size_t i = 0; i < offsets_.size(); ++i) offsets_[i] += steps * strides_[i][axis];
      if (!wraps) return;
      index_[static_cast<size_t>(axis)] = 0;
    }
  }

 private:
  Shape shape_;
  std::vector<Strides> strides_;
  std::vector<int64_t> offsets_;
  std::array<int64_t, max_rank> index_{};
};

// Applies an epilogue, or the conversion that stands for none, to one accumulator of each element of the result. The
// operands from `first` on are its extras.
class FoldEpilogue {
 public:
  FoldEpilogue(const std::optional<Expr>& expr, DType accumulator, FoldOperands operands, size_t first,
               const Type& result);
  // For the elements of the result in row-major order, once each.
  uint64_t next(uint64_t accumulator);

 private:
  Expr expr_;
  FoldOperands extras_;
  std::vector<uint64_t> inputs_;
  Walk walk_;
};

}  // namespace low
