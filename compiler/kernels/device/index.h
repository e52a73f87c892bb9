// Indices that a model's data holds, which may be anything.
#pragma once

#include "compiler/kernels/device/base.h"

namespace low::device {

// Along an axis of `extent` elements: negative ones count from the end, what is beyond is the nearest element.
LOW_INLINE constexpr i64 index_within(i64 index, i64 extent) {
  index = index < 0 ? index + extent : index;
  return index < 0 ? 0 : index < extent ? index : extent - 1;
}

// Which of the rows from row `first` on; beyond all of them if it is none.
LOW_INLINE constexpr u64 row_from(i64 index, i64 first) { return static_cast<u64>(index) - static_cast<u64>(first); }

}  // namespace low::device
