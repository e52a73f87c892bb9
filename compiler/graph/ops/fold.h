// What the evaluation of operations on constants has in common. An operation's is a function fold(attributes, operands,
// type of the result), at native precision (see expr.h), for attributes and operands of a verified operation.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/type.h"
#include "runtime/tensor/tensor.h"

namespace low {

using FoldOperands = std::span<const Tensor* const>;

namespace folding {

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

// An index, and the next one in row-major order: all zeros behind the last.
using FoldIndex = std::array<int64_t, max_rank>;
void advance(FoldIndex& index, const Shape& shape);

// input converted; op(a, b): operations of expressions, so that there is one definition of each.
Expr conversion(DType from, DType to);
Expr binary(ExprOp op, DType type);
uint64_t apply(const Expr& binary, uint64_t a, uint64_t b);

// expression(operands…) for each element of the result; `shapes`: what the operands have, if not their own.
Tensor fold_expression(const Expr& expr, const Type& result, FoldOperands operands, std::span<const Shape> shapes = {});

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

}  // namespace folding

}  // namespace low
