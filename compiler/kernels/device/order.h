// Which of two elements is the extreme one, and which comes first: what reduce and top_k look for.
#pragma once

#include "compiler/kernels/device/groups.h"

namespace low::device {

// A candidate for the extreme element: NaNs are extreme, and equal.
template <typename Kernel, typename T>
LOW_INLINE bool replaces(T candidate, T best) {
  const bool beyond = Kernel::kind == Combine::max ? candidate > best : candidate < best;
  const bool equal = candidate == best;
  if constexpr (is_native_float<T>) {
    const bool nan = candidate != candidate, best_nan = best != best;
    return Kernel::last ? nan || (!best_nan && (beyond || equal)) : !best_nan && (nan || beyond);
  } else {
    return beyond || (Kernel::last && equal);
  }
}

// Whether element `a` at place i comes before `b` at place j. NaNs are equal, and larger than all else.
template <bool smallest, typename T>
LOW_INLINE bool comes_before(T a, i64 i, T b, i64 j) {
  bool before = smallest ? a < b : a > b, equal = a == b;
  if constexpr (is_native_float<T>) {
    const bool a_nan = a != a, b_nan = b != b;
    before = before || (smallest ? b_nan && !a_nan : a_nan && !b_nan);
    equal = equal || (a_nan && b_nan);
  }
  return before || (equal && i < j);
}

// What x is compared as: narrow floats as f32.
template <typename T>
LOW_INLINE auto comparable(T value) {
  if constexpr (is_narrow<T>) {
    return decode(value);
  } else {
    return value;
  }
}

}  // namespace low::device
