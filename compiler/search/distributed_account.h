// What the costs of all operations on machines without global memory are made of. Internal to search/.
#pragma once

#include <algorithm>

#include "compiler/base/range.h"
#include "compiler/search/distributed_cost.h"

namespace low::distributed_account {

// Parts are much alike: the busiest is sought among a few.
inline constexpr uint64_t samples = 8;
template <typename Function>
void for_each_sample(uint64_t parts, Function&& function) {
  uint64_t last = UINT64_MAX;
  for (uint64_t s = 0; s < samples; ++s) {
    const uint64_t index = parts <= samples ? s : s * (parts - 1) / (samples - 1);
    if (index >= parts || index == last) continue;
    last = index;
    function(index);
  }
}

// What an exchange moves to the busiest tile; bytes that the tile copies itself, and in how many copies.
struct Traffic : TileExchange {
  double copied = 0, copies = 0;
};
inline Traffic& operator+=(Traffic& a, const Traffic& b) {
  a.received += b.received;
  a.sent += b.sent;
  a.copied += b.copied;
  a.pieces += b.pieces;
  a.copies += b.copies;
  return a;
}

// Of each of `panels` supersteps that share it.
inline Traffic divided(Traffic traffic, int64_t panels) {
  const auto count = static_cast<double>(panels);
  traffic.received /= count;
  traffic.sent /= count;
  traffic.copied /= count;
  if (traffic.pieces > 0) traffic.pieces = std::max(traffic.pieces / count, 1.0);
  return traffic;
}

// The panel that speaks for all `panels` of this size that a range is cut into: in the middle, where no edge is.
inline Range panel_of(const Range& whole, int64_t panel, int64_t panels) {
  const int64_t begin = std::min(whole.begin + panels / 2 * panel, whole.end);
  return panels <= 1 ? whole : Range{begin, std::min(begin + panel, whole.end)};
}

class DistributedAccountant {
 public:
  explicit DistributedAccountant(const Machine& machine) : machine_(machine) {}

  uint64_t bytes(int64_t elements, int64_t element_bytes) const {
    const auto size = static_cast<uint64_t>(std::max<int64_t>(elements, 0)) * static_cast<uint64_t>(element_bytes);
    const uint64_t alignment = std::max<uint32_t>(machine_.alignment_bytes, 1);
    return (size + alignment - 1) / alignment * alignment;
  }

  // An operand's way to the tile: how it travels, and adds what it takes of the tile's memory while the superstep runs.
  Traffic gather(const Arrival& from, const DistributedLayout& layout, int64_t element_bytes,
                 uint64_t& gathered) const {
    Traffic traffic;
    if (from.direct()) return traffic;
    const auto size = static_cast<double>(element_bytes);
    traffic.received = static_cast<double>(from.remote) * size;
    traffic.copied = static_cast<double>(from.local) * size;
    traffic.pieces = static_cast<double>(from.pieces);
    traffic.copies = from.local > 0 ? 1 : 0;
    if (layout.kind == DistributedLayout::Kind::tiles)
      traffic.sent = static_cast<double>(layout.shard_elements()) * size;
    gathered += bytes(from.remote + from.local, element_bytes);
    return traffic;
  }

  void superstep(DistributedCost& result, const Traffic& traffic, const Cost& compute, double times = 1) const {
    SuperstepWork work;
    work.tiles.push_back(compute);
    work.tiles.back().exchange +=
        exchange_cycles(machine_, traffic) + 2 * traffic.copied / machine_.own_bytes_per_cycle;
    work.tiles.back().launch += traffic.copies * machine_.command_cycles;
    result.cost.add(superstep_cost(machine_, work), times);
  }

  const Machine& machine() const { return machine_; }

 private:
  const Machine& machine_;
};

// The transfers of one of several tiles and the copies of one of them: all tiles wait for the end of the transfers.
class Busiest {
 public:
  void add(const Traffic& tile, const Machine& machine) {
    const double cycles = exchange_cycles(machine, tile);
    if (cycles > cycles_) {
      cycles_ = cycles;
      static_cast<TileExchange&>(traffic_) = tile;
    }
    traffic_.copied = std::max(traffic_.copied, tile.copied);
    traffic_.copies = std::max(traffic_.copies, tile.copies);
  }
  const Traffic& traffic() const { return traffic_; }

 private:
  Traffic traffic_;
  double cycles_ = 0;
};

}  // namespace low::distributed_account
