// attention: one head of m rows of q over n keys, with the softmax taken as the keys come by; see
// kernels/families/attention.h for what it is.
//
// A kernel K has: d, dv; Math, Accumulate; Q, K, V, Mask, State, Result = OperandOf<…> (Mask and State also where there
// is none: any); mask, diagonal, state, extras: the operands' places, 0 for none; bool_mask, partial, empty_is_zero;
// scale, softcap, masked_score; Extras = List<OperandOf<…>…>; body(normalized, values…), but not if partial. And scores,
// values: the instructions of the two products (data/matrix.h), with ScoreMath and ValueMath, the types of their
// elements, and configuration (data/attention_amd.h); or instructions of 0 lanes for the plain way.
//
// Registers of a wave: its 16 rows of q, of sums of values, and of the softmax's state, which all lanes of a row hold.
// LDS: a block of keys, their values, and p of each wave. Who waits for whom: all lanes fill keys and values; barrier;
// waves read the keys and write p; barrier; they read p and the values; barrier; the next block.
#pragma once

#include "compiler/kernels/data/attention_amd.h"
#include "compiler/kernels/device/amd/stage.h"

namespace low::device {

// What becomes of a score: softcap and mask, and -infinity if the diagonal cuts it off. Both ways of the kernel use it.
template <typename Kernel, typename F>
struct Scores {
  const typename Kernel::Mask::Type* mask = nullptr;
  i64 mask_row = 0, mask_key = 0, diagonal = 0;

  LOW_INLINE explicit Scores(const Operands& operands) {
    if constexpr (Kernel::mask > 0) {
      mask = operands.address<const typename Kernel::Mask::Type>(Kernel::mask);
      mask_row = operands.template stride<typename Kernel::Mask>(Kernel::mask, 0);
      mask_key = operands.template stride<typename Kernel::Mask>(Kernel::mask, 1);
    }
    if constexpr (Kernel::diagonal > 0) diagonal = load_global(operands.address<const i32>(Kernel::diagonal));
  }
  // `sum`: of products, of a row and a key that there are.
  LOW_INLINE F finished(F sum, i64 row, i64 key) const {
    F score = sum * static_cast<F>(Kernel::scale);
    if constexpr (Kernel::softcap > 0) {
      constexpr F cap = static_cast<F>(Kernel::softcap);
      score = cap * math::tanh(score / cap);
    }
    if constexpr (Kernel::mask > 0) {
      const typename Kernel::Mask::Type element = load_global(mask + row * mask_row + key * mask_key);
      if constexpr (Kernel::bool_mask) {
        score = load(&element) ? score : static_cast<F>(Kernel::masked_score);
      } else {
        const F added = convert<F>(load(&element));
        score = Kernel::empty_is_zero && added == -infinity() ? added : score + added;
      }
    }
    return Kernel::diagonal > 0 && key > row + diagonal ? -infinity() : score;
  }
  // Keys that any row before `rows` takes part in, of n.
  LOW_INLINE i64 needed(i64 rows, i64 n) const { return Kernel::diagonal > 0 ? smaller(n, rows + diagonal) : n; }
  static LOW_INLINE F infinity() { return static_cast<F>(math::infinity_f64); }
  // What scores are taken relative to: where nothing took part so far, all terms become 0.
  static LOW_INLINE F shift(F largest) { return largest == -infinity() ? F{0} : largest; }
};

// What combine makes of the values of all lanes that hold the same rows, other columns.
template <typename F, typename Combine>
LOW_INLINE F over_columns(F value, Combine combine) {
  value = combine(value, from_lane_xor<1>(value));
  value = combine(value, from_lane_xor<2>(value));
  value = combine(value, from_lane_xor<4>(value));
  return combine(value, from_lane_xor<8>(value));
}

// write(row, c, normalized): the result's element of a normalized one.
template <typename Kernel, typename Result, typename... Extras, int... index>
LOW_INLINE auto attention_result(const Operands& operands, List<Extras...>, Indices<index...>) {
  return [&operands](i64 row, i64 c, typename Kernel::Accumulate normalized) __attribute__((always_inline)) {
    constexpr int last = Kernel::extras + sizeof...(Extras);
    Place<typename Result::Type>(operands, last)
        .write(row * operands.template stride<Result>(last, 0) + c * operands.template stride<Result>(last, 1),
               Kernel::body(normalized, Place<const typename Extras::Type>(operands, Kernel::extras + index)
                                            .read(row * operands.template stride<Extras>(Kernel::extras + index, 0) +
                                                  c * operands.template stride<Extras>(Kernel::extras + index, 1))...));
  };
}

// A row of the state that earlier keys left, or of the one to leave: sums, then the largest score, then the sum of p.
template <typename Operand, typename F>
struct StateRows {
  F* base;
  i64 row_stride, step;
  LOW_INLINE StateRows(const Operands& operands, int place)
      : base(operands.address<F>(place)),
        row_stride(operands.template stride<Operand>(place, 0)),
        step(operands.template stride<Operand>(place, 1)) {}
  LOW_INLINE F* at(i64 row, i64 column) const { return base + row * row_stride + column * step; }
};

template <typename Kernel>
LOW_INLINE void attention_blocks(const abi::Launch& launch, CommandPointer command, Lds lds) {
  const Operands operands = operands_of<Kernel>(launch, command);
  constexpr MatrixInstruction scores = Kernel::scores, values = Kernel::values;
  constexpr AttentionConfiguration configuration = Kernel::configuration;
  constexpr int keys = configuration.keys, waves = workgroup_lanes / scores.lanes, wave_rows = scores.m;
  using Q = typename Kernel::Q;
  using K = typename Kernel::K;
  using V = typename Kernel::V;
  using ScoreMath = typename Kernel::ScoreMath;
  using ValueMath = typename Kernel::ValueMath;
  using Math = typename Kernel::Math;
  using Keys = Stage<ScoreMath, keys, configuration.d, key_pitch(configuration)>;
  using Values = Stage<ValueMath, configuration.dv, keys, value_pitch(configuration)>;
  using Weights = Stage<ValueMath, wave_rows, keys, value_pitch(configuration)>;
  using BitsQ = FragmentBits<ScoreMath, scores.a_layout>;
  constexpr int items = items_of(scores.c_layout);
  static_assert(items == items_of(values.c_layout));
  constexpr int depth = configuration.d / scores.k, blocks = keys / scores.n, columns = configuration.dv / values.n;

  const int m = static_cast<int>(operands.extent(0)), n = static_cast<int>(operands.extent(1));
  const Scores<Kernel, f32> score(operands);
  const auto* const q = operands.address<const typename Q::Type>(0);
  const auto* const k = operands.address<const typename K::Type>(1);
  const auto* const v = operands.address<const typename V::Type>(2);
  const i64 q_row = operands.template stride<Q>(0, 0), q_d = operands.template stride<Q>(0, 1);
  const i64 k_key = operands.template stride<K>(1, 0), k_d = operands.template stride<K>(1, 1);
  const i64 v_key = operands.template stride<V>(2, 0), v_c = operands.template stride<V>(2, 1);
  const bool wide_k = K::axes[1] == Access::unit && begins_chunks(k, k_key, sizeof(typename K::Type));
  const int wave = static_cast<int>(lane()) / scores.lanes, in_wave = static_cast<int>(lane()) % scores.lanes;
  const Keys stage_k{lds};
  const Values stage_v{lds + keys_lds_bytes(configuration)};
  const Weights stage_p{lds + (keys_lds_bytes(configuration) + values_lds_bytes(configuration) +
                               wave * wave_rows * value_pitch(configuration))};
  const Element q_at = element_at(scores.a_layout, in_wave, 0), k_at = element_at(scores.b_layout, in_wave, 0);
  const Element p_at = element_at(values.a_layout, in_wave, 0), v_at = element_at(values.b_layout, in_wave, 0);
  // Item i of a lane's sums is of row row_of(i), and of this column of its fragment.
  const int column = element_at(scores.c_layout, in_wave, 0).n;
  const auto row_of = [&](int item)
                          __attribute__((always_inline)) { return element_at(scores.c_layout, in_wave, item).m; };

  for (int block = 0; block < m; block += waves * wave_rows) {
    const int first = block + wave * wave_rows;  // row of this wave
    BitsQ rows_q[depth];
#pragma unroll
    for (int f = 0; f < depth; ++f) {
      struct Items {
        ScoreMath item[sizeof(BitsQ) / sizeof(ScoreMath)];
      } some{};
      const int row = first + q_at.m;
      const int at = f * scores.k + q_at.k;
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(BitsQ) / sizeof(ScoreMath)); ++i)
        if (const int c = at + element_at(scores.a_layout, 0, i).k; row < m && c < Kernel::d)
          some.item[i] = to_math<ScoreMath, Math>(load_global(q + row * q_row + c * q_d));
      rows_q[f] = bits_as<BitsQ>(some);
    }
    Sums<values> sums[columns] = {};
    f32 largest[items], total[items];
#pragma unroll
    for (int i = 0; i < items; ++i) largest[i] = -math::infinity_f32, total[i] = 0;
    if constexpr (Kernel::state > 0) {
      const StateRows<typename Kernel::State, const f32> state(operands, Kernel::state);
#pragma unroll
      for (int i = 0; i < items; ++i) {
        const int row = first + row_of(i);
        if (row >= m) continue;
        largest[i] = load_global(state.at(row, Kernel::dv));
        total[i] = load_global(state.at(row, Kernel::dv + 1));
#pragma unroll
        for (int c = 0; c < columns; ++c)
          if (c * values.n + column < Kernel::dv) sums[c][i] = load_global(state.at(row, c * values.n + column));
      }
    }

    const int needed = static_cast<int>(score.needed(smaller(block + waves * wave_rows, m), n));
    for (int key = 0; key < needed; key += keys) {
      stage_k.template fill<Math, K, 1>(k + key * k_key, k_key, k_d, n - key, Kernel::d, wide_k);
      stage_v.template fill<Math, V, 0>(v + key * v_key, v_c, v_key, Kernel::dv, n - key, false);
      barrier();
      Sums<scores> s[blocks] = {};
#pragma unroll
      for (int b = 0; b < blocks; ++b)
#pragma unroll
        for (int f = 0; f < depth; ++f)
          s[b] = multiply<scores>(
              rows_q[f], stage_k.template fragment<scores.b_layout>(b * scores.n + k_at.n, f * scores.k + k_at.k),
              s[b]);
      f32 factor[items];
#pragma unroll
      for (int i = 0; i < items; ++i) {
        const int row = first + row_of(i);
        f32 most = largest[i];
#pragma unroll
        for (int b = 0; b < blocks; ++b) {
          const int at = key + b * scores.n + column;
          s[b][i] = row < m && at < n ? score.finished(s[b][i], row, at) : -math::infinity_f32;
          most = s[b][i] > most ? s[b][i] : most;
        }
        most = over_columns(most, [](f32 a, f32 b) __attribute__((always_inline)) { return a > b ? a : b; });
        const f32 shift = score.shift(most);
        f32 sum = 0;
#pragma unroll
        for (int b = 0; b < blocks; ++b) {
          const f32 p = math::exp(s[b][i] - shift);
          sum += p;
          store_lds(stage_p.base + (row_of(i) * value_pitch(configuration) +
                                    (b * scores.n + column) * static_cast<int>(sizeof(ValueMath))),
                    convert<ValueMath>(p));
        }
        sum = over_columns(sum, [](f32 a, f32 b) __attribute__((always_inline)) { return a + b; });
        factor[i] = math::exp(largest[i] - shift);
        total[i] = math::fma(total[i], factor[i], sum);
        largest[i] = most;
      }
      barrier();
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int i = 0; i < items; ++i) sums[c][i] *= factor[i];
#pragma unroll
        for (int kk = 0; kk < keys; kk += values.k)
          sums[c] =
              multiply<values>(stage_p.template fragment<values.a_layout>(p_at.m, kk + p_at.k),
                               stage_v.template fragment<values.b_layout>(c * values.n + v_at.n, kk + v_at.k), sums[c]);
      }
      barrier();
    }

#pragma unroll
    for (int i = 0; i < items; ++i) {
      const int row = first + row_of(i);
      if (row >= m) continue;
      const Operands last = operands_anew<Kernel>(launch, command);
      if constexpr (Kernel::partial) {
        const StateRows<typename Kernel::Result, f32> state(last, Kernel::extras);
        if (column == 0) {
          store_global(state.at(row, Kernel::dv), largest[i]);
          store_global(state.at(row, Kernel::dv + 1), total[i]);
        }
#pragma unroll
        for (int c = 0; c < columns; ++c)
          if (c * values.n + column < Kernel::dv) store_global(state.at(row, c * values.n + column), sums[c][i]);
      } else {
        const auto write = attention_result<Kernel, typename Kernel::Result>(last, typename Kernel::Extras{},
                                                                             MakeIndices<Kernel::Extras::size>{});
#pragma unroll
        for (int c = 0; c < columns; ++c) {
          if (c * values.n + column >= Kernel::dv) continue;
          const f32 normalized = Kernel::empty_is_zero && total[i] == 0 ? 0.0f : sums[c][i] / total[i];
          write(row, c * values.n + column, normalized);
        }
      }
    }
  }
}

// The plain way: a row after the other, by the whole workgroup. A lane has a key of a block of 256 when scores are
// computed, and some columns of v when these are summed; of more columns than all lanes have at once, scores are
// computed again.
template <typename Kernel>
LOW_INLINE void attention_rows_in_turn(const Operands& operands, Lds lds) {
  using F = typename Kernel::Accumulate;
  using Q = typename Kernel::Q;
  using K = typename Kernel::K;
  using V = typename Kernel::V;
  constexpr int own = 4;  // columns of a lane
  constexpr u32 size = sizeof(F);
  const Scores<Kernel, F> score(operands);
  const auto* const q = operands.address<const typename Q::Type>(0);
  const auto* const k = operands.address<const typename K::Type>(1);
  const auto* const v = operands.address<const typename V::Type>(2);
  const auto value = [](const auto* p) __attribute__((always_inline)) {
    const auto element = load_global(p);
    return convert<F>(convert<typename Kernel::Math>(load(&element)));
  };
  const i64 m = operands.extent(0), n = operands.extent(1);
  for (i64 row = 0; row < m; ++row) {
    const i64 needed = score.needed(row + 1, n);
    for (i64 c0 = 0; c0 < Kernel::dv; c0 += own * workgroup_lanes) {
      F largest = -score.infinity(), total = 0, sums[own] = {};
      const auto column = [&](int i) __attribute__((always_inline)) {
        return c0 + i * workgroup_lanes + static_cast<i64>(lane());
      };
      if constexpr (Kernel::state > 0) {
        const StateRows<typename Kernel::State, const F> state(operands, Kernel::state);
        largest = load_global(state.at(row, Kernel::dv));
        total = load_global(state.at(row, Kernel::dv + 1));
#pragma unroll
        for (int i = 0; i < own; ++i)
          if (column(i) < Kernel::dv) sums[i] = load_global(state.at(row, column(i)));
        barrier();  // the result may lie where the state does, and its last columns are written by one lane
      }
      for (i64 key = 0; key < needed; key += workgroup_lanes) {
        const i64 at = key + static_cast<i64>(lane());
        F s = -score.infinity();
        if (at < needed) {
          F sum = 0;
          for (i64 i = 0; i < Kernel::d; ++i)
            sum = math::fma(value(q + row * operands.template stride<Q>(0, 0) + i * operands.template stride<Q>(0, 1)),
                            value(k + at * operands.template stride<K>(1, 0) + i * operands.template stride<K>(1, 1)),
                            sum);
          s = score.finished(sum, row, at);
        }
        store_lds(lds + lane() * size, s);
        barrier();
        F most = largest;
        for (u32 j = 0; j < workgroup_lanes; ++j) {
          const F other = load_lds<F>(lds + j * size);
          most = other > most ? other : most;
        }
        const F shift = score.shift(most), factor = math::exp(largest - shift);
        total *= factor;
#pragma unroll
        for (int i = 0; i < own; ++i) sums[i] *= factor;
        const u32 present = static_cast<u32>(smaller(workgroup_lanes, needed - key));
        for (u32 j = 0; j < present; ++j) {
          const F p = math::exp(load_lds<F>(lds + j * size) - shift);
          total += p;
#pragma unroll
          for (int i = 0; i < own; ++i)
            if (column(i) < Kernel::dv)
              sums[i] = math::fma(p,
                                  value(v + (key + j) * operands.template stride<V>(2, 0) +
                                        column(i) * operands.template stride<V>(2, 1)),
                                  sums[i]);
        }
        largest = most;
        barrier();
      }
      if constexpr (Kernel::partial) {
        const StateRows<typename Kernel::Result, F> state(operands, Kernel::extras);
#pragma unroll
        for (int i = 0; i < own; ++i)
          if (column(i) < Kernel::dv) store_global(state.at(row, column(i)), sums[i]);
        if (lane() == 0 && c0 + own * workgroup_lanes >= Kernel::dv) {
          store_global(state.at(row, Kernel::dv), largest);
          store_global(state.at(row, Kernel::dv + 1), total);
        }
      } else {
        const auto write = attention_result<Kernel, typename Kernel::Result>(operands, typename Kernel::Extras{},
                                                                             MakeIndices<Kernel::Extras::size>{});
#pragma unroll
        for (int i = 0; i < own; ++i)
          if (column(i) < Kernel::dv)
            write(row, column(i), Kernel::empty_is_zero && total == 0 ? F{0} : sums[i] / total);
      }
    }
  }
}

template <typename Kernel>
LOW_KERNEL void attention(const abi::Launch& launch, CommandPointer command, Lds lds) {
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.extent(0) == 0) return;
  if constexpr (Kernel::scores.lanes == 0) {
    attention_rows_in_turn<Kernel>(operands, lds);
  } else {
    attention_blocks<Kernel>(launch, command, lds);
  }
}

}  // namespace low::device
