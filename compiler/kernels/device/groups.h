// What kernels over groups have in common on all targets: which axes they go along, and how elements are combined. A
// group is what differs in inner axes only (see families/groups.h).
#pragma once

#include "compiler/kernels/data/rows.h"
#include "compiler/kernels/device/command.h"

namespace low::device {

// Of the inner axes the one of the innermost loop: the last one along which x moves, or the first.
template <typename Kernel>
inline constexpr int innermost = last_moving<typename Kernel::X>(Kernel::rank - Kernel::inner, Kernel::rank);

template <typename Kernel>
inline constexpr bool by_columns = Kernel::columns >= 0;

enum class Combine { sum, product, max, min };

template <typename T>
LOW_INLINE constexpr T lowest() {
  if constexpr (is_same<T, f32> || is_same<T, f64>) {
    return static_cast<T>(-__builtin_inf());
  } else if constexpr (is_signed<T>) {
    return static_cast<T>(u64{1} << (sizeof(T) * 8 - 1));
  } else {
    return T{0};
  }
}
template <typename T>
LOW_INLINE constexpr T highest() {
  if constexpr (is_same<T, f32> || is_same<T, f64>) {
    return static_cast<T>(__builtin_inf());
  } else if constexpr (is_same<T, bool>) {
    return true;
  } else {
    return static_cast<T>(~lowest<T>());
  }
}

template <Combine kind, typename T>
LOW_INLINE constexpr T identity_of() {
  return kind == Combine::sum       ? T{0}
         : kind == Combine::product ? T{1}
         : kind == Combine::max     ? lowest<T>()
                                    : highest<T>();
}
template <Combine kind, typename T>
LOW_INLINE T combine(T a, T b) {
  if constexpr (kind == Combine::sum) {
    return add(a, b);
  } else if constexpr (kind == Combine::product) {
    return mul(a, b);
  } else if constexpr (kind == Combine::max) {
    return max(a, b);
  } else {
    return min(a, b);
  }
}

}  // namespace low::device
