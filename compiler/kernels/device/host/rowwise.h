// rowwise: result[o…, i…] = body(x[o…, i…] normalized over i…, extras[o…, i…]…).
//
// A kernel K has: rank, inner, columns (-1: none), long_rows; Accumulate (f32 or f64); X, Result = OperandOf<…>, Extras
// = List<OperandOf<…>…> over all axes; kind (a Normalize), epsilon; body(normalized, values…). Scratch holds
// kept_elements. The result may lie exactly where an operand lies.
#pragma once

#include "compiler/kernels/device/host/groups.h"
#include "compiler/kernels/device/norm_math.h"

namespace low::device {

// What is kept of an element, and what becomes of it. Softmax keeps exp(x - shift) where the whole group is kept: then
// only the factor is left to do.
template <typename Kernel>
inline constexpr bool keeps_exp = is_softmax<Kernel>;

template <typename Kernel, typename F>
LOW_INLINE F finished(F kept, Scaling<F> s) {
  if constexpr (keeps_exp<Kernel>) {
    return kept * s.factor;
  } else {
    return normalized<Kernel>(kept, s);
  }
}

// The groups of one run: `outside` walks over them (and blocks of columns), `inside` over the rows of a group;
// write(values, begin, length) writes normalized values of elements [begin, begin + length) along the innermost loops'
// axis at the walkers' positions. Both algorithms keep values in `kept`.
template <typename Kernel, typename Walk, typename Write>
struct Groups {
  const typename Kernel::X::Type* x;
  i64 x_step;  // along the axis of the innermost loops
  typename Kernel::Accumulate* kept;
  Walk& outside;
  Walk& inside;
  i64 count;   // elements of a group
  i64 length;  // along the axis of the innermost loops
  Write write;

  // Values of x from element `begin` of that axis on, at the walkers' positions.
  template <Access access>
  LOW_INLINE void stage_at(i64 begin, i64 step, i64 count, typename Kernel::Accumulate* to) const {
    stage<access>(to, x + outside.offsets[0] + inside.offsets[0] + begin * step, step, count,
                  [](auto value)
                      __attribute__((always_inline)) { return convert<typename Kernel::Accumulate>(value); });
  }
};

// Groups lie along columns: group i of a block is column i of `kept`; columns beyond the last hold zeros.
template <typename Kernel, typename G>
LOW_INLINE void normalize_columns(const G& groups) {
  using F = typename Kernel::Accumulate;
  const i64 count = groups.count, width = kept_columns(groups.length);
  F* const kept = groups.kept;
  auto &outside = groups.outside, &inside = groups.inside;
  alignas(64) F shift[block_of_groups], factor[block_of_groups], block[block_of_groups];
  const auto columns_of = [&](F* p, auto f) __attribute__((always_inline)) {
    for (i64 unit = 0; unit < width; unit += column_unit) {
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
      for (i64 i = unit; i < unit + column_unit; ++i) f(p[i], i);
    }
  };
  const auto rows = [&](auto f) __attribute__((always_inline)) {
    for (i64 row = 0; row < count; ++row) columns_of(kept + row * width, f);
  };
  // total[i] = sum of f over column i, in blocks of 64 rows.
  const auto sums = [&](F* total, auto f) __attribute__((always_inline)) {
    for (i64 i = 0; i < width; ++i) total[i] = 0;
    for (i64 begin = 0; begin < count; begin += partial_block) {
      for (i64 i = 0; i < width; ++i) block[i] = 0;
      for (i64 row = begin; row < smaller(begin + partial_block, count); ++row) {
        columns_of(kept + row * width, [&](F value, i64 i) __attribute__((always_inline)) { block[i] += f(value, i); });
      }
      for (i64 i = 0; i < width; ++i) total[i] += block[i];
    }
  };
  do {
    for (i64 begin = 0; begin < groups.length; begin += width) {
      const i64 columns = smaller(width, groups.length - begin);
      i64 row = 0;
      do {
        F* const to = kept + row++ * width;
        groups.template stage_at<Access::unit>(begin, 1, columns, to);
        for (i64 i = columns; i < width; ++i) to[i] = 0;
      } while (inside.next());
      for (i64 i = 0; i < width; ++i) shift[i] = 0;
      if constexpr (Kernel::kind == Normalize::layer_norm) {
        sums(shift, [](F value, i64) __attribute__((always_inline)) { return value; });
        for (i64 i = 0; i < width; ++i) shift[i] = shift_of<Kernel>(shift[i], count);
      } else if constexpr (has_first<Kernel>) {
        for (i64 i = 0; i < width; ++i) shift[i] = lowest<F>();
        rows([&](F value, i64 i) __attribute__((always_inline)) { shift[i] = max(shift[i], value); });
        for (i64 i = 0; i < width; ++i) shift[i] = shift_of<Kernel>(shift[i], count);
      }
      if constexpr (keeps_exp<Kernel>) {
        rows([&](F& value, i64 i) __attribute__((always_inline)) { value = second_term<Kernel>(value, shift[i]); });
        sums(factor, [](F value, i64) __attribute__((always_inline)) { return value; });
      } else {
        sums(factor,
             [&](F value, i64 i) __attribute__((always_inline)) { return second_term<Kernel>(value, shift[i]); });
      }
      for (i64 i = 0; i < width; ++i) factor[i] = factor_of<Kernel>(factor[i], count);
      rows([&](F& value, i64 i)
               __attribute__((always_inline)) { value = finished<Kernel>(value, Scaling<F>{shift[i], factor[i]}); });
      row = 0;
      do {
        groups.write(kept + row++ * width, begin, columns);
      } while (inside.next());
    }
  } while (outside.next());
}

// Groups lie along rows: a short group is kept as a whole, a long one is read piece by piece, as often as it takes.
template <typename Kernel, typename G>
LOW_INLINE void normalize_rows(const G& groups) {
  using F = typename Kernel::Accumulate;
  using X = typename Kernel::X;
  const i64 count = groups.count, length = groups.length;
  F* const kept = groups.kept;
  auto &outside = groups.outside, &inside = groups.inside;
  constexpr bool whole = !Kernel::long_rows;
  // Calls f(values, place of the first along the innermost axis, number of values) for the group, piece by piece.
  const auto staged = [&](i64 begin, i64 values, F* to) __attribute__((always_inline)) {
    groups.template stage_at<X::axes[innermost<Kernel>]>(begin, groups.x_step, values, to);
  };
  const auto pieces = [&](auto f) __attribute__((always_inline)) {
    do {
      for (i64 begin = 0; begin < length; begin += piece_of_row) {
        const i64 values = smaller(piece_of_row, length - begin);
        staged(begin, values, kept);
        f(kept, begin, values);
      }
    } while (inside.next());
  };
  const auto values_of = [&](auto f) __attribute__((always_inline)) {
    if constexpr (whole) {
      f(kept, i64{0}, count);
    } else {
      pieces(f);
    }
  };
  do {
    if constexpr (whole) {
      F* to = kept;
      do {
        staged(0, length, to);
        to += length;
      } while (inside.next());
    }
    Scaling<F> s{0, 0};
    if constexpr (has_first<Kernel>) {
      Partials<first_combine<Kernel>, F> first;
      values_of([&](const F* p, i64, i64 n) __attribute__((always_inline)) { first.add(p, n); });
      s.shift = shift_of<Kernel>(first.total(), count);
    }
    Partials<Combine::sum, F> second;
    const F shift = s.shift;
    const auto each = [](F* p, i64 n, auto f) __attribute__((always_inline)) {
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
      for (i64 i = 0; i < n; ++i) p[i] = f(p[i]);
    };
    const auto term = [shift](F value) __attribute__((always_inline)) { return second_term<Kernel>(value, shift); };
    if constexpr (whole && keeps_exp<Kernel>) {
      each(kept, count, term);
      second.add(kept, count);
    } else {
      values_of([&](const F* p, i64, i64 n) __attribute__((always_inline)) { second.add(p, n, term); });
    }
    s.factor = factor_of<Kernel>(second.total(), count);
    const Scaling<F> scaling = s;
    if constexpr (whole) {
      each(kept, count, [scaling](F value) __attribute__((always_inline)) { return finished<Kernel>(value, scaling); });
      const F* from = kept;
      do {
        groups.write(from, 0, length);
        from += length;
      } while (inside.next());
    } else {
      pieces([&](F* p, i64 begin, i64 n) __attribute__((always_inline)) {
        each(p, n, [scaling](F value) __attribute__((always_inline)) { return normalized<Kernel>(value, scaling); });
        groups.write(p, begin, n);
      });
    }
  } while (outside.next());
}

template <typename Kernel, typename Result, typename... Extras, int... index>
LOW_INLINE void rowwise_groups(const Operands& operands, typename Kernel::Accumulate* kept, List<Extras...>,
                               Indices<index...>) {
  using X = typename Kernel::X;
  using F = typename Kernel::Accumulate;
  using T = typename Result::Type;
  constexpr int outer = Kernel::rank - Kernel::inner, extras = sizeof...(Extras), last = extras + 1;
  // The axis of the innermost loops.
  constexpr int axis = by_columns<Kernel> ? Kernel::columns : innermost<Kernel>;
  const auto* x = operands.address<const typename X::Type>(0);
  T* result = operands.address<T>(last);
  const unsigned char* bases[extras + 1] = {operands.template address<const unsigned char>(1 + index)..., nullptr};
  Walker<Kernel::rank, last + 1> outside, inside;
  for (int a = 0; a < Kernel::rank; ++a) {
    if (a == axis) continue;
    (a < outer ? outside : inside)
        .add(operands.extent(a), operands.template stride<X>(0, a), operands.template stride<Extras>(1 + index, a)...,
             operands.template stride<Result>(last, a));
  }
  i64 count = 1;
  for (int a = outer; a < Kernel::rank; ++a) count *= operands.extent(a);
  const i64 x_step = operands.template stride<X>(0, axis), result_step = operands.template stride<Result>(last, axis);
  const i64 steps[extras + 1] = {operands.template stride<Extras>(1 + index, axis)..., 0};
  // Writes elements [begin, begin + length) along `axis` at the walkers' positions from normalized values.
  const auto write = [&](const F* values, i64 begin, i64 length) __attribute__((always_inline)) {
    map_row<Kernel, Result::axes[axis]>(
        length, result + outside.offsets[last] + inside.offsets[last] + begin * result_step, result_step,
        Cursor<F, Access::unit>{values, 1},
        Cursor<typename Extras::Type, access_along<Extras, axis>>{
            reinterpret_cast<const typename Extras::Type*>(bases[index]) + outside.offsets[1 + index] +
                inside.offsets[1 + index] + begin * steps[index],
            steps[index]}...);
  };
  const Groups<Kernel, Walker<Kernel::rank, last + 1>, decltype(write)> groups{
      x, x_step, kept, outside, inside, count, operands.extent(axis), write};
  if constexpr (by_columns<Kernel>) {
    normalize_columns<Kernel>(groups);
  } else {
    normalize_rows<Kernel>(groups);
  }
}

template <typename Kernel>
LOW_NOINLINE void rowwise(const abi::Launch& launch, CommandPointer command, unsigned char* scratch) {
  const Operands operands(launch, command);
  if (operands.nothing(Kernel::rank)) return;
  rowwise_groups<Kernel, typename Kernel::Result>(operands, reinterpret_cast<typename Kernel::Accumulate*>(scratch),
                                                  typename Kernel::Extras{}, MakeIndices<Kernel::Extras::size>{});
}

}  // namespace low::device
