// Epilogues of matmuls whose sums come in several parts (panels of k, or a k that is split over tiles).
#pragma once

#include "compiler/graph/graph.h"

namespace low {

// The matmul's epilogue, or the conversion of the accumulator to the result's dtype.
Expr epilogue_of(const Matmul& matmul, DType result);
// The accumulator itself.
Expr plain_sum(DType accumulate);
// epilogue(input 0 + the last `partials` inputs, extras…): inputs are the accumulator, the epilogue's extras, then the
// other sums.
Expr with_partials(const Expr& epilogue, DType accumulate, int extras, int partials);

}  // namespace low
