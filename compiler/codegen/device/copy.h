// copy: destination[sum i * destination_stride + j] = convert(source[sum i * source_stride + j]), j < chunk, for all i
// below counts.
//
// A kernel K has: Source, Destination, overflow. Run data: rank, counts[rank], chunk; operands: source, destination.
#pragma once

#include "compiler/codegen/device/operand.h"

namespace low::device {

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
#pragma clang loop vectorize(assume_safety)
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

template <typename Kernel>
LOW_NOINLINE void copy(const abi::Launch& launch, const abi::Command& command, unsigned char*) {
  constexpr int max_rank = 8;
  const Operands operands(launch, command);
  const i64* data = launch.numbers + command.data;
  int rank = static_cast<int>(data[0]);
  const i64* counts = data + 1;
  const i64 chunk = counts[rank];
  const auto* from = operands.address<const typename Kernel::Source>(0);
  auto* to = operands.address<typename Kernel::Destination>(1);
  i64 from_strides[max_rank], to_strides[max_rank], position[max_rank];
  for (int axis = 0; axis < rank; ++axis) {
    from_strides[axis] = operands.stride(0, axis);
    to_strides[axis] = operands.stride(1, axis);
    position[axis] = 0;
    if (counts[axis] == 0) return;
  }
  // Chunks of one element: the last loop is the innermost.
  const bool elements = chunk == 1 && rank > 0;
  if (elements) --rank;
  while (true) {
    if (elements) {
      copy_strided<Kernel>(counts[rank], to, to_strides[rank], from, from_strides[rank]);
    } else {
      copy_run<Kernel>(chunk, to, from);
    }
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      from += from_strides[axis];
      to += to_strides[axis];
      if (++position[axis] < counts[axis]) break;
      from -= position[axis] * from_strides[axis];
      to -= position[axis] * to_strides[axis];
      position[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace low::device
