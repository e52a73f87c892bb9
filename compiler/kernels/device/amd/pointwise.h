// pointwise: result[i…] = body(inputs[i…]…).
//
// A kernel K has: rank, Inputs = List<OperandOf<…>…>, Result = OperandOf<…>, body(values…). A lane computes an element
// at a time.
#pragma once

#include "compiler/kernels/device/amd/operand.h"

namespace low::device {

template <typename Kernel, typename Result, typename... Inputs, int... index>
LOW_INLINE void pointwise_elements(const Operands& operands, List<Inputs...>, Indices<index...>) {
  constexpr int inputs = sizeof...(Inputs);
  const Place<typename Result::Type> result(operands, inputs);
  const auto box = box_of<Kernel::rank, Inputs..., Result>(operands);
  [&](Place<typename Inputs::Type>... places) __attribute__((always_inline)) {
    box.each([&](const i64(&offsets)[inputs + 1]) __attribute__((always_inline)) {
      result.write(offsets[inputs], Kernel::body(places.read(offsets[index])...));
    });
  }(Place<typename Inputs::Type>(operands, index)...);
}

template <typename Kernel>
LOW_KERNEL void pointwise(const abi::Launch& launch, CommandPointer command, Lds) {
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  pointwise_elements<Kernel, typename Kernel::Result>(operands, typename Kernel::Inputs{},
                                                      MakeIndices<Kernel::Inputs::size>{});
}

}  // namespace low::device
