// Operands in memory, an element at a time, and the boxes that kernels walk over.
#pragma once

#include "compiler/kernels/device/amd/loops.h"

namespace low::device {

// With the counts that codegen states, so that no address waits for a count.
template <typename Kernel>
LOW_INLINE Operands operands_of(const abi::Launch& launch, CommandPointer command) {
  return Operands(launch, command, Kernel::data_count, Kernel::operand_count, Kernel::stride_count);
}

// Where an operand begins.
template <typename T>
struct Place {
  T* base;

  LOW_INLINE Place(const Operands& operands, int index) : base(operands.address<T>(index)) {}
  // An element as a value, and a value as an element.
  LOW_INLINE auto read(i64 offset) const {
    const T element = load_global(base + offset);
    return load(&element);
  }
  template <typename Value>
  LOW_INLINE void write(i64 offset, Value value) const {
    T element;
    store(&element, value);
    store_global(base + offset, element);
  }
};

// The first `rank` axes of a run, with the moves of all its operands.
template <int rank, typename... Operand>
LOW_INLINE Box<rank, sizeof...(Operand)> box_of(const Operands& operands) {
  Box<rank, sizeof...(Operand)> box;
#pragma unroll
  for (int axis = 0; axis < rank; ++axis) {
    box.extents[axis] = static_cast<u32>(operands.extent(axis));
    int i = 0;
    ((box.strides[axis][i] = operands.template stride<Operand>(i, axis), ++i), ...);
  }
  box.merge();
  return box;
}

}  // namespace low::device
