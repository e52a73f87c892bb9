// How far intervals that begin in order reach, for sweeps that ask whether one of another tile reaches a place.
#pragma once

#include <cstdint>
#include <limits>

#include "compiler/low/tile_graph.h"

namespace low {

// The furthest ends among the intervals so far of two different tiles.
struct Furthest {
  struct Entry {
    int64_t end = std::numeric_limits<int64_t>::min();
    TileId tile;
    uint32_t use = 0;  // whose interval it is, to whoever asks
  };
  Entry first, second;

  void add(const Entry& entry) {
    if (entry.end > first.end) {
      if (entry.tile != first.tile) second = first;
      first = entry;
    } else if (entry.tile != first.tile && entry.end > second.end) {
      second = entry;
    }
  }
  const Entry& of_another(TileId tile) const { return first.tile == tile ? second : first; }
};

}  // namespace low
