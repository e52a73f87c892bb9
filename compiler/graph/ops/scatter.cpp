#include "compiler/graph/ops/scatter.h"

#include <fmt/format.h>

namespace low {

std::string problem(const Scatter& a, const OpTypes& op) {
  if (std::string error = op.counts(3, 3, 1); !error.empty()) return error;
  const Type &data = op.operand(0), &indices = op.operand(1), &updates = op.operand(2);
  if (a.kind > Scatter::Kind::min) return "bad kind";
  if (data.shape.rank() != 2) return fmt::format("data {}, expected a matrix", to_string(data));
  if ((indices.dtype != DType::i32 && indices.dtype != DType::i64) || indices.shape.rank() != 1)
    return fmt::format("indices {}, expected a list of i32 or i64", to_string(indices));
  const Type expected{data.dtype, {indices.shape[0], data.shape[1]}};
  if (updates != expected) return fmt::format("updates {}, expected {}", to_string(updates), to_string(expected));
  if (a.kind != Scatter::Kind::replace && data.dtype == DType::boolean)
    return fmt::format("{} of booleans", scatter_kinds[static_cast<size_t>(a.kind)]);
  return op.expect(data);
}

Tensor fold(const Scatter& scatter, FoldOperands operands, const Type& result) {
  const Tensor &data = *operands[0], &indices = *operands[1], &updates = *operands[2];
  Tensor out(result.dtype, result.shape);
  for (int64_t i = 0; i < out.elements(); ++i) out.set_bits(i, data.bits(i));
  const int64_t rows = result.shape[0], columns = result.shape[1];
  constexpr ExprOp ops[] = {ExprOp::add, ExprOp::add, ExprOp::mul, ExprOp::max, ExprOp::min};
  const Expr combine = folding::binary(ops[static_cast<size_t>(scatter.kind)], result.dtype);
  for (int64_t i = 0; i < indices.elements(); ++i) {
    const int64_t row = indices.integer(i);
    if (row < 0 || row >= rows) continue;
    for (int64_t j = 0; j < columns; ++j) {
      const uint64_t update = updates.bits(i * columns + j);
      const int64_t place = row * columns + j;
      const bool replaces = scatter.kind == Scatter::Kind::replace;
      out.set_bits(place, replaces ? update : folding::apply(combine, out.bits(place), update));
    }
  }
  return out;
}

}  // namespace low
