// top_k: result[o…, i] = where the i-th extreme element of x[o…, …] stands.
//
// A kernel K has: rank, inner = 2; X = OperandOf<…> over the outer axes and the group's, Result over the outer axes and
// k's; smallest.
//
// An element's place in the result is the number of elements of its group that come before it. A lane counts for one
// element at a time, by comparing it with all of the group, which go through LDS in blocks: a group of n elements takes
// n * n comparisons. Short groups share the workgroup, a team of lanes each.
#pragma once

#include "compiler/kernels/device/amd/groups.h"
#include "compiler/kernels/device/order.h"

namespace low::device {

template <typename Kernel>
LOW_KERNEL void top_k(const abi::Launch& launch, CommandPointer command, Lds lds) {
  using X = typename Kernel::X;
  using Result = typename Kernel::Result;
  constexpr int outer = Kernel::rank - 2;
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  const Place<typename X::Type> x(operands, 0);
  const Place<typename Result::Type> result(operands, 1);
  using Value = decltype(comparable(x.read(0)));
  const u32 length = static_cast<u32>(operands.extent(outer)), k = static_cast<u32>(operands.extent(outer + 1));
  const i64 x_step = operands.template stride<X>(0, outer), result_step = operands.template stride<Result>(1, outer);
  // A team has as many lanes as a block has elements.
  u32 bits = 0;
  while (1u << bits < length && 1u << bits < workgroup_lanes) ++bits;
  const Teams<false> teams(bits);
  const u32 member = teams.member, size = teams.lanes();
  const Lds block = lds + (lane() - member) * sizeof(Value);
  const u32 count = elements_over<0, outer>(operands);
  teams.each_group(count, [&](u32 group, bool exists) __attribute__((always_inline)) {
    i64 offsets[2];
    offsets_over<0, outer, outer - 1, X, Result>(operands_anew<Kernel>(launch, command), group, offsets);
    const u32 elements = exists ? length : 0;
    const auto value_at = [&](u32 i)
                              __attribute__((always_inline)) { return comparable(x.read(offsets[0] + i * x_step)); };
    for (u32 begin = 0; begin < length; begin += size) {
      const u32 i = begin + member;
      const Value value = i < elements ? value_at(i) : Value{};
      u32 before = 0;
      for (u32 other = 0; other < length; other += size) {
        if (other + member < elements) store_lds(block + member * sizeof(Value), value_at(other + member));
        barrier();
        const u32 left = elements < other ? 0 : elements - other, filled = left < size ? left : size;
        for (u32 j = 0; j < filled; ++j) {
          const Value compared = load_lds<Value>(block + j * sizeof(Value));
          before += comes_before<Kernel::smallest>(compared, other + j, value, i) ? 1 : 0;
        }
        barrier();
      }
      if (i < elements && before < k) result.write(offsets[1] + before * result_step, static_cast<i64>(i));
    }
  });
}

}  // namespace low::device
