// Operands: where they are, and how the innermost loop of a kernel walks along them.
#pragma once

#include "compiler/kernels/device/scalar_ops.h"
#include "compiler/kernels/device/target.h"
#include "runtime/format/abi.h"

namespace low::device {

enum class Access { broadcast, unit, strided };

// Element type, and the access along each axis of the kernel's iteration space.
template <typename T, Access... access>
struct OperandOf {
  using Type = T;
  static constexpr Access axes[sizeof...(access)] = {access...};
};

template <typename Operand, int axis>
inline constexpr Access access_along = Operand::axes[axis];

// The last axis in [first, end) along which the operand moves, or `first`.
template <typename Operand>
constexpr int last_moving(int first, int end) {
  int axis = end - 1;
  while (axis > first && Operand::axes[axis] == Access::broadcast) --axis;
  return axis;
}

template <typename... T>
struct List {
  static constexpr int size = sizeof...(T);
};

// The operands of one command.
struct Operands {
  const abi::Launch& launch;
  const abi::Operand* first;
  const i64* data;  // of the command: the extents of the run

  Operands(const abi::Launch& l, const abi::Command& command)
      : launch(l), first(l.operands + command.operand_begin), data(l.numbers + command.data) {}

  i64 extent(int axis) const { return data[axis]; }
  // Whether one of the first `rank` extents is 0.
  bool nothing(int rank) const {
    for (int axis = 0; axis < rank; ++axis) {
      if (data[axis] == 0) return true;
    }
    return false;
  }

  template <typename T>
  T* address(int i) const {
    const abi::Operand& operand = first[i];
    i64 offset = static_cast<i64>(operand.offset);
    for (u32 t = operand.term_begin; t != operand.term_begin + operand.term_count; ++t) {
      const abi::Term& term = launch.terms[t];
      offset += static_cast<i64>(launch.iterations[term.level] % term.period) * term.stride;
    }
    return reinterpret_cast<T*>(launch.memories[operand.memory] + offset);
  }
  // In elements. Along an axis of broadcast access it means nothing: nobody moves.
  i64 stride(int i, int axis) const { return launch.numbers[first[i].strides + static_cast<u32>(axis)]; }
  template <typename Operand>
  i64 stride(int i, int axis) const {
    return Operand::axes[axis] == Access::broadcast ? 0 : Operand::axes[axis] == Access::unit ? 1 : stride(i, axis);
  }
};

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
