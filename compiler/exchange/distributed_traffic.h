// What the exchanges of one superstep ask of each tile on a machine without global memory.
//
// All tiles exchange at once; a tile sends and receives at the same time. What several tiles receive from one source is
// sent once. Memory outside of the tiles is no bottleneck of its own: a tile receives from it, or sends to it, at the
// rate it has for other tiles.
#pragma once

#include <span>
#include <vector>

#include "compiler/exchange/pulls.h"

namespace low {

struct DistributedTraffic {
  std::vector<double> sent, received;  // cycles, by tile
  std::vector<double> copied;          // cycles at the tile's own rate: local copies, transfers that stay on the tile
  std::vector<double> fixed;           // fixed costs of what the tile receives and copies
  std::vector<double> fixed_out;       // fixed costs of what it sends out of the tiles

  // What the busiest endpoint imposes.
  double lower_bound_cycles() const;
  // A tile receives its pieces one after the other, each with its fixed cost, and makes its copies.
  double cycles() const;
};

// `pulls`: superstep_pulls() of the superstep, whose number makes the fixed costs.
DistributedTraffic distributed_traffic(const TileGraph& graph, const Machine& machine, const Superstep& superstep,
                                       std::span<const DistributedPull> pulls);

}  // namespace low
