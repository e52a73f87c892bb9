// What reduce, rowwise and cumulative have in common, on all machines.
#pragma once

#include "compiler/low/tile_graph.h"

namespace low {

struct Group {
  KernelContract contract;  // without extents, `inner` and accesses
  Shape inner_axes;         // of the first operand
};
Group group_of(const Graph& graph, const Op& op);

}  // namespace low
