#include "compiler/low/touched_intervals.h"

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

ByteInterval interval_of(const TileGraph& graph, const View& view) {
  const Geometry& geometry = graph.geometry(view);
  int64_t first = view.offset, last = view.offset;
  for (int axis = 0; axis < geometry.extents.rank(); ++axis) {
    if (geometry.extents[axis] == 0) return {.allocation = view.allocation};
    const int64_t reach = (geometry.extents[axis] - 1) * geometry.strides[axis];
    (reach < 0 ? first : last) += reach;
  }
  for (const Term& term : graph.terms(view)) {
    const int64_t reach = (int64_t{term.period} - 1) * term.stride;
    (reach < 0 ? first : last) += reach;
  }
  const auto size = static_cast<int64_t>(byte_size(graph.type(view.allocation).dtype));
  return {.allocation = view.allocation, .first = first * size, .last = last * size + size - 1};
}

void append_touched(const TileGraph& graph, const Command& command, std::vector<TouchedInterval>& accesses) {
  for_each_view(graph, command, [&](const View& view, bool write) {
    accesses.push_back({interval_of(graph, view), graph.tile(command), write});
  });
}

void append_shared_touched(const TileGraph& graph, const Command& command, std::vector<TouchedInterval>& accesses) {
  for_each_view(graph, command, [&](const View& view, bool write) {
    const Allocation& allocation = graph.allocation(view.allocation);
    if (!allocation.home.valid() && allocation.role != Role::parameter)
      accesses.push_back({interval_of(graph, view), graph.tile(command), write});
  });
}

void TouchedIntervals::add(std::span<const TouchedInterval> accesses) {
  Batch batch;
  for (const TouchedInterval& access : accesses)
    if (access.interval.first <= access.interval.last) batch.push_back({.access = access, .writes = {}, .all = {}});
  if (batch.empty()) return;
  // Batches grow like the digits of a number that is counted up: each interval is sorted again only a few times.
  while (!batches_.empty() && batches_.back().size() <= 2 * batch.size()) {
    batch.insert(batch.end(), batches_.back().begin(), batches_.back().end());
    batches_.pop_back();
  }
  std::ranges::sort(batch, {}, [](const Touched& touched) {
    return std::pair(touched.access.interval.allocation, touched.access.interval.first);
  });
  const Touched* before = nullptr;
  for (Touched& touched : batch) {
    const TouchedInterval& access = touched.access;
    const bool begins = before == nullptr || before->access.interval.allocation != access.interval.allocation;
    touched.writes = begins ? Furthest() : before->writes;
    touched.all = begins ? Furthest() : before->all;
    const Furthest::Entry entry{.end = access.interval.last, .tile = access.tile};
    if (access.write) touched.writes.add(entry);
    touched.all.add(entry);
    before = &touched;
  }
  batches_.push_back(std::move(batch));
}

bool TouchedIntervals::conflicts_with(std::span<const TouchedInterval> later) const {
  for (const TouchedInterval& access : later) {
    const ByteInterval& interval = access.interval;
    if (interval.last < interval.first) continue;
    for (const Batch& batch : batches_) {
      // All that begin no later than this ends, in the same allocation.
      const auto behind = std::ranges::upper_bound(
          batch, std::pair(interval.allocation, interval.last), {}, [](const Touched& touched) {
            return std::pair(touched.access.interval.allocation, touched.access.interval.first);
          });
      if (behind == batch.begin()) continue;
      const Touched& touched = *std::prev(behind);
      if (touched.access.interval.allocation != interval.allocation) continue;
      if ((access.write ? touched.all : touched.writes).of_another(access.tile).end >= interval.first) return true;
    }
  }
  return false;
}

}  // namespace low
