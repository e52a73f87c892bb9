// pointwise: result[i…] = body(inputs[i…]…).
//
// A kernel K has: rank, Inputs = List<OperandOf<…>…>, Result = OperandOf<…>, body(values…).
#pragma once

#include "compiler/kernels/device/host/operand.h"

namespace low::device {

template <typename Kernel, typename Result, typename... Inputs, int... index>
LOW_INLINE void pointwise_loops(const Operands& operands, List<Inputs...>, Indices<index...>) {
  constexpr int inner = last_moving<Result>(0, Kernel::rank);
  constexpr int count = sizeof...(Inputs);
  using T = typename Result::Type;
  // Per axis, then per operand; the result is the last. One entry more, as arrays are not empty.
  i64 strides[inner + 1][count + 1];
  for (int axis = 0; axis <= inner; ++axis) {
    ((strides[axis][index] = operands.template stride<Inputs>(index, axis)), ...);
    strides[axis][count] = operands.template stride<Result>(count, axis);
  }
  // Axes that continue the innermost one in all operands are one loop with it.
  i64 length = operands.extent(inner);
  int outer = inner;
  while (outer > 0) {
    bool continues = true;
    for (int i = 0; i <= count; ++i) continues &= strides[outer - 1][i] == strides[inner][i] * length;
    if (!continues) break;
    length *= operands.extent(--outer);
  }
  const unsigned char* bases[count + 1] = {operands.template address<const unsigned char>(index)...};
  T* result = operands.template address<T>(count);
  i64 position[inner + 1] = {};
  while (true) {
    map_row<Kernel, Result::axes[inner]>(
        length, result, strides[inner][count],
        Cursor<typename Inputs::Type, access_along<Inputs, inner>>{
            reinterpret_cast<const typename Inputs::Type*>(bases[index]), strides[inner][index]}...);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      ((bases[index] += strides[axis][index] * static_cast<i64>(sizeof(typename Inputs::Type))), ...);
      result += strides[axis][count];
      if (++position[axis] < operands.extent(axis)) break;
      const i64 back = position[axis];
      ((bases[index] -= back * strides[axis][index] * static_cast<i64>(sizeof(typename Inputs::Type))), ...);
      result -= back * strides[axis][count];
      position[axis] = 0;
    }
    if (axis < 0) return;
  }
}

template <typename Kernel>
LOW_NOINLINE void pointwise(const abi::Launch& launch, CommandPointer command, unsigned char*) {
  const Operands operands(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  pointwise_loops<Kernel, typename Kernel::Result>(operands, typename Kernel::Inputs{},
                                                   MakeIndices<Kernel::Inputs::size>{});
}

}  // namespace low::device
