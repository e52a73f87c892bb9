// Operands in memory, an element at a time, and the boxes that kernels walk over.
#pragma once

#include "compiler/kernels/device/amd/loops.h"

namespace low::device {

// With the counts that codegen states, so that no address waits for a count.
template <typename Kernel>
LOW_INLINE Operands operands_of(const abi::Launch& launch, CommandPointer command) {
  return Operands(launch, command, Kernel::data_count, Kernel::operand_count, Kernel::stride_count);
}

// The same where few registers are left: what is read from it takes none before.
template <typename Kernel>
LOW_INLINE Operands operands_anew(const abi::Launch& launch, CommandPointer command) {
  return operands_of<Kernel>(launch, anew(command));
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

// Elements of axes [first, end) of a run.
template <int first, int end>
LOW_INLINE u32 elements_over(const Operands& operands) {
  u32 product = 1;
#pragma unroll
  for (int axis = first; axis < end; ++axis) product *= static_cast<u32>(operands.extent(axis));
  return product;
}
// The i-th of axes [first, end), of which `innermost` comes last.
template <int first, int end, int innermost>
LOW_INLINE constexpr int axis_of(int i) {
  return i + 1 == end - first ? innermost : first + i < innermost ? first + i : first + i + 1;
}

// Axes [first, end) of a run, of which `innermost` comes last, with the moves of its first operands.
template <int first, int end, int innermost, typename... Operand>
LOW_INLINE Box<end - first, sizeof...(Operand)> box_over(const Operands& operands) {
  Box<end - first, sizeof...(Operand)> box;
#pragma unroll
  for (int i = 0; i < end - first; ++i) {
    const int axis = axis_of<first, end, innermost>(i);
    box.extents[i] = static_cast<u32>(operands.extent(axis));
    int operand = 0;
    ((box.strides[i][operand] = operands.template stride<Operand>(operand, axis), ++operand), ...);
  }
  box.merge();
  return box;
}
// Box::offsets_of of these axes, without a box, whose registers are taken as long as it is in use: for what is asked
// for once for many elements.
template <int first, int end, int innermost, typename... Operand>
LOW_INLINE void offsets_over(const Operands& operands, u32 element, i64 (&offsets)[sizeof...(Operand)]) {
#pragma unroll
  for (i64& offset : offsets) offset = 0;
  each_position<end - first>(
      element,
      [&](int i) __attribute__((always_inline)) {
        return static_cast<u32>(operands.extent(axis_of<first, end, innermost>(i)));
      },
      [&](int i, u32 position) __attribute__((always_inline)) {
        const int axis = axis_of<first, end, innermost>(i);
        int operand = 0;
        ((offsets[operand] += static_cast<i64>(position) * operands.template stride<Operand>(operand, axis), ++operand),
         ...);
      });
}
// The first `rank` axes of a run, with the moves of its operands.
template <int rank, typename... Operand>
LOW_INLINE Box<rank, sizeof...(Operand)> box_of(const Operands& operands) {
  return box_over<0, rank, rank - 1, Operand...>(operands);
}

}  // namespace low::device
