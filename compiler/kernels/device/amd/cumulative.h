// cumulative: result[o…, i] = the sum of x[o…, j] over j up to i, or from i on; with or without i itself.
//
// A kernel K has: rank, inner = 1, columns (-1: none); Accumulate; X, Result = OperandOf<…> over all axes; exclusive,
// reverse. A lane goes along a group, its neighbours along the groups beside it.
#pragma once

#include "compiler/kernels/device/amd/groups.h"

namespace low::device {

template <typename Kernel>
LOW_KERNEL void cumulative(const abi::Launch& launch, CommandPointer command, Lds) {
  using X = typename Kernel::X;
  using Result = typename Kernel::Result;
  using Value = typename Kernel::Accumulate;
  constexpr int last = Kernel::rank - 1;
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  const Place<typename X::Type> x(operands, 0);
  const Place<typename Result::Type> result(operands, 1);
  const u32 length = static_cast<u32>(operands.extent(last));
  const i64 x_step = operands.template stride<X>(0, last), result_step = operands.template stride<Result>(1, last);
  const auto groups = groups_of<Kernel, X, Result>(operands);
  using Stored = decltype(result.read(0));
  groups.each([&](const i64(&group)[2]) __attribute__((always_inline)) {
    // From the first summed element on.
    const auto place = [&](u32 j) __attribute__((always_inline)) {
      return static_cast<i64>(Kernel::reverse ? length - 1 - j : j);
    };
    Value sum{0};
    read_ahead(
        0, 1, length,
        [&](u32 j) __attribute__((always_inline)) { return convert<Value>(x.read(group[0] + place(j) * x_step)); },
        [&](u32 j, Value value) __attribute__((always_inline)) {
          const Value next = add(sum, value);
          result.write(group[1] + place(j) * result_step, convert<Stored>(Kernel::exclusive ? sum : next));
          sum = next;
        });
  });
}

}  // namespace low::device
