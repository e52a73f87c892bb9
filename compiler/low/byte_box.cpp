#include "compiler/low/byte_box.h"

#include <algorithm>

namespace low {
namespace {

constexpr __int128 address_limit = __int128{1} << 62;

// Searches index differences, largest stride first: at each stride, the rest of the distance must be in reach of the
// smaller ones.
class Meeting {
 public:
  Meeting(const ByteBox& a, const ByteBox& b) {
    // a.begin + sum i * s == b.begin + sum j * t with 0 <= i < extent: one unknown per stride, i - j where both have
    // it.
    const ByteBox::Axis* x = a.used().data();
    const ByteBox::Axis* const x_end = x + a.rank;
    const ByteBox::Axis* y = b.used().data();
    const ByteBox::Axis* const y_end = y + b.rank;
    while (x != x_end || y != y_end) {
      Unknown& unknown = unknowns_[count_++];
      unknown.stride = x != x_end && (y == y_end || x->stride >= y->stride) ? x->stride : y->stride;
      if (x != x_end && x->stride == unknown.stride) unknown.high = (x++)->extent - 1;
      if (y != y_end && y->stride == unknown.stride) unknown.low = -((y++)->extent - 1);
    }
    for (size_t i = count_; i-- > 0;) {
      const Unknown& unknown = unknowns_[i];
      reach_low_[i] = (i + 1 < count_ ? reach_low_[i + 1] : 0) + unknown.low * unknown.stride;
      reach_high_[i] = (i + 1 < count_ ? reach_high_[i + 1] : 0) + unknown.high * unknown.stride;
    }
  }

  bool possible(int64_t distance, size_t level = 0) {
    if (level == count_) return distance == 0;
    if (--budget_ < 0) return true;
    const Unknown& unknown = unknowns_[level];
    const int64_t rest_low = level + 1 < count_ ? reach_low_[level + 1] : 0;
    const int64_t rest_high = level + 1 < count_ ? reach_high_[level + 1] : 0;
    // distance - d * stride in [rest_low, rest_high]
    const int64_t first = std::max(unknown.low, divide_up(distance - rest_high, unknown.stride));
    const int64_t last = std::min(unknown.high, divide_down(distance - rest_low, unknown.stride));
    for (int64_t d = first; d <= last; ++d) {
      if (possible(distance - d * unknown.stride, level + 1)) return true;
    }
    return false;
  }

 private:
  struct Unknown {
    int64_t stride = 1, low = 0, high = 0;
  };
  static int64_t divide_down(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
  static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

  std::array<Unknown, 2 * (max_rank + 2)> unknowns_{};
  std::array<int64_t, 2 * (max_rank + 2)> reach_low_{}, reach_high_{};
  size_t count_ = 0;
  int budget_ = 4096;
};

}  // namespace

bool ByteBox::same_shape(const ByteBox& other) const {
  return end - begin == other.end - other.begin && std::ranges::equal(used(), other.used());
}

ByteBox byte_box(std::span<const int64_t> extents, std::span<const int64_t> strides, int64_t chunk, int64_t offset,
                 size_t element_bytes) {
  const auto bytes = static_cast<int64_t>(element_bytes);
  ByteBox box;
  box.begin = box.end = offset * bytes;
  if (chunk == 0 || std::ranges::find(extents, 0) != extents.end()) return box;
  const auto add = [&](int64_t stride, int64_t extent) {
    if (extent == 1 || stride == 0) return;
    if (stride < 0) {
      box.begin += (extent - 1) * stride;
      stride = -stride;
    }
    box.axes[static_cast<size_t>(box.rank++)] = {stride, extent};
  };
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] > 1) add(strides[i] * bytes, extents[i]);
  }
  add(bytes, chunk);
  add(1, bytes);
  // At most ten: insertion sort, stable and without the cost of a general one.
  for (int i = 1; i < box.rank; ++i) {
    for (int j = i; j > 0; --j) {
      auto& inner = box.axes[static_cast<size_t>(j)];
      auto& outer = box.axes[static_cast<size_t>(j - 1)];
      if (outer.stride > inner.stride || (outer.stride == inner.stride && outer.extent >= inner.extent)) break;
      std::swap(inner, outer);
    }
  }
  // From the innermost axis outwards; axes of one stride add up (a + b with a < m, b < n is c < m + n - 1).
  std::array<ByteBox::Axis, max_rank + 2> merged{};
  int count = 0;
  for (int i = box.rank; i-- > 0;) {
    const ByteBox::Axis axis = box.axes[static_cast<size_t>(i)];
    if (count > 0) {
      ByteBox::Axis& last = merged[static_cast<size_t>(count - 1)];
      if (axis.stride == last.stride) {
        last.extent += axis.extent - 1;
        continue;
      }
      // Steps no longer than the run they start from leave no gap: equal is contiguous, less is an overlap.
      if (axis.stride % last.stride == 0 && axis.stride / last.stride <= last.extent) {
        last.extent += axis.stride / last.stride * (axis.extent - 1);
        continue;
      }
    }
    merged[static_cast<size_t>(count++)] = axis;
  }
  box.rank = count;
  box.end = box.begin + 1;
  for (int i = 0; i < count; ++i) {
    box.axes[static_cast<size_t>(i)] = merged[static_cast<size_t>(count - 1 - i)];
    box.end += box.axes[static_cast<size_t>(i)].stride * (box.axes[static_cast<size_t>(i)].extent - 1);
  }
  return box;
}

ByteBox shifted(ByteBox box, int64_t bytes) {
  box.begin += bytes;
  box.end += bytes;
  return box;
}

bool overlap(const ByteBox& a, const ByteBox& b) {
  if (a.empty() || b.empty() || a.end <= b.begin || b.end <= a.begin) return false;
  return Meeting(a, b).possible(b.begin - a.begin);
}

bool reach(std::span<const int64_t> extents, std::span<const int64_t> strides, int64_t chunk, int64_t offset,
           std::span<const Term> terms, std::span<const uint64_t> counts, Reach& result) {
  __int128 low = offset, high = offset;
  bool fits = chunk >= 0, empty = chunk == 0;
  const auto add = [&](__int128 distance) {
    (distance < 0 ? low : high) += distance;
    fits = fits && low > -address_limit && high < address_limit;
  };
  for (size_t i = 0; i < extents.size(); ++i) {
    fits = fits && extents[i] >= 0;
    empty = empty || extents[i] == 0;
    if (fits && !empty) add(__int128{extents[i] - 1} * strides[i]);
  }
  if (fits && !empty) add(chunk - 1);
  for (const Term& term : terms) {
    if (term.level >= counts.size() || term.period == 0) return false;
    const uint64_t steps = std::min<uint64_t>(term.period, counts[term.level]);
    if (fits && steps > 0) add(__int128{term.stride} * static_cast<int64_t>(steps - 1));
  }
  fits = fits && low > -address_limit && high < address_limit;
  if (!fits) return false;
  result = empty ? Reach{} : Reach{static_cast<int64_t>(low), static_cast<int64_t>(high)};
  return true;
}

}  // namespace low
