// How the innermost loop of a kernel walks along its operands, a strip at a time.
#pragma once

#include "compiler/kernels/device/command.h"
#include "compiler/kernels/device/host/target.h"

namespace low::device {

// An input along the innermost axis. `get(j)` is element j's value.
template <typename T, Access access>
struct Cursor {
  const T* base;
  i64 stride;

  LOW_INLINE auto get(int j) const {
    if constexpr (access == Access::broadcast) {
      return load(base);
    } else {
      return load(access == Access::unit ? base + j : base + j * stride);
    }
  }
  // From element j on, as a strip: itself, or where fewer elements are left, a copy in `buffer`, filled up with zeros.
  LOW_INLINE Cursor strip_at(i64 j, i64 left, unsigned char* buffer) const {
    if constexpr (access == Access::broadcast) {
      return *this;
    } else {
      const T* from = access == Access::unit ? base + j : base + j * stride;
      if (left >= strip) return {from, stride};
      T* to = reinterpret_cast<T*>(buffer);
#pragma clang loop vectorize(disable) unroll(disable)
      for (i64 i = 0; i < strip; ++i) to[i] = i < left ? from[access == Access::unit ? i : i * stride] : T{};
      return {to, 1};
    }
  }
};

// result[j] = body(inputs[j]…) for a strip. Elements are independent, also when the result lies where an input does.
template <typename Kernel, Access access, typename T, typename... Inputs>
LOW_INLINE void map_strip(T* result, i64 stride, Inputs... inputs) {
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
  for (int j = 0; j < strip; ++j) {
    store(access == Access::unit ? result + j : result + j * stride, Kernel::body(inputs.get(j)...));
  }
}

// The same for any number of elements. A tail is a strip too, staged in buffers: there is one copy of the body's code,
// and no slow loop over the last few elements.
template <typename Kernel, Access access, typename T, typename... Inputs>
LOW_INLINE void map_row(i64 count, T* result, i64 stride, Inputs... inputs) {
  alignas(64) unsigned char buffers[sizeof...(Inputs) + 1][strip * 8];
  for (i64 j = 0; j < count; j += strip) {
    const i64 left = count - j;
    T* to = access == Access::unit ? result + j : result + j * stride;
    T* tail = reinterpret_cast<T*>(buffers[sizeof...(Inputs)]);
    int slot = 0;
    map_strip<Kernel, access>(left >= strip ? to : tail, left >= strip ? stride : 1,
                              inputs.strip_at(j, left, buffers[slot++])...);
    if (left < strip) {
#pragma clang loop vectorize(disable) unroll(disable)
      for (i64 i = 0; i < left; ++i) to[access == Access::unit ? i : i * stride] = tail[i];
    }
  }
}

}  // namespace low::device
