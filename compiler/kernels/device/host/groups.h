// What the host's kernels over groups share: walking over axes, partial results, and writing results in blocks.
#pragma once

#include "compiler/kernels/device/groups.h"
#include "compiler/kernels/device/host/operand.h"

namespace low::device {

// Goes through some axes of the iteration space in row-major order; offsets[i] is how far operand i is from its origin,
// in elements.
template <int capacity, int operands>
struct Walker {
  int rank = 0;
  i64 extents[capacity] = {}, position[capacity] = {}, strides[capacity][operands] = {};
  i64 offsets[operands] = {};

  template <typename... Stride>
  LOW_INLINE void add(i64 extent, Stride... stride) {
    if (extent == 1) return;
    const i64 all[] = {stride...};
    for (int i = 0; i < operands; ++i) strides[rank][i] = all[i];
    extents[rank++] = extent;
  }
  LOW_INLINE bool empty() const {
    for (int axis = 0; axis < rank; ++axis) {
      if (extents[axis] == 0) return true;
    }
    return false;
  }
  // False behind the last position; then it stands at the first again.
  LOW_INLINE bool next() {
    for (int axis = rank - 1; axis >= 0; --axis) {
      for (int i = 0; i < operands; ++i) offsets[i] += strides[axis][i];
      if (++position[axis] < extents[axis]) return true;
      for (int i = 0; i < operands; ++i) offsets[i] -= strides[axis][i] * extents[axis];
      position[axis] = 0;
    }
    return false;
  }
};

// Sixteen partial results. Blocks of 64 elements each are combined first, so that rounding errors of long sums stay
// small.
template <Combine kind, typename T>
struct Partials {
  T values[row_partials];

  LOW_INLINE Partials() {
    for (T& value : values) value = identity_of<kind, T>();
  }
  // f(p[j]) for j < count.
  template <typename F>
  LOW_INLINE void add(const T* p, i64 count, F f) {
    constexpr i64 block = partial_block * row_partials;
    for (i64 begin = 0; begin < count; begin += block) {
      const i64 end = smaller(begin + block, count);
      T partial[row_partials];
      for (int i = 0; i < row_partials; ++i) partial[i] = identity_of<kind, T>();
      i64 j = begin;
      for (; j + row_partials <= end; j += row_partials) {
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
        for (int i = 0; i < row_partials; ++i) partial[i] = combine<kind>(partial[i], f(p[j + i]));
      }
#pragma clang loop vectorize(disable) unroll(disable)
      for (int i = 0; j + i < end; ++i) partial[i] = combine<kind>(partial[i], f(p[j + i]));
      for (int i = 0; i < row_partials; ++i) values[i] = combine<kind>(values[i], partial[i]);
    }
  }
  LOW_INLINE void add(const T* p, i64 count) {
    add(p, count, [](T value) __attribute__((always_inline)) { return value; });
  }
  LOW_INLINE T total() {
    for (int width = row_partials / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) values[i] = combine<kind>(values[i], values[i + width]);
    }
    return values[0];
  }
};

// to[j] = map(from[j * stride]), j < count.
template <Access access, typename To, typename From, typename Map>
LOW_INLINE void stage(To* to, const From* from, i64 stride, i64 count, Map map) {
  if constexpr (access == Access::strided) {
#pragma clang loop vectorize(disable) unroll(disable)
    for (i64 j = 0; j < count; ++j) to[j] = map(load(from + j * stride));
  } else if constexpr (access == Access::unit) {
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
    for (i64 j = 0; j < count; ++j) to[j] = map(load(from + j));
  } else {
    for (i64 j = 0; j < count; ++j) to[j] = map(load(from));
  }
}

// The outer axis along which results are written in blocks.
template <typename Kernel>
inline constexpr int block_axis =
    by_columns<Kernel> ? Kernel::columns : last_moving<typename Kernel::Result>(0, Kernel::rank - Kernel::inner);

}  // namespace low::device
