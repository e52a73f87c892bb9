#include "compiler/low/access.h"

#include <algorithm>

namespace low {

Interval interval_of(const TileGraph& graph, const View& view) {
  AllocationId owner = view.allocation;
  while (graph.allocation(owner).alias.valid()) owner = graph.allocation(owner).alias;
  const Geometry& geometry = graph.geometry(view);
  int64_t first = view.offset, last = view.offset;
  for (int axis = 0; axis < geometry.extents.rank(); ++axis) {
    if (geometry.extents[axis] == 0) return {.allocation = owner};
    const int64_t reach = (geometry.extents[axis] - 1) * geometry.strides[axis];
    (reach < 0 ? first : last) += reach;
  }
  for (const Term& term : graph.terms(view)) {
    const int64_t reach = (int64_t{term.period} - 1) * term.stride;
    (reach < 0 ? first : last) += reach;
  }
  const auto size = static_cast<int64_t>(byte_size(graph.type(view.allocation).dtype));
  return {.allocation = owner, .first = first * size, .last = last * size + size - 1};
}

void append_accesses(const TileGraph& graph, const Command& command, std::vector<TileAccess>& accesses) {
  const TileId tile = graph.tile(command);
  if (command.kind == Command::Kind::copy) {
    const LocalCopy& copy = graph.copies()[command.index];
    accesses.push_back({interval_of(graph, copy.source), tile, false});
    accesses.push_back({interval_of(graph, copy.destination), tile, true});
    return;
  }
  const std::span<const View> operands = graph.operands(graph.runs()[command.index]);
  for (size_t i = 0; i < operands.size(); ++i)
    accesses.push_back({interval_of(graph, operands[i]), tile, i + 1 == operands.size()});
}

bool conflict_between_tiles(const std::vector<TileAccess>& earlier, const std::vector<TileAccess>& later) {
  struct Entry {
    const TileAccess* access;
    bool later;
  };
  std::vector<Entry> entries;
  for (const TileAccess& access : earlier) entries.push_back({&access, false});
  for (const TileAccess& access : later) entries.push_back({&access, true});
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    const Interval &x = a.access->interval, &y = b.access->interval;
    if (x.allocation != y.allocation) return x.allocation < y.allocation;
    return x.first < y.first;
  });
  // Sweep by first byte, keeping what may still overlap.
  std::vector<Entry> open;
  for (const Entry& entry : entries) {
    const Interval& interval = entry.access->interval;
    if (interval.last < interval.first) continue;
    std::erase_if(open, [&](const Entry& other) {
      return other.access->interval.allocation != interval.allocation || other.access->interval.last < interval.first;
    });
    for (const Entry& other : open)
      if (other.later != entry.later && other.access->tile != entry.access->tile &&
          (other.access->write || entry.access->write))
        return true;
    open.push_back(entry);
  }
  return false;
}

}  // namespace low
