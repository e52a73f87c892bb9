#include "compiler/exchange/pulls.h"

#include <algorithm>

#include "compiler/low/view_use.h"

namespace low {
namespace {

bool same_terms(const TileGraph& graph, const View& a, const View& b) {
  return std::ranges::equal(graph.terms(a), graph.terms(b));
}

// Appends `next` to `pull` if it continues it: behind its chunk in each row, or behind its last row (or plane, …).
bool merge(const TileGraph& graph, DistributedPull& pull, const DistributedPull& next) {
  CopyDescriptor& a = pull.descriptor;
  const CopyDescriptor& b = next.descriptor;
  if (pull.tile != next.tile || pull.source.allocation != next.source.allocation ||
      pull.destination.allocation != next.destination.allocation || !same_terms(graph, pull.source, next.source) ||
      !same_terms(graph, pull.destination, next.destination) || a.source != b.source ||
      a.destination != b.destination || a.overflow != b.overflow || a.source_strides != b.source_strides ||
      a.destination_strides != b.destination_strides) {
    return false;
  }
  const int64_t source_distance = next.source.offset - pull.source.offset;
  const int64_t destination_distance = next.destination.offset - pull.destination.offset;
  if (a.counts == b.counts && source_distance == a.chunk && destination_distance == a.chunk) {
    a.chunk += b.chunk;
    return true;
  }
  if (a.counts.rank() == 0 || a.chunk != b.chunk) return false;
  Shape inner = a.counts;
  inner[0] = b.counts[0];
  if (inner != b.counts || source_distance != a.counts[0] * a.source_strides[0] ||
      destination_distance != a.counts[0] * a.destination_strides[0]) {
    return false;
  }
  a.counts[0] += b.counts[0];
  return true;
}

// A loop that continues the chunk, or the loop inside of it, on both sides is no loop of its own.
void join_loops(CopyDescriptor& copy) {
  Shape counts;
  Strides source, destination;
  int rank = copy.counts.rank();
  while (rank > 0 && copy.source_strides[rank - 1] == copy.chunk && copy.destination_strides[rank - 1] == copy.chunk) {
    copy.chunk *= copy.counts[--rank];
  }
  for (int loop = 0; loop < rank; ++loop) {
    const int last = counts.rank() - 1;
    if (last >= 0 && source[last] == copy.counts[loop] * copy.source_strides[loop] &&
        destination[last] == copy.counts[loop] * copy.destination_strides[loop]) {
      counts[last] *= copy.counts[loop];
      source[last] = copy.source_strides[loop];
      destination[last] = copy.destination_strides[loop];
      continue;
    }
    counts.append(copy.counts[loop]);
    source.append(copy.source_strides[loop]);
    destination.append(copy.destination_strides[loop]);
  }
  copy.counts = counts;
  copy.source_strides = source;
  copy.destination_strides = destination;
}

bool empty(const CopyDescriptor& copy) { return copy.chunk == 0 || copy.counts.elements() == 0; }

}  // namespace

CopyDescriptor copy_descriptor(DType dtype, const Geometry& source, const Geometry& destination) {
  CopyDescriptor copy;
  copy.source = copy.destination = dtype;
  if (source.extents.elements() == 0) {
    copy.chunk = 0;
    return copy;
  }
  for (int axis = 0; axis < source.extents.rank(); ++axis) {
    if (source.extents[axis] == 1) continue;
    copy.counts.append(source.extents[axis]);
    copy.source_strides.append(source.strides[axis]);
    copy.destination_strides.append(destination.strides[axis]);
  }
  join_loops(copy);
  return copy;
}

std::vector<DistributedPull> superstep_pulls(const TileGraph& graph, const Superstep& superstep) {
  std::vector<DistributedPull> pulls;
  uint32_t ordinal = 0;
  for (uint32_t i = 0; i < superstep.exchanges.count; ++i) {
    const Exchange& exchange = graph.exchanges()[superstep.exchanges.begin + i];
    for (const View& destination : graph.destinations(exchange)) {
      DistributedPull pull;
      pull.tile = transfer_tile(graph, exchange.source, destination, ordinal++);
      pull.source = exchange.source;
      pull.destination = destination;
      pull.descriptor = copy_descriptor(graph.type(exchange.source.allocation).dtype, graph.geometry(exchange.source),
                                        graph.geometry(destination));
      if (!empty(pull.descriptor)) pulls.push_back(pull);
    }
  }
  const auto in_address_order = [](const DistributedPull& a, const DistributedPull& b) {
    if (a.tile != b.tile) return a.tile < b.tile;
    if (a.source.allocation != b.source.allocation) return a.source.allocation < b.source.allocation;
    if (a.destination.allocation != b.destination.allocation)
      return a.destination.allocation < b.destination.allocation;
    if (a.source.offset != b.source.offset) return a.source.offset < b.source.offset;
    return a.destination.offset < b.destination.offset;
  };
  std::ranges::sort(pulls, in_address_order);
  size_t kept = 0;
  for (size_t i = 0; i < pulls.size(); ++i) {
    if (kept > 0 && merge(graph, pulls[kept - 1], pulls[i])) continue;
    pulls[kept++] = pulls[i];
  }
  pulls.resize(kept);
  for (DistributedPull& pull : pulls) join_loops(pull.descriptor);

  // Sources in global memory have no tile: their places, in order of address, are spread over the tiles' numbers.
  using Place = std::pair<AllocationId, int64_t>;
  std::vector<Place> places;
  for (const DistributedPull& pull : pulls) places.emplace_back(pull.source.allocation, pull.source.offset);
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (DistributedPull& pull : pulls) {
    const TileId home = graph.allocation(pull.source.allocation).home;
    const auto rank = static_cast<uint64_t>(
        std::ranges::lower_bound(places, Place(pull.source.allocation, pull.source.offset)) - places.begin());
    pull.source_number = home.valid() ? home.index : static_cast<uint32_t>(rank * graph.tiles() / places.size());
  }
  const auto turn = [&graph](const DistributedPull& pull) {
    return (pull.source_number + 2 * uint64_t{graph.tiles()} - pull.tile.index - 1) % graph.tiles();
  };
  std::ranges::sort(pulls, [&](const DistributedPull& a, const DistributedPull& b) {
    if (a.tile != b.tile) return a.tile < b.tile;
    const uint64_t turn_a = turn(a), turn_b = turn(b);
    return turn_a != turn_b ? turn_a < turn_b : in_address_order(a, b);
  });
  return pulls;
}

}  // namespace low
