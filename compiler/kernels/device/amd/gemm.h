// gemm: result[m, n] = body(sum over k of a[m, k] * b[k, n], extras…[m, n]…).
//
// A kernel K has: A, B = OperandOf<…>; RoundedA, RoundedB, what their elements are rounded to; Accumulate; Extras =
// List<OperandOf<…>…>, Result = OperandOf<…>; body(sum, values…); instruction (data/matrix.h), with MathA and MathB, the
// types of its elements, which hold the rounded ones, and a configuration (data/gemm_amd.h); or an instruction of 0
// lanes where none multiplies such elements: then each lane sums up elements of its own.
//
// Who waits for whom: a stage is filled by all lanes; barrier; all waves read it; barrier; it is filled again.
#pragma once

#include "compiler/kernels/data/gemm_amd.h"
#include "compiler/kernels/device/amd/operand.h"

namespace low::device {

template <int bytes>
struct BitsOfSize;
template <>
struct BitsOfSize<4> {
  using Type = u32;
};
template <>
struct BitsOfSize<8> {
  using Type = u64;
};
// What an instruction sums in.
template <bool integers>
struct SumOf {
  using Type = f32;
};
template <>
struct SumOf<true> {
  using Type = i32;
};
using Chunk = u32 __attribute__((ext_vector_type(4)));  // the widest access: 16 bytes

template <typename Math, typename Rounded, typename T>
LOW_INLINE Math to_math(T element) {
  if constexpr (is_same<Math, T>) {
    return element;
  } else {
    return convert<Math>(convert<Rounded>(load(&element)));
  }
}

// One operand's part of a step, in LDS: `rows` rows (of a; columns of b) with k innermost.
template <typename Math, int rows, int step_bytes, int pitch>
struct Stage {
  static constexpr int step = step_bytes / static_cast<int>(sizeof(Math));
  static constexpr int chunk_items = sizeof(Chunk) / sizeof(Math);
  static constexpr int row_chunks = step / chunk_items;
  static constexpr int chunks = rows * row_chunks;
  Lds base;

  // Elements beyond `rows_left` and `k_left` are 0. `wide`: rows of Math, contiguous, that begin at multiples of 16
  // bytes. Lanes that are neighbours take neighbours in memory.
  template <typename Rounded, typename Operand, int k_axis>
  LOW_INLINE void fill(const typename Operand::Type* from, i64 row_stride, i64 k_stride, i64 rows_left, i64 k_left,
                       bool wide) const {
    const int row_limit = static_cast<int>(smaller(rows_left, rows)), k_limit = static_cast<int>(smaller(k_left, step));
    using T = typename Operand::Type;
    constexpr bool k_first = Operand::axes[k_axis] == Access::unit;
#pragma unroll
    for (int begin = 0; begin < chunks; begin += workgroup_lanes) {
      const int number = begin + static_cast<int>(lane());
      if (chunks % workgroup_lanes != 0 && number >= chunks) continue;
      const int row = k_first ? number / row_chunks : number % rows;
      const int k = (k_first ? number % row_chunks : number / rows) * chunk_items;
      const T* const first = from + row * row_stride + k * k_stride;
      Chunk chunk = {};
      if (is_same<T, Math> && wide && row < row_limit && k + chunk_items <= k_limit) {
        chunk = load_global(reinterpret_cast<const Chunk*>(first));
      } else {
        struct Items {
          Math item[chunk_items];
        } items{};
#pragma unroll
        for (int i = 0; i < chunk_items; ++i)
          if (row < row_limit && k + i < k_limit)
            items.item[i] = to_math<Math, Rounded>(load_global(first + i * k_stride));
        chunk = bits_as<Chunk>(items);
      }
      store_lds(base + (row * pitch + k * static_cast<int>(sizeof(Math))), chunk);
    }
  }
  // A lane's items of the fragment whose first element is (row, k); `at`: where the first of them is in it.
  template <typename Bits>
  LOW_INLINE Bits fragment(int row, int k) const {
    return load_lds<Bits>(base + (row * pitch + k * static_cast<int>(sizeof(Math))));
  }
};

// write(row, column, sum) by whoever holds it.
template <typename Kernel, typename Write>
LOW_INLINE void gemm_blocks(const Operands& operands, Lds lds, Write write) {
  constexpr MatrixInstruction instruction = Kernel::instruction;
  constexpr GemmConfiguration configuration = Kernel::configuration;
  using A = typename Kernel::A;
  using B = typename Kernel::B;
  constexpr int pitch = stage_pitch(configuration);
  using StageA = Stage<typename Kernel::MathA, configuration.block_m, configuration.step_bytes, pitch>;
  using StageB = Stage<typename Kernel::MathB, configuration.block_n, configuration.step_bytes, pitch>;
  static_assert(StageA::step == StageB::step && StageA::step % instruction.k == 0);
  using BitsA = typename BitsOfSize<items_of(instruction.a_layout) * sizeof(typename Kernel::MathA)>::Type;
  using BitsB = typename BitsOfSize<items_of(instruction.b_layout) * sizeof(typename Kernel::MathB)>::Type;
  using Sum = typename SumOf<Kernel::instruction.a == MatrixFormat::i8>::Type;
  using Sums = Sum __attribute__((ext_vector_type(items_of(instruction.c_layout))));
  constexpr int wave_m = configuration.block_m / configuration.waves_m,
                wave_n = configuration.block_n / configuration.waves_n;
  constexpr int fragments_m = wave_m / instruction.m, fragments_n = wave_n / instruction.n;

  const i64 m = operands.extent(0), n = operands.extent(1), k = operands.extent(2);
  const auto* const a = operands.address<const typename A::Type>(0);
  const auto* const b = operands.address<const typename B::Type>(1);
  const i64 a_row = operands.template stride<A>(0, 0), a_k = operands.template stride<A>(0, 1);
  const i64 b_k = operands.template stride<B>(1, 0), b_row = operands.template stride<B>(1, 1);
  const auto wide = [](const void* p, i64 stride, u32 size) __attribute__((always_inline)) {
    return ((reinterpret_cast<u64>(p) | static_cast<u64>(stride) * size) & 15) == 0;
  };
  const bool wide_a = A::axes[1] == Access::unit && wide(a, a_row, sizeof(typename A::Type));
  const bool wide_b = B::axes[0] == Access::unit && wide(b, b_row, sizeof(typename B::Type));
  const StageA stage_a{lds};
  const StageB stage_b{lds + configuration.block_m * pitch};

  const int wave = static_cast<int>(lane()) / instruction.lanes, in_wave = static_cast<int>(lane()) % instruction.lanes;
  const int row0 = wave / configuration.waves_n * wave_m, column0 = wave % configuration.waves_n * wave_n;
  const Element a_at = element_at(instruction.a_layout, in_wave, 0);
  const Element b_at = element_at(instruction.b_layout, in_wave, 0);
  for (i64 m0 = 0; m0 < m; m0 += configuration.block_m) {
    for (i64 n0 = 0; n0 < n; n0 += configuration.block_n) {
      Sums sums[fragments_m][fragments_n] = {};
      for (i64 k0 = 0; k0 < k; k0 += StageA::step) {
        stage_a.template fill<typename Kernel::RoundedA, A, 1>(a + m0 * a_row + k0 * a_k, a_row, a_k, m - m0, k - k0,
                                                               wide_a);
        stage_b.template fill<typename Kernel::RoundedB, B, 0>(b + n0 * b_row + k0 * b_k, b_row, b_k, n - n0, k - k0,
                                                               wide_b);
        barrier();
#pragma unroll
        for (int kk = 0; kk < StageA::step; kk += instruction.k) {
          BitsA fragment_a[fragments_m];
          BitsB fragment_b[fragments_n];
#pragma unroll
          for (int i = 0; i < fragments_m; ++i)
            fragment_a[i] = stage_a.template fragment<BitsA>(row0 + i * instruction.m + a_at.m, kk + a_at.k);
#pragma unroll
          for (int j = 0; j < fragments_n; ++j)
            fragment_b[j] = stage_b.template fragment<BitsB>(column0 + j * instruction.n + b_at.n, kk + b_at.k);
#pragma unroll
          for (int i = 0; i < fragments_m; ++i)
#pragma unroll
            for (int j = 0; j < fragments_n; ++j)
              sums[i][j] = multiply<instruction>(fragment_a[i], fragment_b[j], sums[i][j]);
        }
        barrier();
      }
#pragma unroll
      for (int i = 0; i < fragments_m; ++i)
#pragma unroll
        for (int j = 0; j < fragments_n; ++j)
#pragma unroll
          for (int item = 0; item < items_of(instruction.c_layout); ++item) {
            const Element at = element_at(instruction.c_layout, in_wave, item);
            const i64 row = m0 + row0 + i * instruction.m + at.m, column = n0 + column0 + j * instruction.n + at.n;
            if (row < m && column < n) write(row, column, static_cast<typename Kernel::Accumulate>(sums[i][j][item]));
          }
    }
  }
}

// The plain way.
template <typename Kernel, typename Write>
LOW_INLINE void gemm_elements(const Operands& operands, Write write) {
  using A = typename Kernel::A;
  using B = typename Kernel::B;
  using Sum = typename Kernel::Accumulate;
  const u32 m = static_cast<u32>(operands.extent(0)), n = static_cast<u32>(operands.extent(1));
  const i64 k = operands.extent(2);
  const Place<const typename A::Type> a(operands, 0);
  const Place<const typename B::Type> b(operands, 1);
  const i64 a_row = operands.template stride<A>(0, 0), a_k = operands.template stride<A>(0, 1);
  const i64 b_k = operands.template stride<B>(1, 0), b_column = operands.template stride<B>(1, 1);
  for (u32 element = lane(); element < m * n; element += workgroup_lanes) {
    const u32 row = element / n, column = element - row * n;
    Sum sum{0};
    for (i64 i = 0; i < k; ++i) {
      const auto x = convert<typename Kernel::RoundedA>(a.read(row * a_row + i * a_k));
      const auto y = convert<typename Kernel::RoundedB>(b.read(i * b_k + column * b_column));
      sum = add(sum, mul(convert<Sum>(x), convert<Sum>(y)));
    }
    write(row, column, sum);
  }
}

template <typename Kernel, typename Result, typename... Extras, int... index>
LOW_INLINE void gemm_with_extras(const Operands& operands, Lds lds, List<Extras...>, Indices<index...>) {
  constexpr int last = 2 + sizeof...(Extras);
  const Place<typename Result::Type> result(operands, last);
  const i64 result_row = operands.template stride<Result>(last, 0),
            result_column = operands.template stride<Result>(last, 1);
  [&](Place<const typename Extras::Type>... extras) __attribute__((always_inline)) {
    const auto write = [&](i64 row, i64 column, typename Kernel::Accumulate sum) __attribute__((always_inline)) {
      result.write(row * result_row + column * result_column,
                   Kernel::body(sum, extras.read(row * operands.template stride<Extras>(2 + index, 0) +
                                                 column * operands.template stride<Extras>(2 + index, 1))...));
    };
    if constexpr (Kernel::instruction.lanes == 0) {
      gemm_elements<Kernel>(operands, write);
    } else {
      gemm_blocks<Kernel>(operands, lds, write);
    }
  }(Place<const typename Extras::Type>(operands, 2 + index)...);
}

template <typename Kernel>
LOW_KERNEL void gemm(const abi::Launch& launch, CommandPointer command, Lds lds) {
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(2)) return;
  gemm_with_extras<Kernel, typename Kernel::Result>(operands, lds, typename Kernel::Extras{},
                                                    MakeIndices<Kernel::Extras::size>{});
}

}  // namespace low::device
