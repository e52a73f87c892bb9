// What kernels of reduce, rowwise, cumulative and top_k compute, in double, group by group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/low/tile_graph.h"

namespace low {

// `operands` as of run_kernel, `x` in the order of the iteration space, inner axes last. Raw elements: reduce: the
// accumulators (of leading_type), one a group, before the epilogue; rowwise: the normalized elements (of
// kernel.accumulate); cumulative and top_k: the result's. Floats are combined in double and rounded once.
std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const ReduceKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands);
std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const RowwiseKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands);
std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const CumulativeKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands);
std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const TopKKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands);

}  // namespace low
