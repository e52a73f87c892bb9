// What kernel runs and supersteps cost: the same for the search, which predicts them, and for TileGraphs, which have
// them.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/graph/expr.h"
#include "compiler/graph/graph.h"
#include "compiler/kernels/contract.h"
#include "compiler/kernels/work.h"
#include "compiler/machine/machine.h"

namespace low {

// Supersteps one after the other. Their items add up, and their totals do: sum of max(compute, memory), not max of the
// sums.
struct CostSum {
  Cost items;
  double cycles = 0;  // predicted time
  void add(const Cost& superstep, double times = 1);
  void add(const CostSum& other, double times = 1);
};

// Scalar operations that one element of the expression costs: 1 for an addition, more for divisions, conversions of
// small floats, and transcendental functions. What KernelWork::expression_nodes counts.
int64_t expression_work(const Expr& expr);

// What one element of x costs in a reduction, with `map` or the conversion in it, and in a normalization, epilogues
// apart.
int64_t reduce_work(Reduce::Kind kind, const std::optional<Expr>& map);
int64_t rowwise_work(Rowwise::Kind kind);
// What one score of attention costs besides the products: scale, softcap, mask, comparison with the diagonal, and
// softmax.
int64_t score_work(bool masked, bool causal, bool capped);

// One run on one tile that has the memory system to itself (memory: per-tile rate). Pure; the single source of truth
// for both search and the cost of a TileGraph.
Cost kernel_cost(const Machine& machine, const KernelWork& work);
// What a run of these extents does, but for the bytes that it reads and writes.
KernelWork work_of(const KernelContract& contract, const Shape& extents);

// A superstep: the busiest tile's sum, raised to the time that all bytes need at the whole device's bandwidth (that of
// the shared cache for repeated reads, where all different bytes fit in there), plus the launch.
struct SuperstepWork {
  boost::container::small_vector<Cost, 1> tiles;  // sum for each tile in use; the search knows the busiest alone
  double bytes = 0;                               // all tiles' reads and writes through the memory system
  // Of these: bytes of different addresses. The rest, read again by other tiles or runs, may come from the machine's
  // shared cache. Negative: unknown, as many as `bytes`.
  double distinct_bytes = -1;
};
Cost superstep_cost(const Machine& machine, const SuperstepWork& work);

// What one tile receives and sends in the exchanges of a superstep, on a machine without global memory. It receives its
// pieces one after the other, and sends at the same time; what several tiles receive from one source is sent once.
// Memory outside of the tiles is no bottleneck of its own: a tile has the rate for it that it has for other tiles.
struct TileExchange {
  double received = 0, sent = 0;      // bytes
  double pieces = 0, pieces_out = 0;  // received; sent to where no tile receives them
};
// Search, cost and schedule all go by these.
inline double exchange_cycles(const Machine& machine, const TileExchange& tile) {
  const double rate = machine.cluster_bytes_per_cycle;
  return std::max(tile.received / rate + tile.pieces * machine.transfer_cycles,
                  tile.sent / rate + tile.pieces_out * machine.transfer_cycles);
}
double exchange_cycles(const Machine& machine, std::span<const TileExchange> tiles);  // until the busiest is done

}  // namespace low
