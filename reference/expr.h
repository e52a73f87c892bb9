// The reference's own evaluation of an expression.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/expr.h"
#include "reference/scalar.h"

namespace low::reference {

// Evaluates one element at a time. f64 and f32 nodes are kept in double and not rounded, but `convert` to f32 rounds;
// nodes of narrower floats are rounded to their format after each node, as the model's own casts and quantizations are
// such nodes. Not for concurrent use: each thread makes its own. The expression must be verified and outlive the
// evaluator.
class Evaluator {
 public:
  explicit Evaluator(const Expr& expr);
  Scalar operator()(std::span<const Scalar> inputs);

 private:
  const Expr& expr_;
  std::vector<Scalar> values_;  // of each node; those of constants are set once
};

}  // namespace low::reference
