// Lifetimes of storages in positions (supersteps in program order).
#pragma once

#include <vector>

#include "compiler/low/tile_graph.h"
#include "compiler/placement/placement.h"

namespace low {

// What the region of a Repeat covers: its supersteps, nested ones included. last < first when it has none.
struct RepeatRange {
  uint32_t first = 0, last = 0;
  uint32_t level = 0;
  bool empty() const { return last < first; }
};
// For each of TileGraph::repeats().
std::vector<RepeatRange> repeat_ranges(const TileGraph& graph);

// For each allocation, by the rules on top of placement.h. Whether a Repeat's body carries an allocation that only it
// touches is decided element by element: it does not only if each element that a body reads was written earlier in the
// same iteration, through views without terms; where it would take too long to find out, the body is taken to carry it.
// Parameters live from the first to the last position.
Table<AllocationId, Lifetime> lifetimes(const TileGraph& graph);

}  // namespace low
