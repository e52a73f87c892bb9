#include "compiler/low/access.h"

#include <algorithm>

namespace low {
namespace {

template <typename Function>
void for_each_view(const TileGraph& graph, const Command& command, const Function& function) {
  if (command.kind == Command::Kind::copy) {
    const LocalCopy& copy = graph.copies()[command.index];
    function(copy.source, false);
    function(copy.destination, true);
    return;
  }
  const std::span<const View> operands = graph.operands(graph.runs()[command.index]);
  for (size_t i = 0; i < operands.size(); ++i) function(operands[i], i + 1 == operands.size());
}

}  // namespace

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
  for_each_view(graph, command, [&](const View& view, bool write) {
    accesses.push_back({interval_of(graph, view), graph.tile(command), write});
  });
}

void append_shared_accesses(const TileGraph& graph, const Command& command, std::vector<TileAccess>& accesses) {
  for_each_view(graph, command, [&](const View& view, bool write) {
    const Allocation& allocation = graph.allocation(view.allocation);
    if (!allocation.home.valid() && allocation.role != Role::parameter)
      accesses.push_back({interval_of(graph, view), graph.tile(command), write});
  });
}

bool conflict_between_tiles(const std::vector<TileAccess>& earlier, const std::vector<TileAccess>& later) {
  struct Entry {
    const TileAccess* access;
    bool later;
  };
  if (earlier.empty() || later.empty()) return false;
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
