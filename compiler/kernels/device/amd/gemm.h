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
#include "compiler/kernels/device/amd/stage.h"

namespace low::device {

// with_write(use) calls use(write) when there are sums; write(row, column, sum) by whoever holds it.
template <typename Kernel, typename WithWrite>
LOW_INLINE void gemm_blocks(const Operands& operands, Lds lds, WithWrite with_write) {
  constexpr MatrixInstruction instruction = Kernel::instruction;
  constexpr GemmConfiguration configuration = Kernel::configuration;
  using A = typename Kernel::A;
  using B = typename Kernel::B;
  constexpr int pitch = stage_pitch(configuration);
  using MathA = typename Kernel::MathA;
  using MathB = typename Kernel::MathB;
  constexpr int step = configuration.step_bytes / static_cast<int>(sizeof(MathA));
  static_assert(sizeof(MathA) == sizeof(MathB) && step % instruction.k == 0);
  using StageA = Stage<MathA, configuration.block_m, step, pitch>;
  using StageB = Stage<MathB, configuration.block_n, step, pitch>;
  using BitsA = FragmentBits<MathA, instruction.a_layout>;
  using BitsB = FragmentBits<MathB, instruction.b_layout>;
  constexpr int wave_m = configuration.block_m / configuration.waves_m,
                wave_n = configuration.block_n / configuration.waves_n;
  constexpr int fragments_m = wave_m / instruction.m, fragments_n = wave_n / instruction.n;

  const int m = static_cast<int>(operands.extent(0)), n = static_cast<int>(operands.extent(1)),
            k = static_cast<int>(operands.extent(2));
  const auto* const a = operands.address<const typename A::Type>(0);
  const auto* const b = operands.address<const typename B::Type>(1);
  const i64 a_row = operands.template stride<A>(0, 0), a_k = operands.template stride<A>(0, 1);
  const i64 b_k = operands.template stride<B>(1, 0), b_row = operands.template stride<B>(1, 1);
  const bool wide_a = A::axes[1] == Access::unit && begins_chunks(a, a_row, sizeof(typename A::Type));
  const bool wide_b = B::axes[0] == Access::unit && begins_chunks(b, b_row, sizeof(typename B::Type));
  const StageA stage_a{lds};
  const StageB stage_b{lds + configuration.block_m * pitch};

  const int wave = static_cast<int>(lane()) / instruction.lanes, in_wave = static_cast<int>(lane()) % instruction.lanes;
  const int row0 = wave / configuration.waves_n * wave_m, column0 = wave % configuration.waves_n * wave_n;
  const Element a_at = element_at(instruction.a_layout, in_wave, 0);
  const Element b_at = element_at(instruction.b_layout, in_wave, 0);
  for (int m0 = 0; m0 < m; m0 += configuration.block_m) {
    for (int n0 = 0; n0 < n; n0 += configuration.block_n) {
      Sums<instruction> sums[fragments_m][fragments_n] = {};
      for (int k0 = 0; k0 < k; k0 += step) {
        stage_a.template fill<typename Kernel::RoundedA, A, 1>(a + m0 * a_row + k0 * a_k, a_row, a_k, m - m0, k - k0,
                                                               wide_a);
        stage_b.template fill<typename Kernel::RoundedB, B, 0>(b + n0 * b_row + k0 * b_k, b_row, b_k, n - n0, k - k0,
                                                               wide_b);
        barrier();
#pragma unroll
        for (int kk = 0; kk < step; kk += instruction.k) {
          BitsA fragment_a[fragments_m];
          BitsB fragment_b[fragments_n];
#pragma unroll
          for (int i = 0; i < fragments_m; ++i)
            fragment_a[i] =
                stage_a.template fragment<instruction.a_layout>(row0 + i * instruction.m + a_at.m, kk + a_at.k);
#pragma unroll
          for (int j = 0; j < fragments_n; ++j)
            fragment_b[j] =
                stage_b.template fragment<instruction.b_layout>(column0 + j * instruction.n + b_at.n, kk + b_at.k);
#pragma unroll
          for (int i = 0; i < fragments_m; ++i)
#pragma unroll
            for (int j = 0; j < fragments_n; ++j)
              sums[i][j] = multiply<instruction>(fragment_a[i], fragment_b[j], sums[i][j]);
        }
        barrier();
      }
      // Anew for every few elements: what the epilogue works with would otherwise take more registers than there are.
#pragma unroll
      for (int i = 0; i < fragments_m; ++i)
        with_write([&](auto write) __attribute__((always_inline)) {
#pragma unroll
          for (int j = 0; j < fragments_n; ++j) {
            const int rows = anew(m), columns = anew(n);
#pragma unroll
            for (int item = 0; item < items_of(instruction.c_layout); ++item) {
              const Element at = element_at(instruction.c_layout, in_wave, item);
              const int row = m0 + row0 + i * instruction.m + at.m, column = n0 + column0 + j * instruction.n + at.n;
              if (row < rows && column < columns)
                write(row, column, static_cast<typename Kernel::Accumulate>(sums[i][j][item]));
            }
          }
        });
    }
  }
}

// The plain way.
template <typename Kernel, typename WithWrite>
LOW_INLINE void gemm_elements(const Operands& operands, WithWrite with_write) {
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
    with_write([&](auto write) __attribute__((always_inline)) { write(row, column, sum); });
  }
}

// The epilogue's operands, in registers only as long as `use` runs.
template <typename Kernel, typename Result, typename... Extras, int... index, typename Use>
LOW_INLINE void with_epilogue(const abi::Launch& launch, CommandPointer command, List<Extras...>, Indices<index...>,
                              Use use) {
  const Operands operands = operands_anew<Kernel>(launch, command);
  constexpr int last = 2 + sizeof...(Extras);
  const Place<typename Result::Type> result(operands, last);
  const i64 result_row = operands.template stride<Result>(last, 0),
            result_column = operands.template stride<Result>(last, 1);
  [&](Place<const typename Extras::Type>... extras) __attribute__((always_inline)) {
    use([&](i64 row, i64 column, typename Kernel::Accumulate sum) __attribute__((always_inline)) {
      result.write(row * result_row + column * result_column,
                   Kernel::body(sum, extras.read(row * operands.template stride<Extras>(2 + index, 0) +
                                                 column * operands.template stride<Extras>(2 + index, 1))...));
    });
  }(Place<const typename Extras::Type>(operands, 2 + index)...);
}

template <typename Kernel>
LOW_KERNEL void gemm(const abi::Launch& launch, CommandPointer command, Lds lds) {
  const Operands operands = operands_of<Kernel>(launch, command);
  if (operands.nothing(2)) return;
  const auto with_write = [&](auto use) __attribute__((always_inline)) {
    with_epilogue<Kernel, typename Kernel::Result>(launch, command, typename Kernel::Extras{},
                                                   MakeIndices<Kernel::Extras::size>{}, use);
  };
  if constexpr (Kernel::instruction.lanes == 0) {
    gemm_elements<Kernel>(operands, with_write);
  } else {
    gemm_blocks<Kernel>(operands, lds, with_write);
  }
}

}  // namespace low::device
