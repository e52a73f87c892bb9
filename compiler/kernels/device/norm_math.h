// The arithmetic of softmax and of normalizations: on one element, and on what is known of its group.
#pragma once

#include "compiler/kernels/device/groups.h"

namespace low::device {

enum class Normalize { softmax, log_softmax, layer_norm, rms_norm, masked_softmax };
template <typename Kernel>
inline constexpr bool is_softmax = Kernel::kind == Normalize::softmax || Kernel::kind == Normalize::masked_softmax;

// What turns an element into a normalized one, for one group: (x - shift) * factor, or a form of exp.
template <typename F>
struct Scaling {
  F shift, factor;
};

template <typename Kernel, typename F>
LOW_INLINE F normalized(F x, Scaling<F> s) {
  if constexpr (is_softmax<Kernel>) {
    return math::exp(x - s.shift) * s.factor;
  } else if constexpr (Kernel::kind == Normalize::log_softmax) {
    return x - s.shift - s.factor;
  } else {
    return (x - s.shift) * s.factor;
  }
}

// Of a group of `count` elements: `first` over all elements, then `second` with the shift that comes out of it.
template <typename Kernel, typename F>
LOW_INLINE F shift_of(F first, i64 count) {
  if constexpr (Kernel::kind == Normalize::layer_norm) return first / static_cast<F>(count);
  // Where nothing takes part, all terms become 0, not exp(-infinity + infinity).
  if constexpr (Kernel::kind == Normalize::masked_softmax) return first == lowest<F>() ? F{0} : first;
  return first;
}
template <typename Kernel, typename F>
LOW_INLINE F second_term(F x, F shift) {
  if constexpr (is_softmax<Kernel> || Kernel::kind == Normalize::log_softmax) {
    return math::exp(x - shift);
  } else {
    return (x - shift) * (x - shift);
  }
}
template <typename Kernel, typename F>
LOW_INLINE F factor_of(F second, i64 count) {
  if constexpr (is_softmax<Kernel>) {
    if constexpr (Kernel::kind == Normalize::masked_softmax) return second == 0 ? F{0} : F{1} / second;
    return F{1} / second;
  } else if constexpr (Kernel::kind == Normalize::log_softmax) {
    return math::log(second);
  } else {
    return F{1} / math::sqrt(second / static_cast<F>(count) + static_cast<F>(Kernel::epsilon));
  }
}

template <typename Kernel>
inline constexpr bool has_first = Kernel::kind != Normalize::rms_norm;
template <typename Kernel>
inline constexpr Combine first_combine = Kernel::kind == Normalize::layer_norm ? Combine::sum : Combine::max;

}  // namespace low::device
