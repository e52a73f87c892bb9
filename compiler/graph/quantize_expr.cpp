#include "compiler/graph/quantize_expr.h"

namespace low {
namespace {

DType math_type(DType a, DType b) { return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

Expr quantize_expr(DType x, DType scale, bool zero_point, DType to, Overflow overflow) {
  ExprBuilder builder(zero_point ? 3 : 2);
  const DType math = math_type(x, scale);
  uint16_t value = builder.binary(ExprOp::div, builder.convert(builder.input(0, x), math),
                                  builder.convert(builder.input(1, scale), math));
  if (!is_float(to)) value = builder.unary(ExprOp::round_even, value);
  if (zero_point) value = builder.binary(ExprOp::add, value, builder.convert(builder.input(2, to), math));
  // A conversion to an integer clamps to its range; `overflow` has a meaning for floats only.
  return std::move(builder).finish(builder.convert(value, to, is_float(to) ? overflow : Overflow::propagate));
}

Expr dequantize_expr(DType x, DType scale, bool zero_point, DType to) {
  ExprBuilder builder(zero_point ? 3 : 2);
  const DType math = math_type(to, scale);
  const DType difference = is_float(x) ? math : DType::i32;
  uint16_t value = builder.input(0, x);
  if (zero_point) {
    value = builder.binary(ExprOp::sub, builder.convert(value, difference),
                           builder.convert(builder.input(2, x), difference));
  }
  value = builder.binary(ExprOp::mul, builder.convert(value, math), builder.convert(builder.input(1, scale), math));
  return std::move(builder).finish(builder.convert(value, to));
}

Shape parameter_shape(const Shape& x, std::optional<int> axis) {
  Shape shape;
  if (!axis) return shape;
  shape.append(x[*axis]);
  for (int i = *axis + 1; i < x.rank(); ++i) shape.append(1);
  return shape;
}

}  // namespace low
