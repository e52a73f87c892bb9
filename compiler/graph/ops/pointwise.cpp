#include "compiler/graph/ops/pointwise.h"

namespace low {

std::string problem(const Pointwise& a, const OpTypes& op) {
  if (std::string error = op.counts(0, UINT16_MAX, 1); !error.empty()) return error;
  std::vector<DType> inputs;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (std::string error = op.broadcasts(i); !error.empty()) return error;
    inputs.push_back(op.operand(i).dtype);
  }
  return op.expression(a.expr, inputs, op.result().dtype);
}

Tensor fold(const Pointwise& op, FoldOperands operands, const Type& result) {
  return folding::fold_expression(op.expr, result, operands);
}

}  // namespace low
