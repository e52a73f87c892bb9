#include "compiler/low/expand/partial_sums.h"

#include "compiler/low/expand/placed.h"

namespace low {

Expr epilogue_of(const Matmul& matmul, DType result) {
  if (matmul.epilogue) return *matmul.epilogue;
  return converted(matmul.accumulate, result);
}

Expr plain_sum(DType accumulate) { return converted(accumulate, accumulate); }

Expr with_partials(const Expr& epilogue, DType accumulate, int extras, int partials) {
  ExprBuilder expr(1 + extras + partials);
  uint16_t sum = expr.input(0, accumulate);
  for (int i = 0; i < partials; ++i) sum = expr.binary(ExprOp::add, sum, expr.input(1 + extras + i, accumulate));
  std::vector<uint16_t> arguments(static_cast<size_t>(epilogue.inputs), sum);
  for (const ExprNode& node : epilogue.nodes)
    if (node.op == ExprOp::input && node.argument > 0) arguments[node.argument] = expr.input(node.argument, node.dtype);
  return std::move(expr).finish(expr.inline_expr(epilogue, arguments));
}

}  // namespace low
