#include "compiler/graph/ops/top_k.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

namespace low {

std::string problem(const TopK& a, const OpTypes& op) {
  if (std::string error = op.counts(1, 1, 1); !error.empty()) return error;
  const Type& value = op.operand(0);
  if (a.axis < 0 || a.axis >= value.shape.rank()) return fmt::format("axis {}", a.axis);
  if (a.k < 0 || a.k > value.shape[a.axis]) return fmt::format("{} of {} elements", a.k, value.shape[a.axis]);
  if (value.dtype == DType::boolean) return "of " + to_string(value);
  Shape shape = value.shape;
  shape[a.axis] = a.k;
  return op.expect({DType::i64, shape});
}

Tensor fold(const TopK& op, FoldOperands operands, const Type& result) {
  const Tensor& x = *operands[0];
  const Expr less = folding::binary(ExprOp::less, x.dtype()), equal = folding::binary(ExprOp::equal, x.dtype());
  const bool is_float_type = is_float(x.dtype());
  // a comes before b, but for their places.
  const auto before = [&](uint64_t a, uint64_t b) {
    if (is_float_type) {
      const bool a_nan = folding::apply(equal, a, a) == 0, b_nan = folding::apply(equal, b, b) == 0;
      if (a_nan || b_nan) return op.smallest ? b_nan && !a_nan : a_nan && !b_nan;
    }
    return folding::apply(less, op.smallest ? a : b, op.smallest ? b : a) != 0;
  };
  Tensor out(result.dtype, result.shape);
  if (out.elements() == 0) return out;
  const int64_t extent = x.shape()[op.axis];
  const Strides from = x.shape().row_major_strides(), to = result.shape.row_major_strides();
  Shape rows = x.shape();
  rows[op.axis] = 1;
  const int64_t count = rows.elements();
  folding::Walk walk(rows, {from, to}, {0, 0});
  std::vector<int64_t> order(static_cast<size_t>(extent));
  for (int64_t row = 0; row < count; ++row, walk.next()) {
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto bits = [&](int64_t i) { return x.bits(walk.offset(0) + i * from[op.axis]); };
    std::ranges::sort(
        order, [&](int64_t a, int64_t b) { return before(bits(a), bits(b)) || (!before(bits(b), bits(a)) && a < b); });
    for (int64_t i = 0; i < op.k; ++i) {
      out.set_bits(walk.offset(1) + i * to[op.axis], static_cast<uint64_t>(order[static_cast<size_t>(i)]));
    }
  }
  return out;
}

}  // namespace low
