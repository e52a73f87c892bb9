// reduce: result[o…] = body(map(x[o…, i…]) combined over i…, extras[o…]…).
//
// A kernel K has: rank, inner, columns (-1: none); Accumulate; X = OperandOf<…> over all axes; Extras =
// List<OperandOf<…>…> and Result over the outer axes; Sum: what body's first argument is; kind (a Combine); index:
// whether it gives the place of the extreme element, last: of the last one; map(element) -> Accumulate; body(sum,
// values…).
#pragma once

#include "compiler/kernels/device/host/groups.h"
#include "compiler/kernels/device/order.h"

namespace low::device {

// The group whose elements begin at `x`, `length` of them `stride` apart along the innermost axis; `inside` walks over
// the other inner axes.
template <typename Kernel, typename Inside>
LOW_INLINE typename Kernel::Sum reduce_row(const typename Kernel::X::Type* x, i64 stride, i64 length, Inside& inside) {
  constexpr Access access = Kernel::X::axes[innermost<Kernel>];
  using Value = typename Kernel::Accumulate;
  const auto map = [](auto value) __attribute__((always_inline)) { return Kernel::map(value); };
  if constexpr (Kernel::index) {
    Value best = map(load(x));
    i64 place = 0;
#pragma clang loop vectorize(disable) unroll(disable)
    for (i64 j = 1; j < length; ++j) {
      const Value value = map(load(x + j * stride));
      const bool better = replaces<Kernel>(value, best);
      best = better ? value : best;
      place = better ? j : place;
    }
    return place;
  } else {
    constexpr i64 capacity = reduce_buffer;
    alignas(64) Value buffer[capacity];
    Partials<Kernel::kind, Value> partials;
    i64 fill = 0;
    if (length == 0 || inside.empty()) return partials.total();
    do {
      const typename Kernel::X::Type* from = x + inside.offsets[0];
      for (i64 j = 0; j < length;) {
        const i64 count = smaller(capacity - fill, length - j);
        stage<access>(buffer + fill, from + j * stride, stride, count, map);
        fill += count;
        j += count;
        if (fill == capacity) {
          partials.add(buffer, capacity);
          fill = 0;
        }
      }
    } while (inside.next());
    partials.add(buffer, fill);
    return partials.total();
  }
}

// `count` groups side by side. Sums are taken in blocks of 64 elements, whose totals add up.
template <typename Kernel, typename Inside>
LOW_INLINE void reduce_columns(const typename Kernel::X::Type* x, i64 count, Inside& inside,
                               typename Kernel::Sum* sums) {
  using Value = typename Kernel::Accumulate;
  alignas(64) Value block[block_of_groups];
  const auto map = [](auto value) __attribute__((always_inline)) { return Kernel::map(value); };
  if constexpr (Kernel::index) {
    stage<Access::unit>(block, x, 1, count, map);
    for (i64 i = 0; i < count; ++i) sums[i] = 0;
    for (i64 row = 1; inside.next(); ++row) {
      const typename Kernel::X::Type* from = x + inside.offsets[0];
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
      for (i64 i = 0; i < count; ++i) {
        const Value value = map(load(from + i));
        const bool better = replaces<Kernel>(value, block[i]);
        block[i] = better ? value : block[i];
        sums[i] = better ? row : sums[i];
      }
    }
  } else {
    for (i64 i = 0; i < count; ++i) block[i] = identity_of<Kernel::kind, Value>();
    for (i64 i = 0; i < count; ++i) sums[i] = identity_of<Kernel::kind, Value>();
    if (inside.empty()) return;
    i64 rows = 0;
    bool more = true;
    while (more) {
      const typename Kernel::X::Type* from = x + inside.offsets[0];
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
      for (i64 i = 0; i < count; ++i) block[i] = combine<Kernel::kind>(block[i], map(load(from + i)));
      more = inside.next();
      if (++rows % partial_block != 0 && more) continue;
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
      for (i64 i = 0; i < count; ++i) {
        sums[i] = combine<Kernel::kind>(sums[i], block[i]);
        block[i] = identity_of<Kernel::kind, Value>();
      }
    }
  }
}

template <typename Kernel, typename Result, typename... Extras, int... index>
LOW_INLINE void reduce_groups(const Operands& operands, List<Extras...>, Indices<index...>) {
  using X = typename Kernel::X;
  using T = typename Result::Type;
  constexpr int axis = block_axis<Kernel>, inner_axis = innermost<Kernel>;
  constexpr int outer = Kernel::rank - Kernel::inner, extras = sizeof...(Extras), last = extras + 1;
  const auto* x = operands.address<const typename X::Type>(0);
  T* result = operands.address<T>(last);
  const unsigned char* bases[extras + 1] = {operands.template address<const unsigned char>(1 + index)..., nullptr};
  Walker<outer, last + 1> outside;
  for (int a = 0; a < outer; ++a) {
    if (a == axis) continue;
    outside.add(operands.extent(a), operands.template stride<X>(0, a),
                operands.template stride<Extras>(1 + index, a)..., operands.template stride<Result>(last, a));
  }
  Walker<Kernel::inner, 1> inside;
  for (int a = outer; a < Kernel::rank; ++a) {
    if (by_columns<Kernel> || a != inner_axis) inside.add(operands.extent(a), operands.template stride<X>(0, a));
  }
  const i64 x_step = operands.template stride<X>(0, axis), result_step = operands.template stride<Result>(last, axis);
  const i64 x_inner = operands.template stride<X>(0, inner_axis);
  const i64 steps[extras + 1] = {operands.template stride<Extras>(1 + index, axis)..., 0};
  const i64 groups = operands.extent(axis), length = operands.extent(inner_axis);
  alignas(64) typename Kernel::Sum sums[block_of_groups];
  do {
    for (i64 begin = 0; begin < groups; begin += block_of_groups) {
      const i64 count = smaller(block_of_groups, groups - begin);
      const typename X::Type* from = x + outside.offsets[0] + begin * x_step;
      if constexpr (by_columns<Kernel>) {
        reduce_columns<Kernel>(from, count, inside, sums);
      } else {
        for (i64 i = 0; i < count; ++i) sums[i] = reduce_row<Kernel>(from + i * x_step, x_inner, length, inside);
      }
      map_row<Kernel, Result::axes[axis]>(count, result + outside.offsets[last] + begin * result_step, result_step,
                                          Cursor<typename Kernel::Sum, Access::unit>{sums, 1},
                                          Cursor<typename Extras::Type, access_along<Extras, axis>>{
                                              reinterpret_cast<const typename Extras::Type*>(bases[index]) +
                                                  outside.offsets[1 + index] + begin * steps[index],
                                              steps[index]}...);
    }
  } while (outside.next());
}

template <typename Kernel>
LOW_NOINLINE void reduce(const abi::Launch& launch, CommandPointer command, unsigned char*) {
  const Operands operands(launch, command);
  if (operands.nothing(Kernel::rank - Kernel::inner)) return;
  reduce_groups<Kernel, typename Kernel::Result>(operands, typename Kernel::Extras{},
                                                 MakeIndices<Kernel::Extras::size>{});
}

}  // namespace low::device
