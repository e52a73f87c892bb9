// pointwise: result[i…] = body(inputs[i…]…).
//
// A kernel K has: rank, extents[rank], Inputs = List<OperandOf<…>…>, Result = OperandOf<…>, body(values…).
#pragma once

#include "compiler/kernels/device/operand.h"

namespace low::device {

// The axis of the innermost loop: the last that has more than one element.
template <typename Kernel>
constexpr int inner_axis() {
  int axis = Kernel::rank - 1;
  while (axis > 0 && Kernel::extents[axis] == 1) --axis;
  return axis;
}

template <typename Kernel, typename Result, typename... Inputs, int... index>
LOW_INLINE void pointwise_loops(const Operands& operands, List<Inputs...>, Indices<index...>) {
  constexpr int inner = inner_axis<Kernel>();
  constexpr int count = sizeof...(Inputs);
  constexpr i64 extent = Kernel::extents[inner];
  using T = typename Result::Type;
  // Per axis, then per operand; the result is the last. One entry more, as arrays are not empty.
  i64 strides[inner + 1][count + 1];
  for (int axis = 0; axis <= inner; ++axis) {
    ((strides[axis][index] = operands.template stride<Inputs>(index, axis)), ...);
    strides[axis][count] = operands.template stride<Result>(count, axis);
  }
  // Axes that continue the innermost one in all operands are one loop with it.
  i64 length = extent;
  int outer = inner;
  while (outer > 0) {
    bool continues = true;
    for (int i = 0; i <= count; ++i) continues &= strides[outer - 1][i] == strides[inner][i] * length;
    if (!continues) break;
    length *= Kernel::extents[--outer];
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
      if (++position[axis] < Kernel::extents[axis]) break;
      const i64 back = position[axis];
      ((bases[index] -= back * strides[axis][index] * static_cast<i64>(sizeof(typename Inputs::Type))), ...);
      result -= back * strides[axis][count];
      position[axis] = 0;
    }
    if (axis < 0) return;
  }
}

template <typename Kernel>
LOW_NOINLINE void pointwise(const abi::Launch& launch, const abi::Command& command, unsigned char*) {
  for (const i64 extent : Kernel::extents) {
    if (extent == 0) return;
  }
  pointwise_loops<Kernel, typename Kernel::Result>(Operands(launch, command), typename Kernel::Inputs{},
                                                   MakeIndices<Kernel::Inputs::size>{});
}

}  // namespace low::device
