// cumulative: result[o…, i] = the sum of x[o…, j] over j up to i, or from i on; with or without i itself.
//
// A kernel K has: rank, inner = 1, columns (-1: none); Accumulate; X, Result = OperandOf<…> over all axes; exclusive,
// reverse.
#pragma once

#include "compiler/kernels/device/host/groups.h"

namespace low::device {

template <typename Kernel>
LOW_NOINLINE void cumulative(const abi::Launch& launch, CommandPointer command, unsigned char*) {
  using X = typename Kernel::X;
  using Result = typename Kernel::Result;
  using Value = typename Kernel::Accumulate;
  constexpr int last = Kernel::rank - 1;
  const Operands operands(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  const i64 length = operands.extent(last);
  // From the first summed element on.
  i64 x_step = operands.template stride<X>(0, last), result_step = operands.template stride<Result>(1, last);
  const auto* x = operands.address<const typename X::Type>(0);
  auto* result = operands.address<typename Result::Type>(1);
  if (Kernel::reverse) {
    x += (length - 1) * x_step;
    result += (length - 1) * result_step;
    x_step = -x_step;
    result_step = -result_step;
  }
  Walker<Kernel::rank, 2> outside;
  for (int a = 0; a < last; ++a) {
    if (a != Kernel::columns)
      outside.add(operands.extent(a), operands.template stride<X>(0, a), operands.template stride<Result>(1, a));
  }
  using Stored = decltype(load(result));
  do {
    const auto* from = x + outside.offsets[0];
    auto* to = result + outside.offsets[1];
    if constexpr (by_columns<Kernel>) {
      const i64 column_step = operands.template stride<Result>(1, Kernel::columns);
      const i64 all = operands.extent(Kernel::columns);
      for (i64 begin = 0; begin < all; begin += block_of_groups) {
        const i64 columns = smaller(block_of_groups, all - begin);
        alignas(64) Value sums[block_of_groups] = {};
        for (i64 j = 0; j < length; ++j) {
          const auto* row = from + begin + j * x_step;
          auto* out = to + begin * column_step + j * result_step;
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
          for (i64 i = 0; i < columns; ++i) {
            const Value sum = add(sums[i], convert<Value>(load(row + i)));
            store(Result::axes[Kernel::columns] == Access::unit ? out + i : out + i * column_step,
                  convert<Stored>(Kernel::exclusive ? sums[i] : sum));
            sums[i] = sum;
          }
        }
      }
    } else {
      Value sum{0};
#pragma clang loop vectorize(disable) unroll(disable)
      for (i64 j = 0; j < length; ++j) {
        const Value next = add(sum, convert<Value>(load(from + j * x_step)));
        store(to + j * result_step, convert<Stored>(Kernel::exclusive ? sum : next));
        sum = next;
      }
    }
  } while (outside.next());
}

}  // namespace low::device
