#include "compiler/placement/lifetimes.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "compiler/low/view_use.h"

namespace low {
namespace {

// One use of a storage, without what lifetimes do not depend on.
struct StorageUse {
  uint32_t position = 0;
  bool write = false;
  bool terms = false;
  ByteBox box;
};

// Calls function(begin, length) for each run of bytes in a box until it returns false; false when it did.
template <typename Function>
bool for_each_segment(const ByteBox& box, Function&& function) {
  if (box.empty()) return true;
  int outer = box.rank;
  int64_t length = 1;
  if (outer > 0 && box.axes[static_cast<size_t>(outer - 1)].stride == 1) {
    length = box.axes[static_cast<size_t>(--outer)].extent;
  }
  std::array<int64_t, max_rank + 2> index{};
  int64_t address = box.begin;
  while (true) {
    if (!function(address, length)) return false;
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      address += box.axes[a].stride;
      if (++index[a] < box.axes[a].extent) break;
      address -= box.axes[a].stride * box.axes[a].extent;
      index[a] = 0;
    }
    if (axis < 0) return true;
  }
}

// Bytes that are written, as sorted runs apart from one another: for storages that are used in few pieces.
class WrittenRuns {
 public:
  void write(int64_t begin, int64_t length) {
    int64_t end = begin + length;
    const auto first = std::ranges::lower_bound(runs_, begin, {}, &Run::end);  // the first to reach `begin`
    auto last = first;
    for (; last != runs_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    runs_.insert(runs_.erase(first, last), {begin, end});
  }
  bool covers(int64_t begin, int64_t length) const {
    const auto run = std::ranges::lower_bound(runs_, begin + length, {}, &Run::end);
    return run != runs_.end() && run->begin <= begin;
  }

 private:
  struct Run {
    int64_t begin, end;
  };
  std::vector<Run> runs_;
};

// The same, one by one.
class WrittenBytes {
 public:
  explicit WrittenBytes(uint64_t bytes) : written_(bytes) {}
  void write(int64_t begin, int64_t length) { std::memset(written_.data() + begin, 1, static_cast<size_t>(length)); }
  bool covers(int64_t begin, int64_t length) const {
    return std::memchr(written_.data() + begin, 0, static_cast<size_t>(length)) == nullptr;
  }

 private:
  std::vector<uint8_t> written_;
};

template <typename Written>
bool reads_before_writing(std::span<const StorageUse> uses, Written written) {
  for (const StorageUse& use : uses) {
    const bool covered = for_each_segment(use.box, [&](int64_t begin, int64_t length) {
      if (!use.write) return written.covers(begin, length);
      written.write(begin, length);
      return true;
    });
    if (!covered) return true;
  }
  return false;
}

int64_t segment_count(const ByteBox& box) {
  int64_t count = 1;
  for (const ByteBox::Axis& axis : box.used()) {
    if (axis.stride != 1) count *= axis.extent;
  }
  return count;
}

// The largest number of bytes of which everything in the box is a multiple.
int64_t granule_of(const ByteBox& box) {
  int64_t granule = box.begin;
  bool dense = false;
  for (const ByteBox::Axis& axis : box.used()) {
    dense = dense || axis.stride == 1;
    granule = std::gcd(granule, axis.stride == 1 ? axis.extent : axis.stride);
  }
  return dense ? granule : 1;
}

ByteBox in_granules(ByteBox box, int64_t granule) {
  box.begin /= granule;
  box.end = box.begin + (box.end - box.begin + granule - 1) / granule;
  for (ByteBox::Axis& axis : std::span(box.axes).first(static_cast<size_t>(box.rank))) {
    if (axis.stride == 1) {
      axis.extent /= granule;
    } else {
      axis.stride /= granule;
    }
  }
  return box;
}

// What may still be spent on finding out which bodies carry what, in steps; a byte of a map takes a few of them.
constexpr double max_steps = double{1 << 28};
constexpr int64_t max_map_bytes = int64_t{1} << 26;

// Whether the uses of one iteration, in program order, read something that none of them wrote before. If finding out
// takes too much of a storage that is used in many pieces: yes, which costs memory, but is never wrong.
bool reads_before_writing(std::span<const StorageUse> uses, uint64_t bytes, double& steps) {
  if (std::ranges::any_of(uses, &StorageUse::terms) || !uses.front().write) return true;
  constexpr int64_t few_segments = 512;
  int64_t segments = 0;
  for (const StorageUse& use : uses) segments += std::min(segment_count(use.box), few_segments);
  if (segments < few_segments) return reads_before_writing(uses, WrittenRuns());

  auto granule = static_cast<int64_t>(bytes);
  for (const StorageUse& use : uses) granule = std::gcd(granule, granule_of(use.box));
  const int64_t map_bytes = static_cast<int64_t>(bytes) / granule;
  double needed = static_cast<double>(map_bytes);
  std::vector<StorageUse> scaled(uses.begin(), uses.end());
  for (StorageUse& use : scaled) {
    use.box = in_granules(use.box, granule);
    const auto runs = static_cast<double>(segment_count(use.box));
    needed += runs;
    if (const auto axes = use.box.used(); !axes.empty() && axes.back().stride == 1)
      needed += runs * static_cast<double>(axes.back().extent) / 16;
  }
  if (map_bytes > max_map_bytes || needed > steps) return true;
  steps -= needed;
  return reads_before_writing(std::span<const StorageUse>(scaled), WrittenBytes(static_cast<uint64_t>(map_bytes)));
}

// Supersteps are numbered in program order, so a region's are consecutive.
RepeatRange find_ranges(const TileGraph& graph, RegionId region, uint32_t& position, std::vector<RepeatRange>& ranges) {
  RepeatRange range{position, 0, 0};
  for (const Step& step : graph.steps(graph.regions()[region.index])) {
    if (step.kind == Step::Kind::superstep) {
      ++position;
    } else {
      const RepeatStep& repeat = graph.repeats()[step.index];
      ranges[step.index] = find_ranges(graph, repeat.body, position, ranges);
      ranges[step.index].level = repeat.level;
    }
  }
  if (position == range.first) return RepeatRange{1, 0, 0};
  range.last = position - 1;
  return range;
}

}  // namespace

std::vector<RepeatRange> repeat_ranges(const TileGraph& graph) {
  std::vector<RepeatRange> ranges(graph.repeats().size());
  uint32_t position = 0;
  if (graph.root().valid()) find_ranges(graph, graph.root(), position, ranges);
  return ranges;
}

Table<AllocationId, Lifetime> lifetimes(const TileGraph& graph) {
  const size_t allocations = graph.allocations().size();
  const std::vector<RepeatRange> ranges = repeat_ranges(graph);
  const uint32_t last_position = graph.supersteps().empty() ? 0 : static_cast<uint32_t>(graph.supersteps().size() - 1);

  Table<AllocationId, Lifetime> result(allocations, Lifetime{UINT32_MAX, 0});
  const auto live_at = [&](AllocationId id, uint32_t position) {
    result[id].first = std::min(result[id].first, position);
    result[id].last = std::max(result[id].last, position);
  };
  // Where nothing is repeated, no more than the positions has to be known.
  const bool repeats = std::ranges::any_of(ranges, [](const RepeatRange& range) { return !range.empty(); });
  Table<AllocationId, std::vector<StorageUse>> uses(allocations);
  for (uint32_t position = 0; position < graph.supersteps().size(); ++position) {
    for_each_use(graph, graph.supersteps()[position], [&](const ViewUse& use) {
      if (!repeats) {
        if (std::ranges::find(use.extents, 0) == use.extents.end() && use.chunk > 0)
          live_at(use.view.allocation, position);
        return;
      }
      std::vector<StorageUse>& list = uses[use.view.allocation];
      StorageUse next{position, use.write, use.view.terms.count > 0,
                      byte_box(use.extents, use.strides, use.chunk, use.view.offset,
                               byte_size(graph.type(use.view.allocation).dtype))};
      if (next.box.empty()) return;
      // Many runs in a row read one block: it counts once.
      if (!list.empty()) {
        const StorageUse& last = list.back();
        if (last.position == position && last.write == next.write && last.terms == next.terms &&
            last.box.begin == next.box.begin && last.box.same_shape(next.box)) {
          return;
        }
      }
      list.push_back(next);
    });
  }

  double steps = max_steps;
  Table<AllocationId, uint8_t> outside(allocations);  // used before or after all supersteps
  Table<AllocationId, uint8_t> always(allocations);
  for (size_t i = 0; i < allocations; ++i) {
    if (graph.allocation(AllocationId(i)).role == Role::parameter) always[AllocationId(i)] = 1;
  }
  for (const InterfaceTensor& tensor : graph.inputs()) {
    live_at(tensor.allocation, 0);
    outside[tensor.allocation] = 1;
  }
  for (const InterfaceTensor& tensor : graph.outputs()) {
    live_at(tensor.allocation, last_position);
    outside[tensor.allocation] = 1;
  }
  for (size_t i = 0; i < allocations; ++i) {
    const AllocationId id(i);
    const std::vector<StorageUse>& list = uses[id];
    if (always[id] != 0) {
      result[id] = {0, last_position};
      continue;
    }
    for (const StorageUse& use : list) live_at(id, use.position);
    if (!list.empty()) {
      for (const RepeatRange& range : ranges) {
        if (range.empty()) continue;
        const auto begin = std::ranges::lower_bound(list, range.first, {}, &StorageUse::position);
        const auto end = std::ranges::upper_bound(list, range.last, {}, &StorageUse::position);
        if (begin == end) continue;
        const bool elsewhere = outside[id] != 0 || begin != list.begin() || end != list.end();
        if (elsewhere || reads_before_writing(std::span(begin, end), graph.storage_bytes(id), steps)) {
          live_at(id, range.first);
          live_at(id, range.last);
        }
      }
    }
    if (result[id].first == UINT32_MAX) result[id] = {0, 0};  // nothing but a name
  }
  return result;
}

}  // namespace low
