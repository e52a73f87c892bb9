// copy: destination[sum i * destination_stride + j] = convert(source[sum i * source_stride + j]), j < chunk, for all i
// below counts.
//
// A kernel K has: Source, Destination, overflow. Run data: rank, counts[max_copy_rank], chunk; operands: source,
// destination. A lane copies an element at a time.
#pragma once

#include "compiler/kernels/device/amd/operand.h"

namespace low::device {

template <typename Kernel>
LOW_KERNEL void copy(const abi::Launch& launch, CommandPointer command, Lds) {
  constexpr int most = abi::max_copy_rank;
  const Operands operands = operands_of<Kernel>(launch, command);
  const int rank = static_cast<int>(operands.data(0));
  // The chunk is the innermost axis.
  Box<most + 1, 2> box;
  box.extents[most] = static_cast<u32>(operands.data(most + 1));
  box.strides[most][0] = box.strides[most][1] = 1;
#pragma unroll
  for (int axis = 0; axis < most; ++axis) {
    const bool has = axis < rank;
    box.extents[axis] = has ? static_cast<u32>(operands.data(1 + axis)) : 1;
    box.strides[axis][0] = has ? operands.stride(0, axis) : 0;
    box.strides[axis][1] = has ? operands.stride(1, axis) : 0;
  }
  box.merge();
  const Place<typename Kernel::Source> source(operands, 0);
  const Place<typename Kernel::Destination> destination(operands, 1);
  using To = decltype(destination.read(0));
  box.each([&](const i64(&offsets)[2]) __attribute__((always_inline)) {
    destination.write(offsets[1], convert<To, Kernel::overflow>(source.read(offsets[0])));
  });
}

}  // namespace low::device
