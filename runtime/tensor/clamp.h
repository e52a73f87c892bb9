// Double to integer without undefined behaviour.
#pragma once

#include <limits>

namespace low {

// Toward zero, clamped to T's range; NaN gives 0.
template <typename T>
constexpr T truncate_and_clamp(double value) {
  using Limits = std::numeric_limits<T>;
  if (value != value) return 0;
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  // For 64-bit types the maximum rounds up to the power of two, which is the first value out of range.
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(value);
}

}  // namespace low
