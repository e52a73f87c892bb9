// What the rules of operations have in common. An operation's rule is a function problem(attributes, types): what is
// wrong, or "".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/type.h"

namespace low {

// The types of an operation's operands and results. Its functions say what is wrong, or "".
struct OpTypes {
  std::vector<Type> operands, results;

  const Type& operand(size_t i) const { return operands[i]; }
  const Type& result() const { return results[0]; }

  std::string counts(size_t least, size_t most, size_t results) const;
  // The result must be of this type.
  std::string expect(const Type& type) const;
  // Operand `i` must broadcast to the result's shape.
  std::string broadcasts(size_t i) const;
  // `inputs`: the dtypes that the expression is given; `gives`: the dtype that it must have.
  std::string expression(const Expr& expr, std::span<const DType> inputs, DType gives) const;
  // An epilogue over the accumulator and the operands from `first` on.
  std::string epilogue(const std::optional<Expr>& expr, DType accumulator, size_t first) const;
};

// Whether `axes` are ascending, without repetition, and axes of something of this rank.
bool are_axes(const Shape& axes, int rank);
// The extents as a shape. Nothing when there are too many, or too many elements.
std::optional<Shape> shape_of(std::span<const int64_t> extents);

}  // namespace low
