// What an attention kernel computes, in double, row by row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/low/tile_graph.h"

namespace low {

// `operands` as of run_kernel. partial: the elements of the state [m, dv + 2]; else the normalized elements [m, dv],
// before the epilogue. Raw, of kernel.accumulate.
std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const AttentionKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands);

}  // namespace low
