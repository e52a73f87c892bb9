// What reduce, rowwise and cumulative kernels compute, in double, group by group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/low/tile_graph.h"

namespace low {

// A run of these extents. `x`: raw elements in the order of the iteration space, inner axes last. Each function handles all groups.
// reduce: the accumulators (raw, of leading_type), one a group, before the epilogue. Floats are combined in double and
// rounded once.
std::vector<uint64_t> reduced(const KernelContract& contract, const Shape& extents, const ReduceKernel& kernel,
                              std::span<const uint64_t> x);
// rowwise: the normalized elements (raw, of kernel.accumulate).
std::vector<uint64_t> normalized(const KernelContract& contract, const Shape& extents, const RowwiseKernel& kernel,
                                 std::span<const uint64_t> x);
// cumulative: the result's elements (raw).
std::vector<uint64_t> running_sums(const KernelContract& contract, const Shape& extents, const CumulativeKernel& kernel,
                                   std::span<const uint64_t> x);

// top_k: the result's elements.
std::vector<uint64_t> extreme_places(const KernelContract& contract, const Shape& extents, const TopKKernel& kernel,
                                     std::span<const uint64_t> x);

}  // namespace low
