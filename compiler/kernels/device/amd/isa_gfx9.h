// isa.h for gfx90a, gfx942 and gfx950: waves of 64 lanes.
#pragma once

#include "compiler/kernels/device/amd/isa_gpu.h"

#if defined(LOW_ISA_GFX9)

namespace low::device {

template <MatrixInstruction row, typename A, typename B, typename C>
LOW_INLINE C multiply(A a, B b, C c) {
  using enum MatrixFormat;
  using Halves = _Float16 __attribute__((ext_vector_type(items_of(row.a_layout))));
  using Shorts = short __attribute__((ext_vector_type(items_of(row.a_layout))));
  using Brains = __bf16 __attribute__((ext_vector_type(items_of(row.a_layout))));
  using Words = int __attribute__((ext_vector_type(8)));
  if constexpr (is_fp8(row.a) && row.k == 128) {
    constexpr int e5m2 = 1;  // 0: E4M3. Scales of 0: none.
    return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(
        bits_as<Words>(a), bits_as<Words>(b), c, row.a == bf8 ? e5m2 : 0, row.b == bf8 ? e5m2 : 0, 0, 0, 0, 0);
  } else if constexpr (row.a == fp8 && row.b == fp8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == fp8 && row.b == bf8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == bf8 && row.b == fp8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == bf8 && row.b == bf8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == i8 && row.k == 16) {
    return __builtin_amdgcn_mfma_i32_16x16x16i8(bits_as<int>(a), bits_as<int>(b), c, 0, 0, 0);
  } else if constexpr (row.a == i8) {
    return __builtin_amdgcn_mfma_i32_16x16x32_i8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == f16 && row.k == 32) {
    return __builtin_amdgcn_mfma_f32_16x16x32_f16(bits_as<Halves>(a), bits_as<Halves>(b), c, 0, 0, 0);
  } else if constexpr (row.a == f16) {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(bits_as<Halves>(a), bits_as<Halves>(b), c, 0, 0, 0);
  } else if constexpr (row.a == bf16 && row.k == 32) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf16(bits_as<Brains>(a), bits_as<Brains>(b), c, 0, 0, 0);
  } else if constexpr (row.a == bf16) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits_as<Shorts>(a), bits_as<Shorts>(b), c, 0, 0, 0);
  } else {
    static_assert(row.a == f32);
    return __builtin_amdgcn_mfma_f32_16x16x4f32(bits_as<float>(a), bits_as<float>(b), c, 0, 0, 0);
  }
}

}  // namespace low::device

#endif
