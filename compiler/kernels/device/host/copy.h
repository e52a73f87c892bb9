// copy: destination[sum i * destination_stride + j] = convert(source[sum i * source_stride + j]), j < chunk, for all i
// below counts.
//
// A kernel K has: Source, Destination, overflow. Run data: rank, counts[max_copy_rank], chunk; operands: source, destination.
#pragma once

#include "compiler/kernels/device/host/lanes.h"
#include "compiler/kernels/device/host/operand.h"

namespace low::device {

LOW_INLINE i64 distance(i64 stride) { return stride < 0 ? -stride : stride; }

template <typename Kernel>
LOW_INLINE void copy_run(i64 count, typename Kernel::Destination* to, const typename Kernel::Source* from) {
  if constexpr (is_same<typename Kernel::Destination, typename Kernel::Source>) {
    constexpr i64 size = sizeof(typename Kernel::Source);
    if (count * size >= 512) {
      copy_bytes(to, from, static_cast<size_t>(count * size));
    } else {
      for (i64 j = 0; j < count; ++j) to[j] = from[j];
    }
  } else {
#pragma clang loop vectorize(assume_safety) interleave_count(4)
    for (i64 j = 0; j < count; ++j) store(to + j, convert<decltype(load(to)), Kernel::overflow>(load(from + j)));
  }
}

template <typename Kernel>
LOW_INLINE void copy_strided(i64 count, typename Kernel::Destination* to, i64 to_stride,
                             const typename Kernel::Source* from, i64 from_stride) {
#pragma clang loop vectorize(disable) unroll(disable)
  for (i64 j = 0; j < count; ++j) {
    if constexpr (is_same<typename Kernel::Destination, typename Kernel::Source>) {
      to[j * to_stride] = from[j * from_stride];
    } else {
      store(to + j * to_stride, convert<decltype(load(to)), Kernel::overflow>(load(from + j * from_stride)));
    }
  }
}

// Two loops, the source's neighbours along the first, the destination's along the second: in blocks that stay in the
// closest cache, as otherwise each element costs a cache line.
template <typename Kernel>
LOW_NOINLINE void copy_transposed(i64 outer, i64 inner, typename Kernel::Destination* to, i64 to_outer, i64 to_inner,
                                  const typename Kernel::Source* from, i64 from_outer, i64 from_inner) {
  constexpr i64 block = 32;
  for (i64 i0 = 0; i0 < outer; i0 += block) {
    const i64 rows = smaller(block, outer - i0);
    for (i64 j0 = 0; j0 < inner; j0 += block) {
      const i64 columns = smaller(block, inner - j0);
      auto* target = to + i0 * to_outer + j0 * to_inner;
      const auto* source = from + i0 * from_outer + j0 * from_inner;
      if constexpr (is_same<typename Kernel::Source, f32> && is_same<typename Kernel::Destination, f32>) {
        if (from_outer == 1 && to_inner == 1) {
          transpose_to<f32>(source, from_inner, rows, columns, target, to_outer);
          continue;
        }
      }
      for (i64 i = 0; i < rows; ++i) {
        copy_strided<Kernel>(columns, target + i * to_outer, to_inner, source + i * from_outer, from_inner);
      }
    }
  }
}

template <typename Kernel>
LOW_NOINLINE void copy(const abi::Launch& launch, CommandPointer command, unsigned char*) {
  constexpr int max_rank = abi::max_copy_rank;
  const Operands operands(launch, command);
  int rank = static_cast<int>(operands.data(0));
  const i64 chunk = operands.data(1 + max_rank);
  const auto* from = operands.address<const typename Kernel::Source>(0);
  auto* to = operands.address<typename Kernel::Destination>(1);
  i64 counts[max_rank], from_strides[max_rank], to_strides[max_rank], position[max_rank];
  for (int axis = 0; axis < rank; ++axis) {
    counts[axis] = operands.data(1 + axis);
    from_strides[axis] = operands.stride(0, axis);
    to_strides[axis] = operands.stride(1, axis);
    position[axis] = 0;
    if (counts[axis] == 0) return;
  }
  // Chunks of one element: the last loop is the innermost, together with the one along which the source is denser, if
  // any.
  const bool elements = chunk == 1 && rank > 0;
  if (elements) --rank;
  int dense = rank;
  for (int axis = 0; elements && axis < rank; ++axis) {
    if (counts[axis] > 1 && distance(from_strides[axis]) < distance(from_strides[dense])) dense = axis;
  }
  const bool transposed = dense != rank;
  i64 outer = 1, to_outer = 0, from_outer = 0;
  if (transposed) {
    outer = counts[dense], to_outer = to_strides[dense], from_outer = from_strides[dense];
    to_strides[dense] = from_strides[dense] = 0;  // the loop below goes over it once
  }
  while (true) {
    if (transposed) {
      copy_transposed<Kernel>(outer, counts[rank], to, to_outer, to_strides[rank], from, from_outer,
                              from_strides[rank]);
    } else if (elements) {
      copy_strided<Kernel>(counts[rank], to, to_strides[rank], from, from_strides[rank]);
    } else {
      copy_run<Kernel>(chunk, to, from);
    }
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      from += from_strides[axis];
      to += to_strides[axis];
      if (++position[axis] < (transposed && axis == dense ? 1 : counts[axis])) break;
      from -= position[axis] * from_strides[axis];
      to -= position[axis] * to_strides[axis];
      position[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace low::device
