// Which elements commands touch, as intervals over all iterations: conservative facts for passes over TileGraphs.
#pragma once

#include <vector>

#include "compiler/low/tile_graph.h"

namespace low {

struct Interval {
  AllocationId allocation;       // aliases resolved to the allocation that owns the storage
  int64_t first = 0, last = -1;  // bytes, inclusive; empty when last < first
};
Interval interval_of(const TileGraph& graph, const View& view);

struct TileAccess {
  Interval interval;
  TileId tile;
  bool write = false;
};
// Of one command, appended.
void append_accesses(const TileGraph& graph, const Command& command, std::vector<TileAccess>& accesses);
// The same without what cannot be in conflict: a tile's own memory, which no other tile's command touches, and parameters, which none writes.
void append_shared_accesses(const TileGraph& graph, const Command& command, std::vector<TileAccess>& accesses);

// Whether a tile touches in `later` what another tile touches in `earlier`, one of them writing.
bool conflict_between_tiles(const std::vector<TileAccess>& earlier, const std::vector<TileAccess>& later);

}  // namespace low
