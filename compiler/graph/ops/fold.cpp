#include "compiler/graph/ops/fold.h"

namespace low::folding {

void advance(FoldIndex& index, const Shape& shape) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (++index[static_cast<size_t>(axis)] < shape[axis]) return;
    index[static_cast<size_t>(axis)] = 0;
  }
}

Expr conversion(DType from, DType to) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.convert(builder.input(0, from), to));
}

Expr binary(ExprOp op, DType type) {
  ExprBuilder builder(2);
  const uint16_t a = builder.input(0, type);
  const uint16_t b = builder.input(1, type);
  return std::move(builder).finish(builder.binary(op, a, b));
}

uint64_t apply(const Expr& binary, uint64_t a, uint64_t b) {
  const uint64_t inputs[] = {a, b};
  return evaluate(binary, inputs);
}

Tensor fold_expression(const Expr& expr, const Type& result, FoldOperands operands, std::span<const Shape> shapes) {
  Tensor out(result.dtype, result.shape);
  std::vector<Strides> strides;
  for (size_t i = 0; i < operands.size(); ++i)
    strides.push_back(broadcast_strides(shapes.empty() ? operands[i]->shape() : shapes[i], result.shape));
  Walk walk(result.shape, std::move(strides), std::vector<int64_t>(operands.size(), 0));
  std::vector<uint64_t> inputs(operands.size());
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, walk.next()) {
    for (size_t j = 0; j < operands.size(); ++j) inputs[j] = operands[j]->bits(walk.offset(j));
    out.set_bits(i, evaluate(expr, inputs));
  }
  return out;
}

FoldEpilogue::FoldEpilogue(const std::optional<Expr>& expr, DType accumulator, FoldOperands operands, size_t first,
                           const Type& result)
    : expr_(expr ? *expr : conversion(accumulator, result.dtype)),
      extras_(operands.subspan(first)),
      inputs_(1 + extras_.size()),
      walk_(
          result.shape,
          [&] {
            std::vector<Strides> strides;
            for (const Tensor* extra : extras_) strides.push_back(broadcast_strides(extra->shape(), result.shape));
            return strides;
          }(),
          std::vector<int64_t>(extras_.size(), 0)) {}

uint64_t FoldEpilogue::next(uint64_t accumulator) {
  inputs_[0] = accumulator;
  for (size_t i = 0; i < extras_.size(); ++i) inputs_[i + 1] = extras_[i]->bits(walk_.offset(i));
  walk_.next();
  return evaluate(expr_, inputs_);
}

}  // namespace low::folding
