// The last step of matmul, reduce, rowwise and attention: from an accumulator to the result's element.
#pragma once

#include <optional>
#include <vector>

#include "reference/expr.h"
#include "reference/operations.h"
#include "reference/walk.h"

namespace low::reference {

// `operands` from `first` on are the extras of the epilogue. Starts at row-major element `begin` of the result. The
// arguments must outlive it.
class Epilogue {
 public:
  Epilogue(const std::optional<Expr>& expr, DType accumulator, Operands operands, size_t first, const Type& result,
           int64_t begin)
      : accumulator_(accumulator),
        result_(result),
        extras_(operands.subspan(first)),
        walk_(result.shape, strides(extras_, result.shape), begin),
        inputs_(1 + extras_.size()) {
    if (expr) evaluator_.emplace(*expr);
  }

  // The result's next element.
  Scalar next(const Scalar& accumulator) {
    if (!evaluator_) return convert(accumulator, accumulator_, result_.dtype, Overflow::propagate);
    inputs_[0] = accumulator;
    for (size_t i = 0; i < extras_.size(); ++i) inputs_[i + 1] = load(*extras_[i], walk_.offset(i));
    walk_.next();
    return (*evaluator_)(inputs_);
  }

 private:
  static std::vector<Strides> strides(Operands extras, const Shape& shape) {
    std::vector<Strides> all;
    for (const auto& extra : extras) all.push_back(broadcast_strides(extra->shape(), shape));
    return all;
  }

  DType accumulator_;
  const Type& result_;
  Operands extras_;
  Walk walk_;
  std::vector<Scalar> inputs_;
  std::optional<Evaluator> evaluator_;
};

}  // namespace low::reference
