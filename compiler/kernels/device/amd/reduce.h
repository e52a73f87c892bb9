// reduce: result[o…] = body(map(x[o…, i…]) combined over i…, extras[o…]…).
//
// A kernel K has: rank, inner, columns (-1: none); Accumulate; X = OperandOf<…> over all axes; Extras =
// List<OperandOf<…>…> and Result over the outer axes; Sum: what body's first argument is; kind (a Combine); index:
// whether it gives the place of the extreme element, last: of the last one; map(element) -> Accumulate; body(sum,
// values…). A team of lanes goes through a group.
#pragma once

#include "compiler/kernels/device/amd/groups.h"
#include "compiler/kernels/device/order.h"

namespace low::device {

// An element that may be the extreme one.
template <typename T>
struct Candidate {
  static constexpr u32 nowhere = ~u32{0};
  T value{};
  u32 place = nowhere;
};

// The more extreme of two; of equal ones the first or the last, whichever is given first.
template <typename Kernel, typename T>
LOW_INLINE Candidate<T> more_extreme(Candidate<T> a, Candidate<T> b) {
  const bool in_order = a.place < b.place;
  const T first = in_order ? a.value : b.value, second = in_order ? b.value : a.value;
  const u32 last = in_order ? b.place : a.place;
  const bool better = last != a.nowhere && replaces<Kernel>(second, first);
  return {better ? second : first, better == in_order ? b.place : a.place};
}

template <typename Kernel, typename Result, typename... Extras, int... index>
LOW_INLINE void reduce_groups(const abi::Launch& launch, CommandPointer command, Lds lds, List<Extras...>,
                              Indices<index...>) {
  using X = typename Kernel::X;
  using Value = typename Kernel::Accumulate;
  constexpr int last = sizeof...(Extras) + 1;
  constexpr u32 block = by_columns<Kernel> ? partial_block : reduce_buffer / row_partials;
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(Kernel::rank - Kernel::inner)) return;
  const Place<typename X::Type> x(operands, 0);
  const Place<typename Result::Type> result(operands, last);
  const u32 count = group_count<Kernel>(operands), length = group_size<Kernel>(operands);
  const auto x_offsets = element_offsets<Kernel, X>(launch, command);
  const Teams<by_columns<Kernel>> teams(team_bits<by_columns<Kernel>>(count, length));
  [&](Place<typename Extras::Type>... extras) __attribute__((always_inline)) {
    teams.each_group(count, [&](u32 group, bool exists) __attribute__((always_inline)) {
      i64 offsets[last + 1];
      group_offsets<Kernel, X, Extras..., Result>(launch, command, group, offsets);
      const u32 elements = exists ? length : 0;
      const auto value_at = [&](u32 i) __attribute__((always_inline)) {
        i64 at[1];
        x_offsets(i, at);
        return Kernel::map(x.read(offsets[0] + at[0]));
      };
      typename Kernel::Sum sum;
      if constexpr (Kernel::index) {
        Candidate<Value> best;
        teams.each(elements, value_at, [&](u32 i, Value value) __attribute__((always_inline)) {
          best = more_extreme<Kernel>(best, Candidate<Value>{value, i});
        });
        best = teams.joined(best, lds, more_extreme<Kernel, Value>);
        sum = best.place;
      } else {
        sum = teams.template combined<Kernel::kind, block>(elements, lds, value_at);
      }
      if (exists && teams.member == 0)
        result.write(offsets[last], Kernel::body(sum, extras.read(offsets[1 + index])...));
    });
  }(Place<typename Extras::Type>(operands, 1 + index)...);
}

template <typename Kernel>
LOW_KERNEL void reduce(const abi::Launch& launch, CommandPointer command, Lds lds) {
  reduce_groups<Kernel, typename Kernel::Result>(launch, command, lds, typename Kernel::Extras{},
                                                 MakeIndices<Kernel::Extras::size>{});
}

}  // namespace low::device
