// rowwise: result[o…, i…] = body(x[o…, i…] normalized over i…, extras[o…, i…]…).
//
// A kernel K has: rank, inner, columns (-1: none); Accumulate (f32 or f64); X, Result = OperandOf<…>, Extras =
// List<OperandOf<…>…> over all axes; kind (a Normalize), epsilon; body(normalized, values…). The result may lie exactly
// where an operand lies.
//
// A team of lanes goes through a group up to three times: for the shift, for the factor, and for the results. Each lane
// reads and writes elements of its own, so that nothing is read behind its being written.
#pragma once

#include "compiler/kernels/device/amd/groups.h"
#include "compiler/kernels/device/norm_math.h"

namespace low::device {

template <typename Kernel, typename Result, typename... Extras, int... index>
LOW_INLINE void rowwise_groups(const abi::Launch& launch, CommandPointer command, Lds lds, List<Extras...>,
                               Indices<index...>) {
  using X = typename Kernel::X;
  using F = typename Kernel::Accumulate;
  constexpr int last = sizeof...(Extras) + 1;
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(Kernel::rank)) return;
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
        return convert<F>(x.read(offsets[0] + at[0]));
      };
      Scaling<F> scaling{0, 0};
      if constexpr (has_first<Kernel>) {
        const F first = teams.template combined<first_combine<Kernel>, partial_block>(elements, lds, value_at);
        scaling.shift = shift_of<Kernel>(first, i64{length});
      }
      const auto term = [&](u32 i)
                            __attribute__((always_inline)) { return second_term<Kernel>(value_at(i), scaling.shift); };
      const F second = teams.template combined<Combine::sum, partial_block>(elements, lds, term);
      scaling.factor = factor_of<Kernel>(second, i64{length});
      const auto all_offsets = element_offsets<Kernel, X, Extras..., Result>(launch, command);
      const auto result_at = [&](u32 i) __attribute__((always_inline)) {
        i64 at[last + 1];
        all_offsets(i, at);
        return Kernel::body(normalized<Kernel>(convert<F>(x.read(offsets[0] + at[0])), scaling),
                            extras.read(offsets[1 + index] + at[1 + index])...);
      };
      teams.each(elements, result_at, [&](u32 i, auto value) __attribute__((always_inline)) {
        i64 at[last + 1];
        all_offsets(i, at);
        result.write(offsets[last] + at[last], value);
      });
    });
  }(Place<typename Extras::Type>(operands, 1 + index)...);
}

template <typename Kernel>
LOW_KERNEL void rowwise(const abi::Launch& launch, CommandPointer command, Lds lds) {
  rowwise_groups<Kernel, typename Kernel::Result>(launch, command, lds, typename Kernel::Extras{},
                                                  MakeIndices<Kernel::Extras::size>{});
}

}  // namespace low::device
