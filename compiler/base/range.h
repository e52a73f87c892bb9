// Ranges of an axis, and how an axis is cut into parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/base/integers.h"

namespace low {

// Elements [begin, end); none where end <= begin.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};
inline Range intersection(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// dividend / divisor, neither of them negative. Where most divisors are 1 or larger than what they divide, asking first
// takes less time than dividing.
inline int64_t quotient(int64_t dividend, int64_t divisor) {
  return divisor == 1 ? dividend : dividend < divisor ? 0 : dividend / divisor;
}

// Piece `index` of [0, extent) in pieces of `size` elements; the last ones are smaller or empty.
inline Range piece_range(int64_t extent, int64_t size, int64_t index) {
  return {std::min(index * size, extent), std::min((index + 1) * size, extent)};
}
// What part `part` of `parts` owns of [0, extent): ceil(extent / parts) each, the last ones fewer or none.
inline Range part_range(int64_t extent, uint32_t parts, uint32_t part) {
  return piece_range(extent, ceil_div(extent, parts), part);
}
// The size of the first part of an axis that is cut into `parts`; at least 1.
inline int64_t part_size(int64_t extent, uint32_t parts) { return std::max<int64_t>(ceil_div(extent, parts), 1); }

}  // namespace low
