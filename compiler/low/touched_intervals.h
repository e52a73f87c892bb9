// Which elements commands touch, as intervals over all iterations: conservative facts for passes over TileGraphs.
#pragma once

#include <span>
#include <vector>

#include "compiler/low/furthest.h"
#include "compiler/low/tile_graph.h"

namespace low {

struct ByteInterval {
  AllocationId allocation;
  int64_t first = 0, last = -1;  // bytes, inclusive; empty when last < first
};
ByteInterval interval_of(const TileGraph& graph, const View& view);

struct TouchedInterval {
  ByteInterval interval;
  TileId tile;
  bool write = false;
};
// Of one command, appended.
void append_touched(const TileGraph& graph, const Command& command, std::vector<TouchedInterval>& accesses);
// The same without what cannot be in conflict: a tile's own memory, which no other tile's command touches, and
// parameters, which none writes.
void append_shared_touched(const TileGraph& graph, const Command& command, std::vector<TouchedInterval>& accesses);

// What tiles have touched so far, for the question whether more can join it: whether a tile touches what another one
// has touched, one of them writing. Both take n log^2 n together, however many steps they come in.
class TouchedIntervals {
 public:
  void add(std::span<const TouchedInterval> accesses);
  bool conflicts_with(std::span<const TouchedInterval> later) const;
  void clear() { batches_.clear(); }

 private:
  struct Touched {
    TouchedInterval access;
    Furthest writes, all;  // of the allocation's intervals up to this one
  };
  using Batch = std::vector<Touched>;  // by allocation, then first byte
  std::vector<Batch> batches_;         // each more than twice as long as the next
};

}  // namespace low
