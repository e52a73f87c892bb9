// Algebra inside one expression that changes no bit of its result (but which NaN a NaN is).
#pragma once

#include "compiler/graph/expr.h"

namespace low {

// Evaluates constant nodes; drops x * 1, x / 1, x - 0, double negation, constant conditions, and inner conversions that
// are exact.
Expr simplify_expr(const Expr& expr);

// Whether a conversion from `from` keeps every value.
bool is_exact_conversion(DType from, DType to);
// Whether `convert` from -> through -> to equals from -> to.
bool is_redundant_conversion(DType from, DType through, DType to);

}  // namespace low
