// What gather does on all machines.
#pragma once

#include <array>
#include <span>

#include "compiler/low/tile_graph.h"

namespace low {

// One kernel run of a gather: data, indices, result.
struct GatherRun {
  KernelContract contract;
  std::array<Shape, 3> boxes;
  std::array<Strides, 3> strides;
  bool too_many_axes = false;  // more than max_rank: the run is not complete then
};
// `extents` of the result's box, the operands' strides over it, and data's axes that are indexed.
GatherRun gather_run(const KernelContract& contract, const Shape& extents, std::span<const Strides> strides,
                     const Shape& indexed, const Strides& indexed_strides, int64_t index_stride);

}  // namespace low
