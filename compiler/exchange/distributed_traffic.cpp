#include "compiler/exchange/distributed_traffic.h"

#include <algorithm>

namespace low {
namespace {

double bytes_of(const TileGraph& graph, const View& view) {
  const Geometry& geometry = graph.geometry(view);
  return static_cast<double>(geometry.extents.elements()) *
         static_cast<double>(byte_size(graph.type(view.allocation).dtype));
}

double bytes_of(const CopyDescriptor& copy, DType dtype) {
  return static_cast<double>(copy.counts.elements()) * static_cast<double>(copy.chunk) *
         static_cast<double>(byte_size(dtype));
}

double transfer_rate(const Machine& machine, TileId from, TileId to) {
  const bool near = from.valid() && to.valid() && machine.cluster_of(from.index) == machine.cluster_of(to.index);
  return near ? machine.cluster_bytes_per_cycle : machine.across_bytes_per_cycle;
}

}  // namespace

double DistributedTraffic::lower_bound_cycles() const {
  double bound = 0;
  for (size_t tile = 0; tile < sent.size(); ++tile) bound = std::max({bound, sent[tile], received[tile], copied[tile]});
  return bound;
}

double DistributedTraffic::cycles() const {
  double longest = 0;
  for (size_t tile = 0; tile < sent.size(); ++tile) {
    longest = std::max({longest, sent[tile] + fixed_out[tile], received[tile] + copied[tile] + fixed[tile]});
  }
  return longest;
}

DistributedTraffic distributed_traffic(const TileGraph& graph, const Machine& machine, const Superstep& superstep,
                                       std::span<const DistributedPull> pulls) {
  const size_t tiles = graph.tiles();
  DistributedTraffic traffic{std::vector<double>(tiles), std::vector<double>(tiles), std::vector<double>(tiles),
                             std::vector<double>(tiles), std::vector<double>(tiles)};
  for (uint32_t i = 0; i < superstep.exchanges.count; ++i) {
    const Exchange& exchange = graph.exchanges()[superstep.exchanges.begin + i];
    const TileId from = graph.allocation(exchange.source.allocation).home;
    const double bytes = bytes_of(graph, exchange.source);
    double slowest = 0;  // of the multicast
    for (const View& destination : graph.destinations(exchange)) {
      const TileId to = graph.allocation(destination.allocation).home;
      if (from.valid() && from == to) {
        traffic.copied[to.index] += 2 * bytes / machine.own_bytes_per_cycle;
        continue;
      }
      const double cycles = bytes / transfer_rate(machine, from, to);
      if (to.valid()) traffic.received[to.index] += cycles;
      slowest = std::max(slowest, cycles);
    }
    if (from.valid()) traffic.sent[from.index] += slowest;
  }
  for (const DistributedPull& pull : pulls) {
    const bool from_tile = graph.allocation(pull.source.allocation).home.valid();
    const bool to_tile = graph.allocation(pull.destination.allocation).home.valid();
    (from_tile && !to_tile ? traffic.fixed_out : traffic.fixed)[pull.tile.index] += machine.transfer_cycles;
    const bool outside = !from_tile && !to_tile;
    if (!outside) continue;  // counted above; what never lies on a tile goes through one
    const double cycles = bytes_of(pull.descriptor, pull.descriptor.source) / machine.across_bytes_per_cycle;
    traffic.received[pull.tile.index] += cycles;
    traffic.sent[pull.tile.index] += cycles;
  }
  for (const Command& command : graph.commands(superstep)) {
    if (command.kind != Command::Kind::copy) continue;
    const LocalCopy& copy = graph.copies()[command.index];
    const CopyDescriptor& descriptor = graph.descriptor(copy);
    const bool home = graph.allocation(copy.source.allocation).home.valid() &&
                      graph.allocation(copy.destination.allocation).home.valid();
    const double bytes = bytes_of(descriptor, descriptor.source) + bytes_of(descriptor, descriptor.destination);
    traffic.copied[copy.tile.index] += bytes / (home ? machine.own_bytes_per_cycle : machine.across_bytes_per_cycle);
    traffic.fixed[copy.tile.index] += machine.transfer_cycles;
  }
  return traffic;
}

}  // namespace low
