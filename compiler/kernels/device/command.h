// Commands as kernels read them: the extents of a run, and where its operands are.
#pragma once

#include "compiler/kernels/device/scalar_ops.h"
#include "runtime/format/abi.h"

namespace low::device {

enum class Access { broadcast, unit, strided };

// Element type, and the access along each axis of the kernel's iteration space.
template <typename T, Access... access>
struct OperandOf {
  using Type = T;
  static constexpr Access axes[sizeof...(access)] = {access...};
};

template <typename Operand, int axis>
inline constexpr Access access_along = Operand::axes[axis];

// The last axis in [first, end) along which the operand moves, or `first`.
template <typename Operand>
constexpr int last_moving(int first, int end) {
  int axis = end - 1;
  while (axis > first && Operand::axes[axis] == Access::broadcast) --axis;
  return axis;
}

template <typename... T>
struct List {
  static constexpr int size = sizeof...(T);
};

// A record of abi.h. It does not change while a kernel runs.
using CommandPointer = const LOW_CONSTANT abi::Command*;

LOW_INLINE CommandPointer command_at(const abi::Launch& launch, u32 block) {
  const auto words = (const LOW_CONSTANT u64*)(launch.commands);
  return (CommandPointer)(words + u64{block} * abi::block_words);
}

// The data and the operands of one command.
class Operands {
 public:
  Operands(const abi::Launch& launch, CommandPointer command)
      : Operands(launch, command, command->data_count, command->operand_count, command->stride_count) {}
  // With the counts that the kernel's contract says: every place is then known when the kernel is compiled.
  LOW_INLINE Operands(const abi::Launch& launch, CommandPointer command, u32 data_count, u32 operand_count,
                      u32 stride_count)
      : launch_(launch),
        words_((const LOW_CONSTANT u64*)(command)),
        data_count_(data_count),
        operand_count_(operand_count),
        stride_count_(stride_count) {}

  LOW_INLINE i64 data(int i) const { return static_cast<i64>(words_[abi::data_word + static_cast<u32>(i)]); }
  LOW_INLINE i64 extent(int axis) const { return data(axis); }
  // Whether one of the first `rank` extents is 0.
  LOW_INLINE bool nothing(int rank) const {
    for (int axis = 0; axis < rank; ++axis) {
      if (extent(axis) == 0) return true;
    }
    return false;
  }

  template <typename T>
  LOW_INLINE T* address(int i) const {
    const auto operand = (const LOW_CONSTANT abi::Operand*)(words_ + place(i));
    i64 offset = static_cast<i64>(operand->offset);
    const auto terms =
        (const LOW_CONSTANT abi::Term*)(words_ + abi::operand_word(data_count_, stride_count_, operand_count_));
    for (u32 t = operand->term_begin; t != u32{operand->term_begin} + operand->term_count; ++t) {
      offset += static_cast<i64>(launch_.iterations[terms[t].level] % terms[t].period) * terms[t].stride;
    }
    return reinterpret_cast<T*>(launch_.memories[operand->memory] + offset);
  }
  // In elements. Along an axis of broadcast access it means nothing: nobody moves.
  LOW_INLINE i64 stride(int i, int axis) const {
    return static_cast<i64>(words_[place(i) + 2 + static_cast<u32>(axis)]);
  }
  template <typename Operand>
  LOW_INLINE i64 stride(int i, int axis) const {
    return Operand::axes[axis] == Access::broadcast ? 0 : Operand::axes[axis] == Access::unit ? 1 : stride(i, axis);
  }

 private:
  LOW_INLINE u64 place(int i) const { return abi::operand_word(data_count_, stride_count_, static_cast<u32>(i)); }

  const abi::Launch& launch_;
  const LOW_CONSTANT u64* words_;
  u32 data_count_, operand_count_, stride_count_;
};

}  // namespace low::device
