// Graph passes. Each is a pure function Graph -> Graph; regions are handled recursively.
#pragma once

#include "compiler/graph/graph.h"

namespace low {

// Before: whatever a frontend emits. After: dead operations are gone, equal operations are one, constant operands are folded
// (results of up to `fold_limit_bytes`), reshape/transpose/slice/expand/cast/concat chains are composed and identities dropped,
// gathers with constant evenly spaced indices are slices, reductions of single elements are pointwise,
// repeats of 0 iterations are replaced by their initial values, invariant operands that a body merely passes on, or that are
// constants, are resolved, and unused region inputs are removed. Runs to a fixed point; first and last of the passes.
Result<Graph> canonicalize(const Graph& graph);

// Before: matmul(dequantize(a, sa), dequantize(b, sb)) with FP8 or 8-bit integer storage. After: matmul(a, b, sa, sb, …) whose
// epilogue scales the accumulator. Precondition: canonical. Folds a scale per tensor on either side, per row (axis m) of a and
// per output channel (axis n) of b; a scale along k, or integers with a non-zero zero point, stays as it is. Looks through
// reshape, transpose and expand between the dequantize and the matmul (moving the dequantize below them). Comes before fusion,
// which would absorb the dequantize into pointwise expressions.
Result<Graph> fold_dequantize(const Graph& graph);

// Before: quantize, dequantize, cast and pointwise operations, one node each. After: chains and diamonds of single-purpose
// pointwise operations are one `pointwise`; those that only consume the result of one matmul, reduce or rowwise (at its shape) are
// its epilogue, up to and including a final quantize or cast, and one of one operand that only feeds a reduce is its map. quantize, dequantize and cast become expressions. A producer is duplicated into its
// consumers only when it is a scalar-cheap (no transcendental) expression of constants or broadcast operands.
Result<Graph> fuse(const Graph& graph);

// canonicalize, fold_dequantize, canonicalize, fuse, canonicalize.
Result<Graph> run_passes(const Graph& graph);

}  // namespace low
