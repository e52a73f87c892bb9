// Evaluation of one operation on constants, at native precision (see expr.h): constant folding of the frontend and of
// passes.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/graph.h"

namespace low {

// Whether `fold` evaluates this kind of operation: all but input, output, attention and repeat.
bool foldable(const Attributes& attributes);

// The operation's results for operands with these values. `operands` have the types of the operation's operands.
// ErrorKind::internal when the operation is not foldable.
Result<std::vector<Tensor>> fold(const Graph& graph, const Op& op, std::span<const Tensor* const> operands);

}  // namespace low
