// Quantization as scalar expressions: the one definition that folding and fusion share.
#pragma once

#include <optional>

#include "compiler/graph/expr.h"
#include "runtime/tensor/shape.h"

namespace low {

// Inputs: x, scale[, zero point of dtype `to`]. saturate(round_even(x / scale) + zero_point) for integers; convert(x /
// scale) for FP8, whose zero point is added before the conversion. Computed in f32, or in f64 when x or the scale is
// f64.
Expr quantize_expr(DType x, DType scale, bool zero_point, DType to, Overflow overflow);
// Inputs: x, scale[, zero point of x's dtype]. (x - zero_point) * scale; the difference in i32 for integers, the
// product in f32, or in f64 when the scale or the result is f64.
Expr dequantize_expr(DType x, DType scale, bool zero_point, DType to);

// The shape that makes a 1-D scale along `axis` of a tensor of shape `x` broadcast against it: [extent, 1, …]; []
// without one.
Shape parameter_shape(const Shape& x, std::optional<int> axis);

}  // namespace low
