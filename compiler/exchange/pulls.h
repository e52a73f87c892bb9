// The pulls of one superstep: exchanges as copies by the destination's tile.
#pragma once

#include <vector>

#include "compiler/exchange/exchange.h"

namespace low {

struct DistributedPull {
  TileId tile;
  View source, destination;
  CopyDescriptor descriptor;
  uint32_t source_number =
      0;  // where it comes from: a tile, or one of as many places that the superstep's sources are spread over
};

// The symbolic copy of a box to another of equal extents, in row-major order: axes that continue each other on both
// sides are one.
CopyDescriptor copy_descriptor(DType dtype, const Geometry& source, const Geometry& destination);

// Ordered by tile. Each tile's: neighbours that continue each other on both sides merged, then by source number,
// beginning behind the tile's own.
std::vector<DistributedPull> superstep_pulls(const TileGraph& graph, const Superstep& superstep);

}  // namespace low
