// scatter: result = data, with each update put in its row, or combined with it, in their order.
//
// A kernel K has: Indices = OperandOf<…> over the updates, Updates over (updates, columns), First over [1], Data and
// Result over (rows, columns); combine(old, update).
#pragma once

#include "compiler/kernels/device/host/operand.h"
#include "compiler/kernels/device/index.h"

namespace low::device {

template <typename Kernel>
LOW_NOINLINE void scatter(const abi::Launch& launch, CommandPointer command, unsigned char*) {
  using Indices = typename Kernel::Indices;
  using Updates = typename Kernel::Updates;
  using Data = typename Kernel::Data;
  using Result = typename Kernel::Result;
  using Stored = typename Result::Type;
  const Operands operands(launch, command);
  const i64 updates = operands.extent(0), rows = operands.extent(1), columns = operands.extent(2);
  const auto* indices = operands.address<const typename Indices::Type>(0);
  const i64 first = static_cast<i64>(*operands.address<const typename Kernel::First::Type>(2));
  const auto* update = operands.address<const Stored>(1);
  const auto* data = operands.address<const Stored>(3);
  auto* result = operands.address<Stored>(4);
  const i64 index_step = operands.template stride<Indices>(0, 0);
  const i64 update_row = operands.template stride<Updates>(1, 0), update_step = operands.template stride<Updates>(1, 1);
  const i64 data_row = operands.template stride<Data>(3, 0), data_step = operands.template stride<Data>(3, 1);
  const i64 row = operands.template stride<Result>(4, 0), step = operands.template stride<Result>(4, 1);
  constexpr bool contiguous = Result::axes[1] == Access::unit;
  if (data != result) {
    for (i64 i = 0; i < rows; ++i) {
      if constexpr (contiguous && Data::axes[1] == Access::unit) {
#pragma clang loop vectorize(assume_safety) interleave_count(4)
        for (i64 j = 0; j < columns; ++j) result[i * row + j] = data[i * data_row + j];
      } else {
#pragma clang loop vectorize(disable) unroll(disable)
        for (i64 j = 0; j < columns; ++j) result[i * row + j * step] = data[i * data_row + j * data_step];
      }
    }
  }
  // Which of a block of updates are for these rows, without a branch that would often be guessed wrong; then those.
  constexpr i64 block = 512;
  i64 wanted[block];
  for (i64 begin = 0; begin < updates; begin += block) {
    const i64 end = smaller(begin + block, updates);
    i64 count = 0;
#pragma clang loop vectorize(disable) unroll_count(4)
    for (i64 i = begin; i < end; ++i) {
      wanted[count] = i;
      count += row_from(static_cast<i64>(indices[i * index_step]), first) < static_cast<u64>(rows) ? 1 : 0;
    }
    for (i64 k = 0; k < count; ++k) {
      const i64 i = wanted[k];
      Stored* to = result + (static_cast<i64>(indices[i * index_step]) - first) * row;
      const Stored* from = update + i * update_row;
      if constexpr (contiguous && Updates::axes[1] == Access::unit) {
#pragma clang loop vectorize(assume_safety) interleave_count(1)
        for (i64 j = 0; j < columns; ++j) store(to + j, Kernel::combine(load(to + j), load(from + j)));
      } else {
#pragma clang loop vectorize(disable) unroll(disable)
        for (i64 j = 0; j < columns; ++j) {
          store(to + j * step, Kernel::combine(load(to + j * step), load(from + j * update_step)));
        }
      }
    }
  }
}

}  // namespace low::device
