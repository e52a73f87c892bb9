// gather: result[o…] = data[o…, indices[o…, 0], indices[o…, 1], …].
//
// A kernel K has: rank, inner; Data = OperandOf<…> over all axes, Index over the outer ones and the list
// of indices, Result over the outer axes. A lane looks up an element of the result at a time.
#pragma once

#include "compiler/kernels/device/amd/operand.h"
#include "compiler/kernels/device/index.h"

namespace low::device {

template <typename Kernel>
LOW_KERNEL void gather(const abi::Launch& launch, CommandPointer command, Lds) {
  using Data = typename Kernel::Data;
  using Index = typename Kernel::Index;
  using Result = typename Kernel::Result;
  constexpr int inner = Kernel::inner, outer = Kernel::rank - inner;
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  const Place<typename Data::Type> data(operands, 0);
  const Place<typename Index::Type> indices(operands, 1);
  const Place<typename Result::Type> result(operands, 2);
  const i64 list_step = operands.template stride<Index>(1, outer);
  const auto box = box_of<outer, Data, Index, Result>(operands);
  box.each(
      [&](const i64(&offsets)[3]) __attribute__((always_inline)) {
        i64 offset = offsets[0];
#pragma unroll
        for (int i = 0; i < inner; ++i) {
          const i64 index = static_cast<i64>(indices.read(offsets[1] + i * list_step));
          offset += index_within(index, operands.extent(outer + i)) * operands.template stride<Data>(0, outer + i);
        }
        return data.read(offset);
      },
      [&](const i64(&offsets)[3], auto value) __attribute__((always_inline)) { result.write(offsets[2], value); });
}

}  // namespace low::device
