// Shapes of results, for the operations whose rule takes more than a line: shared by the builder, the verifier and
// frontends.
#pragma once

#include <optional>
#include <span>

#include "compiler/graph/graph.h"

namespace low {

// Nothing when there is no operand, the axis does not exist, or another axis disagrees.
std::optional<Shape> concat_shape(std::span<const Shape> operands, int axis);
// Nothing when the shapes do not fit each other, the rank is beyond max_rank, or elements would be read from an empty
// axis.
std::optional<Shape> gather_shape(const Gather& gather, const Shape& data, const Shape& indices);
// `axes` are in range.
Shape reduced_shape(const Shape& shape, const Shape& axes);
// Whether `axes` are ascending, without repetition, and axes of something of this rank.
bool are_axes(const Shape& axes, int rank);

// [batch, m, q_heads * dv]. Nothing when the heads do not divide the operands, or the operands do not fit each other.
std::optional<Shape> attention_shape(const Attention& attention, const Shape& q, const Shape& k, const Shape& v);
// What scores, softmax and sums are computed in.
DType attention_type(DType q, DType k, DType v);

}  // namespace low
