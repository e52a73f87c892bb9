#include "compiler/graph/ops/cumulative.h"

#include <fmt/format.h>

namespace low {

std::string problem(const Cumulative& a, const OpTypes& op) {
  if (std::string error = op.counts(1, 1, 1); !error.empty()) return error;
  if (a.axis < 0 || a.axis >= op.operand(0).shape.rank()) return fmt::format("axis {}", a.axis);
  if (op.operand(0).dtype == DType::boolean || is_fp8(op.operand(0).dtype)) return "of " + to_string(op.operand(0));
  return op.expect(op.operand(0));
}

Tensor fold(const Cumulative& cumulative, FoldOperands operands, const Type& result) {
  const Tensor& x = *operands[0];
  const DType type = !is_float(x.dtype()) || x.dtype() == DType::f64 ? x.dtype() : DType::f32;
  const Expr widen = folding::conversion(x.dtype(), type);
  const Expr narrow = folding::conversion(type, x.dtype());
  const Expr add = folding::binary(ExprOp::add, type);
  Tensor out(result.dtype, result.shape);
  const int64_t extent = result.shape[cumulative.axis];
  if (out.elements() == 0) return out;
  const int64_t stride = result.shape.row_major_strides()[cumulative.axis];
  Shape rows = result.shape;
  rows[cumulative.axis] = 1;
  const int64_t count = rows.elements();
  folding::Walk walk(rows, {result.shape.row_major_strides()}, {0});
  for (int64_t row = 0; row < count; ++row, walk.next()) {
    uint64_t sum = 0;
    for (int64_t j = 0; j < extent; ++j) {
      const int64_t place = walk.offset(0) + stride * (cumulative.reverse ? extent - 1 - j : j);
      const uint64_t element = x.bits(place);
      const uint64_t next = folding::apply(add, sum, evaluate(widen, {&element, 1}));
      const uint64_t& written = cumulative.exclusive ? sum : next;
      out.set_bits(place, evaluate(narrow, {&written, 1}));
      sum = next;
    }
  }
  return out;
}

}  // namespace low
