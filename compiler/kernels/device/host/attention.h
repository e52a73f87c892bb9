// attention: one head of m rows of q over n keys, with the softmax taken as the keys come by; see Family::attention for
// what it is.
//
// A kernel K has: d, dv; pairs (whether Math is bf16 and holds what q and k store); Math, Accumulate; Q, K, V, Mask, State, Result = OperandOf<…> (Mask and State also where
// there is none: any); mask, diagonal, state, extras: the operands' places, 0 for none; bool_mask, partial,
// empty_is_zero; scale, softcap, masked_score; Extras = List<OperandOf<…>…>; body(normalized, values…), but not if
// partial.
//
// f32: rows of q are lanes. A panel is a few vectors of rows; its q lies transposed in scratch, and so do its o, its m
// and its l. For each block of keys, whose k and v are decoded into scratch as they lie, row by row:
//     scores[key, row] = sum over d of k[key, d] * q[d, row]      (one element of k times vectors of rows)
//     the maximum, exp and the sum over keys are operations on whole vectors; p takes the place of the scores
//     o[c, row] = o[c, row] * factor[row] + sum over keys of v[key, c] * p[key, row]
// Sums are fused multiply-adds in the order of d and of the keys. So a row of the result depends on its operands and on
// the size of a key block, which is the same on all targets, and on nothing else, to the last bit.
#pragma once

#include "compiler/kernels/device/host/gemm.h"

namespace low::device {

// exp(x) for x <= 0 or NaN: the bits of math::exp.
LOW_INLINE Vector exp_of_negative(Vector x) {
  constexpr f32 magic = 0x1.8p+23f;
  const Vector lowest_argument = splat(-104.0f);
  const Vector y = lowest_argument > x ? lowest_argument : x;
  const Vector shifted = multiply_add(y, splat(0x1.715476p+0f), splat(magic));
  const Vector n = shifted - magic;
  const Vector r = multiply_add(n, splat(0x1.05c610p-29f), multiply_add(n, splat(-0x1.62e430p-1f), y));
  Vector p = multiply_add(r, splat(0x1.592f58p-10f), splat(0x1.11b9f0p-7f));
  p = multiply_add(p, r, splat(0x1.55699ep-5f));
  p = multiply_add(p, r, splat(0x1.555590p-3f));
  p = multiply_add(p, r, splat(0x1.fffffap-2f));
  const Vector value = multiply_add(p, r * r, r) + 1.0f;
  return scale_by_power(value, n, shifted);
}

// Vectors of rows in a panel, at most.
inline constexpr int widest_panel = lanes == 16 ? 3 : 2;
// Of that width: keys that are scored at once, and columns of v whose sums are taken at once, at most.
template <int width>
inline constexpr int score_rows = lanes == 16 ? (width == 3 ? 8 : 12) : (width == 2 ? 6 : 8);
template <int width>
inline constexpr int register_rows = lanes == 16 ? (width == 1   ? 14
                                                    : width == 2 ? 12
                                                                 : 9)
                                                 : (width == 1 ? 8 : 6);

// Calls f(first, Constant<rows of the block>) for register blocks of nearly equal size.
template <int most, i64 count, typename F>
LOW_INLINE void for_each_register_block(F f) {
  constexpr i64 blocks = (count + most - 1) / most, base = count / blocks, larger = count % blocks;
  i64 first = 0;
  if constexpr (larger > 0) {
    for (; first < larger * (base + 1); first += base + 1) f(first, Constant<base + 1>{});
  }
  for (; first < count; first += base) f(first, Constant<base>{});
}

// total[r] += sum over k of a[r * row_stride + k * depth_stride] * b[k], of words; b's rows are `width` vectors long.
template <typename Products, int width, int rows, i64 row_stride, i64 depth_stride>
LOW_INLINE void multiply_in_registers(const f32* a, const f32* b, i64 words, Vector (&total)[rows][width]) {
  for (i64 k = 0; k < words; ++k) {
    Vector bk[width];
#pragma unroll
    for (int w = 0; w < width; ++w) bk[w] = load_vector(b + (k * width + w) * lanes);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const Vector ar = splat(a[r * row_stride + k * depth_stride]);
#pragma unroll
      for (int w = 0; w < width; ++w) total[r][w] = Products::multiply_add(ar, bk[w], total[r][w]);
    }
  }
}
template <typename Products, int width, int rows, i64 words>
LOW_NOINLINE void score_block(const f32* k, const f32* q, f32 scale, f32* scores) {
  Vector total[rows][width] = {};
  multiply_in_registers<Products, width, rows, words, 1>(k, q, words, total);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int w = 0; w < width; ++w) store_vector(scores + (r * width + w) * lanes, total[r][w] * scale);
  }
}
template <int width, int rows, i64 dv>
LOW_NOINLINE void value_block(const f32* v, const f32* p, i64 keys, const f32* factor, f32* o) {
  Vector total[rows][width];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int w = 0; w < width; ++w)
      total[r][w] = load_vector(o + (r * width + w) * lanes) * load_vector(factor + w * lanes);
  }
  multiply_in_registers<ElementProducts<f32>, width, rows, 1, dv>(v, p, keys, total);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int w = 0; w < width; ++w) store_vector(o + (r * width + w) * lanes, total[r][w]);
  }
}

// How scores are computed, from so many words of q and of k.
template <typename Kernel>
using ScoreProducts = typename decltype(choose_floats<Kernel, typename Kernel::Math, true>())::Type;
template <typename Kernel>
inline constexpr i64 score_words = words_of_depth<ScoreProducts<Kernel>>(Kernel::d);

// A panel in scratch: rows [row, row + rows) of q, and what belongs to them, each `width` vectors long.
struct AttentionPanel {
  i64 row, rows;
  f32 *q, *o, *largest, *sum;  // [words, width], [dv, width], [width], [width]
};

// Mask, diagonal and softcap, in place; the largest score of each row, or of the rows before. Row i takes part in
// scores of key j if i + begin >= j.
template <typename Kernel, int width>
LOW_INLINE void finish_scores(f32* scores, const f32* mask, i64 keys, i64 begin, Vector (&largest)[width]) {
  using Index = i32 __attribute__((ext_vector_type(lanes)));
  if constexpr (Kernel::softcap > 0) {
    constexpr f32 cap = static_cast<f32>(Kernel::softcap);
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
    for (i64 i = 0; i < keys * width * lanes; ++i) scores[i] = cap * math::tanh(scores[i] / cap);
  }
  Index lane;
  for (int i = 0; i < lanes; ++i) lane[i] = i;
  const bool cut = Kernel::diagonal > 0 && keys - 1 > begin;
  for (i64 j = 0; j < keys; ++j) {
#pragma unroll
    for (int w = 0; w < width; ++w) {
      f32* const at = scores + (j * width + w) * lanes;
      Vector s = load_vector(at);
      if constexpr (Kernel::mask > 0) {
        const Vector m = load_vector(mask + (j * width + w) * lanes);
        if constexpr (Kernel::bool_mask) {
          s = m == 0.0f ? splat(static_cast<f32>(Kernel::masked_score)) : s;
        } else {
          s += m;
          if constexpr (Kernel::empty_is_zero) s = m == -math::infinity_f32 ? m : s;
        }
      }
      if (cut) {
        // Clamped to where it makes a difference.
        const i64 first = smaller(j - begin < 0 ? 0 : j - begin, width * lanes) - w * lanes;
        s = lane < static_cast<i32>(first) ? splat(-math::infinity_f32) : s;
      }
      if (Kernel::mask > 0 || cut) store_vector(at, s);
      largest[w] = s > largest[w] ? s : largest[w];
    }
  }
}

// One panel and one block of keys; `begin`: as in finish_scores, for the block's first key. Scores are computed in
// blocks of score_rows keys, also of the few that there are not, of which k has rows as well.
template <typename Kernel, int width>
LOW_NOINLINE void attend_panel(const f32* k, const f32* v, i64 keys, const AttentionPanel& panel, f32* scores,
                               const f32* mask, i64 begin) {
  static_assert(attention_keys_unit % score_rows<width> == 0);
  for (i64 j = 0; j < keys; j += score_rows<width>) {
    score_block<ScoreProducts<Kernel>, width, score_rows<width>, score_words<Kernel>>(
        k + j * score_words<Kernel>, panel.q, static_cast<f32>(Kernel::scale), scores + j * width * lanes);
  }
  Vector largest[width], shift[width], sum[width];
#pragma unroll
  for (int w = 0; w < width; ++w) largest[w] = load_vector(panel.largest + w * lanes);
  finish_scores<Kernel, width>(scores, mask, keys, begin, largest);
  alignas(64) f32 factor[width * lanes];
#pragma unroll
  for (int w = 0; w < width; ++w) {
    // Where nothing took part so far, all terms become 0.
    shift[w] = largest[w] == -math::infinity_f32 ? splat(0.0f) : largest[w];
    sum[w] = splat(0.0f);
  }
  for (i64 j = 0; j < keys; ++j) {
#pragma unroll
    for (int w = 0; w < width; ++w) {
      f32* const at = scores + (j * width + w) * lanes;
      const Vector p = exp_of_negative(load_vector(at) - shift[w]);
      store_vector(at, p);
      sum[w] += p;
    }
  }
#pragma unroll
  for (int w = 0; w < width; ++w) {
    const Vector f = exp_of_negative(load_vector(panel.largest + w * lanes) - shift[w]);
    store_vector(factor + w * lanes, f);
    store_vector(panel.largest + w * lanes, largest[w]);
    store_vector(panel.sum + w * lanes, multiply_add(load_vector(panel.sum + w * lanes), f, sum[w]));
  }
  for_each_register_block<register_rows<width>, Kernel::dv>([&](i64 c, auto rows) __attribute__((always_inline)) {
    value_block<width, decltype(rows)::value, Kernel::dv>(v + c, scores, keys, factor, panel.o + c * width * lanes);
  });
}

// q, and the state that earlier keys left or that of no keys.
template <typename Kernel, int width>
LOW_NOINLINE void begin_panel(const Operands& operands, const AttentionPanel& panel) {
  using Q = typename Kernel::Q;
  constexpr i64 stride = width * lanes;
  const i64 q_m = operands.stride<Q>(0, 0), q_d = operands.stride<Q>(0, 1);
  for (i64 i = 0; i < score_words<Kernel> * stride; ++i) panel.q[i] = 0;
  pack_columns<ScoreProducts<Kernel>, Q::axes[0], Q::axes[1]>(
      operands.address<const typename Q::Type>(0) + panel.row * q_m, q_m, q_d, panel.rows, Kernel::d, panel.q, stride);
  for (i64 i = 0; i < Kernel::dv * stride; ++i) panel.o[i] = 0;
  for (i64 i = 0; i < stride; ++i) panel.largest[i] = -math::infinity_f32, panel.sum[i] = 0;
  if constexpr (Kernel::state > 0) {
    using State = typename Kernel::State;
    const i64 rows = operands.stride<State>(Kernel::state, 0), columns = operands.stride<State>(Kernel::state, 1);
    const f32* from = operands.address<const f32>(Kernel::state) + panel.row * rows;
    pack_columns<ElementProducts<f32>, State::axes[0], State::axes[1]>(from, rows, columns, panel.rows, Kernel::dv,
                                                                       panel.o, stride);
    for (i64 i = 0; i < panel.rows; ++i) {
      panel.largest[i] = from[i * rows + Kernel::dv * columns];
      panel.sum[i] = from[i * rows + (Kernel::dv + 1) * columns];
    }
  }
}

// The state, or the result of the body. `rows`: scratch for one panel, row by row.
template <typename Kernel, int width>
LOW_NOINLINE void end_panel(const Operands& operands, const AttentionPanel& panel, f32* rows) {
  constexpr i64 stride = width * lanes;
  if constexpr (!Kernel::partial) {
    for (i64 i = 0; i < Kernel::dv * stride; i += lanes) {
      const Vector sum = load_vector(panel.sum + i % stride);
      Vector o = load_vector(panel.o + i) / sum;
      if constexpr (Kernel::empty_is_zero) o = sum == 0.0f ? splat(0.0f) : o;
      store_vector(panel.o + i, o);
    }
  }
  transpose_to<f32>(panel.o, stride, panel.rows, Kernel::dv, rows, Kernel::dv);
  if constexpr (Kernel::partial) {
    using Result = typename Kernel::Result;
    const i64 step = operands.stride<Result>(Kernel::extras, 1);
    f32* to = operands.address<f32>(Kernel::extras) + panel.row * operands.stride<Result>(Kernel::extras, 0);
    for (i64 i = 0; i < panel.rows; ++i, to += operands.stride<Result>(Kernel::extras, 0)) {
      const f32* from = rows + i * Kernel::dv;
#pragma clang loop vectorize(assume_safety) interleave_count(1) unroll(disable)
      for (i64 c = 0; c < Kernel::dv; ++c) to[c * step] = from[c];
      to[Kernel::dv * step] = panel.largest[i];
      to[(Kernel::dv + 1) * step] = panel.sum[i];
    }
  } else {
    epilogue<Kernel, Kernel::extras>(operands, panel.row, panel.rows, 0, Kernel::dv, rows, Kernel::dv);
  }
}

template <typename Kernel>
LOW_INLINE void attention_blocked(const Operands& operands, unsigned char* scratch) {
  using K = typename Kernel::K;
  using V = typename Kernel::V;
  using Mask = typename Kernel::Mask;
  using Math = typename Kernel::Math;
  const i64 m = operands.extent(0), n = operands.extent(1);
  const AttentionBlocks blocks = attention_blocks(tiling, m, n, Kernel::d, Kernel::dv, Kernel::mask > 0);
  f32* const base = reinterpret_cast<f32*>(scratch);
  f32 *const k = base + blocks.k, *const v = base + blocks.v, *const scores = base + blocks.scores,
             *const mask = base + blocks.mask, *const rows = base + blocks.rows;
  const i64 k_n = operands.stride<K>(1, 0), k_d = operands.stride<K>(1, 1);
  const i64 v_n = operands.stride<V>(2, 0), v_d = operands.stride<V>(2, 1);
  const auto* const k_from = operands.address<const typename K::Type>(1);
  const auto* const v_from = operands.address<const typename V::Type>(2);
  i64 diagonal = 0;
  if constexpr (Kernel::diagonal > 0) diagonal = *operands.address<const i32>(Kernel::diagonal);

  for (i64 first = 0; first < blocks.panels; first += blocks.block_panels) {
    const i64 end = smaller(first + blocks.block_panels, blocks.panels);
    // f(panel, Constant<its width>); the larger ones come first.
    const auto for_each_panel = [&](auto f) __attribute__((always_inline)) {
      const auto panel_at = [&](i64 p) {
        const i64 before = first * blocks.width + smaller(first, blocks.larger);  // vectors of earlier blocks
        const i64 vector = p * blocks.width + smaller(p, blocks.larger);
        const i64 width = blocks.width + (p < blocks.larger ? 1 : 0), at = (vector - before) * lanes;
        return AttentionPanel{vector * lanes,
                              smaller(width * lanes, m - vector * lanes),
                              base + blocks.q + at * Kernel::d,
                              base + blocks.o + at * Kernel::dv,
                              base + blocks.largest + at,
                              base + blocks.sum + at};
      };
      for (i64 p = first; p < end; ++p) {
        with_constant<widest_panel>(blocks.width + (p < blocks.larger ? 1 : 0),
                                    [&](auto width) __attribute__((always_inline)) { f(panel_at(p), width); });
      }
    };
    const i64 rows_end = smaller((end * blocks.width + smaller(end, blocks.larger)) * lanes, m);
    for_each_panel([&](const AttentionPanel& panel, auto width) __attribute__((always_inline)) {
      begin_panel<Kernel, decltype(width)::value>(operands, panel);
    });
    // Keys beyond the last row's diagonal take part in no row.
    const i64 needed = Kernel::diagonal > 0 ? smaller(n, rows_end + diagonal) : n;
    for (i64 key = 0; key < needed; key += blocks.keys) {
      const i64 keys = smaller(blocks.keys, n - key);
      for (i64 i = keys * score_words<Kernel>; i < blocks.keys * score_words<Kernel>; ++i) k[i] = 0;
      pack_rows<ScoreProducts<Kernel>, K::axes[0], K::axes[1]>(k_from + key * k_n, k_n, k_d, keys, Kernel::d, k,
                                                               score_words<Kernel>);
      pack_rows<ElementProducts<Math>, V::axes[0], V::axes[1]>(v_from + key * v_n, v_n, v_d, keys, Kernel::dv, v,
                                                               Kernel::dv);
      for_each_panel([&](const AttentionPanel& panel, auto width) __attribute__((always_inline)) {
        constexpr i64 stride = decltype(width)::value * lanes;
        const i64 begin = panel.row + diagonal - key;
        if (Kernel::diagonal > 0 && begin + panel.rows - 1 < 0) return;
        if constexpr (Kernel::mask > 0) {
          const i64 mask_m = operands.stride<Mask>(Kernel::mask, 0), mask_n = operands.stride<Mask>(Kernel::mask, 1);
          if (panel.rows < stride) {
            for (i64 i = 0; i < keys * stride; ++i) mask[i] = 0;
          }
          pack_columns<ElementProducts<f32>, Mask::axes[0], Mask::axes[1]>(
              operands.address<const typename Mask::Type>(Kernel::mask) + panel.row * mask_m + key * mask_n, mask_m,
              mask_n, panel.rows, keys, mask, stride);
        }
        attend_panel<Kernel, decltype(width)::value>(k, v, keys, panel, scores, mask, begin);
      });
    }
    for_each_panel([&](const AttentionPanel& panel, auto width) __attribute__((always_inline)) {
      end_panel<Kernel, decltype(width)::value>(operands, panel, rows);
    });
  }
}

// f64: row by row, a few keys at a time.
template <typename Kernel>
LOW_INLINE void attention_plain(const Operands& operands, unsigned char* scratch) {
  using Q = typename Kernel::Q;
  using K = typename Kernel::K;
  using V = typename Kernel::V;
  using Mask = typename Kernel::Mask;
  using State = typename Kernel::State;
  using Result = typename Kernel::Result;
  constexpr i64 block = 64;
  f64* const o = reinterpret_cast<f64*>(scratch);
  const auto value = [](const auto* p) __attribute__((always_inline)) {
    return convert<f64>(convert<typename Kernel::Math>(load(p)));
  };
  i64 diagonal = 0;
  if constexpr (Kernel::diagonal > 0) diagonal = *operands.address<const i32>(Kernel::diagonal);
  const i64 all = operands.extent(1);
  for (i64 i = 0; i < operands.extent(0); ++i) {
    const auto* const q = operands.address<const typename Q::Type>(0) + i * operands.stride<Q>(0, 0);
    f64 largest = -math::infinity_f64, sum = 0;
    for (i64 c = 0; c < Kernel::dv; ++c) o[c] = 0;
    if constexpr (Kernel::state > 0) {
      const i64 step = operands.stride<State>(Kernel::state, 1);
      const f64* from = operands.address<const f64>(Kernel::state) + i * operands.stride<State>(Kernel::state, 0);
      for (i64 c = 0; c < Kernel::dv; ++c) o[c] = from[c * step];
      largest = from[Kernel::dv * step];
      sum = from[(Kernel::dv + 1) * step];
    }
    const i64 n = Kernel::diagonal == 0 ? all : smaller(all, i + diagonal + 1);
    for (i64 key = 0; key < n; key += block) {
      const i64 keys = smaller(block, n - key);
      f64 scores[block], before = largest;
      for (i64 j = 0; j < keys; ++j) {
        const auto* const k = operands.address<const typename K::Type>(1) + (key + j) * operands.stride<K>(1, 0);
        f64 s = 0;
        for (i64 c = 0; c < Kernel::d; ++c)
          s = math::fma(value(q + c * operands.stride<Q>(0, 1)), value(k + c * operands.stride<K>(1, 1)), s);
        s *= Kernel::scale;
        if constexpr (Kernel::softcap > 0) s = Kernel::softcap * math::tanh(s / Kernel::softcap);
        if constexpr (Kernel::mask > 0) {
          const auto m =
              load(operands.address<const typename Mask::Type>(Kernel::mask) +
                   i * operands.stride<Mask>(Kernel::mask, 0) + (key + j) * operands.stride<Mask>(Kernel::mask, 1));
          if constexpr (Kernel::bool_mask) {
            s = m ? s : Kernel::masked_score;
          } else {
            const f64 added = convert<f64>(m);
            s = Kernel::empty_is_zero && added == -math::infinity_f64 ? added : s + added;
          }
        }
        scores[j] = s;
        largest = s > largest ? s : largest;
      }
      const f64 shift = largest == -math::infinity_f64 ? 0.0 : largest;
      const f64 factor = math::exp(before - shift);
      sum *= factor;
      for (i64 c = 0; c < Kernel::dv; ++c) o[c] *= factor;
      for (i64 j = 0; j < keys; ++j) {
        const auto* const v = operands.address<const typename V::Type>(2) + (key + j) * operands.stride<V>(2, 0);
        const f64 p = math::exp(scores[j] - shift);
        sum += p;
        for (i64 c = 0; c < Kernel::dv; ++c) o[c] = math::fma(p, value(v + c * operands.stride<V>(2, 1)), o[c]);
      }
    }
    if constexpr (Kernel::partial) {
      const i64 step = operands.stride<Result>(Kernel::extras, 1);
      f64* to = operands.address<f64>(Kernel::extras) + i * operands.stride<Result>(Kernel::extras, 0);
      for (i64 c = 0; c < Kernel::dv; ++c) to[c * step] = o[c];
      to[Kernel::dv * step] = largest;
      to[(Kernel::dv + 1) * step] = sum;
    } else {
      for (i64 c = 0; c < Kernel::dv; ++c) o[c] = Kernel::empty_is_zero && sum == 0 ? 0.0 : o[c] / sum;
      epilogue<Kernel, Kernel::extras>(operands, i, 1, 0, Kernel::dv, o, Kernel::dv);
    }
  }
}

template <typename Kernel>
LOW_NOINLINE void attention(const abi::Launch& launch, CommandPointer command, unsigned char* scratch) {
  const Operands operands(launch, command);
  if (operands.extent(0) == 0) return;
  if constexpr (is_same<typename Kernel::Accumulate, f32>) {
    attention_blocked<Kernel>(operands, scratch);
  } else {
    attention_plain<Kernel>(operands, scratch);
  }
}

}  // namespace low::device
