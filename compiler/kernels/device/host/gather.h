// gather: result[o…] = data[o…, indices[o…, 0], indices[o…, 1], …].
//
// A kernel K has: rank, inner; Data = OperandOf<…> over all axes, Index over the outer ones and the list
// of indices, Result over the outer axes.
#pragma once

#include "compiler/kernels/device/host/groups.h"
#include "compiler/kernels/device/index.h"

namespace low::device {

template <typename Kernel>
LOW_NOINLINE void gather(const abi::Launch& launch, CommandPointer command, unsigned char*) {
  using Data = typename Kernel::Data;
  using Index = typename Kernel::Index;
  using Result = typename Kernel::Result;
  constexpr int inner = Kernel::inner, outer = Kernel::rank - inner;
  constexpr int axis = last_moving<Result>(0, outer);  // of the innermost loop
  const Operands operands(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  const auto* data = operands.address<const typename Data::Type>(0);
  const auto* indices = operands.address<const typename Index::Type>(1);
  auto* result = operands.address<typename Result::Type>(2);
  const i64 data_step = operands.template stride<Data>(0, axis),
            result_step = operands.template stride<Result>(2, axis);
  const i64 index_step = operands.template stride<Index>(1, axis),
            list_step = operands.template stride<Index>(1, outer);
  i64 strides[inner + 1] = {};
  for (int i = 0; i < inner; ++i) strides[i] = operands.template stride<Data>(0, outer + i);
  const auto place = [&](const typename Index::Type* list) __attribute__((always_inline)) {
    i64 offset = 0;
    for (int i = 0; i < inner; ++i) {
      const i64 extent = operands.extent(outer + i);
      offset += index_within(static_cast<i64>(list[i * list_step]), extent) * strides[i];
    }
    return offset;
  };
  Walker<outer, 3> outside;
  for (int a = 0; a < axis; ++a) {
    outside.add(operands.extent(a), operands.template stride<Data>(0, a), operands.template stride<Index>(1, a),
                operands.template stride<Result>(2, a));
  }
  const i64 count = operands.extent(axis);
  do {
    const auto* from = data + outside.offsets[0];
    const auto* list = indices + outside.offsets[1];
    auto* to = result + outside.offsets[2];
    if constexpr (Index::axes[axis] == Access::broadcast) {
      from += place(list);
      if constexpr (Data::axes[axis] == Access::unit && Result::axes[axis] == Access::unit) {
#pragma clang loop vectorize(assume_safety) interleave_count(4)
        for (i64 j = 0; j < count; ++j) to[j] = from[j];
      } else {
#pragma clang loop vectorize(disable) unroll(disable)
        for (i64 j = 0; j < count; ++j) to[j * result_step] = from[j * data_step];
      }
    } else {
#pragma clang loop vectorize(disable) unroll(disable)
      for (i64 j = 0; j < count; ++j) to[j * result_step] = from[j * data_step + place(list + j * index_step)];
    }
  } while (outside.next());
}

}  // namespace low::device
