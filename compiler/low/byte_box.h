// The bytes that a box inside a storage covers, and whether two such boxes meet.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "compiler/low/tile_graph.h"

namespace low {

// Bytes begin + sum of i * stride. Normal form: axes sorted by descending stride, strides positive, axes of one element
// and of stride 0 gone, axes that continue one another merged, and the bytes of an element the innermost axis. Boxes
// that cover the same bytes by nested strides have equal normal forms.
struct ByteBox {
  struct Axis {
    int64_t stride = 1;
    int64_t extent = 1;
    bool operator==(const Axis&) const = default;
  };
  int64_t begin = 0;
  int64_t end = 0;  // past the last byte; end == begin: no bytes
  int rank = 0;
  std::array<Axis, max_rank + 2> axes{};

  std::span<const Axis> used() const { return {axes.data(), static_cast<size_t>(rank)}; }
  bool empty() const { return begin == end; }
  bool same_shape(const ByteBox& other) const;  // all but where it begins
};

// `chunk` is one more axis of stride 1. The addresses must have been checked: all of them lie in a storage of less than
// 2^62 bytes.
ByteBox byte_box(std::span<const int64_t> extents, std::span<const int64_t> strides, int64_t chunk, int64_t offset,
                 size_t element_bytes);
ByteBox shifted(ByteBox box, int64_t bytes);

// Exact for boxes of nested strides, as those of dense storages are. Where a search through other boxes gets long, the
// answer is yes.
bool overlap(const ByteBox& a, const ByteBox& b);

// Lowest and highest element that a box (with `chunk` as byte_box has it) reaches over all iterations of `terms`, whose
// Repeats run `counts[level]` times; false when that does not fit in 62 bits, or when an extent is negative or a level
// unknown. An empty box reaches nothing: low > high.
struct Reach {
  int64_t low = 0, high = -1;
};
bool reach(std::span<const int64_t> extents, std::span<const int64_t> strides, int64_t chunk, int64_t offset,
           std::span<const Term> terms, std::span<const uint64_t> counts, Reach& result);

}  // namespace low
