// Interpreter: runs a TileGraph of any machine, element by element. A judge of expansion, and with a placement and a
// schedule, a judge of those.
#pragma once

#include <span>
#include <vector>

#include "compiler/exchange/exchange.h"
#include "compiler/low/tile_graph.h"
#include "compiler/placement/placement.h"

namespace low {

// Allocations are separate buffers whose elements start as undefined. ErrorKind::internal naming superstep, tile,
// command and element for: a read of an element that nothing wrote, an access outside of an allocation, a read of what
// another tile wrote in the same superstep, a write to what another tile wrote or read in it, reading padding that is
// `unspecified`.
Result<std::vector<Tensor>> interpret(const TileGraph& graph, std::span<const Tensor> inputs);

// The same over the bytes of each memory: allocations where `placement` put them, commands in the order of `schedule`;
// memory is undefined before an allocation's first write in its lifetime and after its last use. Two allocations that
// the placement overlaps wrongly show as a read of an undefined or foreign element.
Result<std::vector<Tensor>> interpret(const TileGraph& graph, const Placement& placement, const Schedule& schedule,
                                      std::span<const Tensor> inputs);

}  // namespace low
