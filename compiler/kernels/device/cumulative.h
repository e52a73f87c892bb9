// cumulative: result[o…, i] = the sum of x[o…, j] over j up to i, or from i on; with or without i itself.
//
// A kernel K has: rank, inner = 1, extents[rank]; Accumulate; X, Result = OperandOf<…> over all axes; exclusive,
// reverse.
#pragma once

#include "compiler/kernels/device/groups.h"

namespace low::device {

template <typename Kernel>
LOW_NOINLINE void cumulative(const abi::Launch& launch, const abi::Command& command, unsigned char*) {
  using X = typename Kernel::X;
  using Result = typename Kernel::Result;
  using Value = typename Kernel::Accumulate;
  constexpr RowPlan plan = plan_of<Kernel>;
  constexpr int last = Kernel::rank - 1;
  constexpr i64 length = Kernel::extents[last];
  for (const i64 extent : Kernel::extents) {
    if (extent == 0) return;
  }
  const Operands operands(launch, command);
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
    if (!plan.columns || a != plan.axis)
      outside.add(Kernel::extents[a], operands.template stride<X>(0, a), operands.template stride<Result>(1, a));
  }
  using Stored = decltype(load(result));
  do {
    const auto* from = x + outside.offsets[0];
    auto* to = result + outside.offsets[1];
    if constexpr (plan.columns) {
      const i64 column_step = operands.template stride<Result>(1, plan.axis);
      for (i64 begin = 0; begin < Kernel::extents[plan.axis]; begin += plan.width) {
        const i64 columns = smaller(plan.width, Kernel::extents[plan.axis] - begin);
        alignas(64) Value sums[plan.width] = {};
        for (i64 j = 0; j < length; ++j) {
          const auto* row = from + begin + j * x_step;
          auto* out = to + begin * column_step + j * result_step;
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
          for (i64 i = 0; i < columns; ++i) {
            const Value sum = add(sums[i], convert<Value>(load(row + i)));
            store(Result::axes[plan.axis] == Access::unit ? out + i : out + i * column_step,
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
