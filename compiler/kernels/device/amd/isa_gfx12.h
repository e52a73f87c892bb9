// isa.h for gfx1201: waves of 32 lanes.
#pragma once

#include "compiler/kernels/device/amd/isa_gpu.h"

#if defined(LOW_ISA_GFX12)

namespace low::device {

template <MatrixInstruction row, typename A, typename B, typename C>
LOW_INLINE C multiply(A a, B b, C c) {
  using enum MatrixFormat;
  using Halves = _Float16 __attribute__((ext_vector_type(8)));
  using Shorts = short __attribute__((ext_vector_type(8)));
  using Words = int __attribute__((ext_vector_type(2)));
  if constexpr (row.a == f16) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(bits_as<Halves>(a), bits_as<Halves>(b), c);
  } else if constexpr (row.a == bf16) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bits_as<Shorts>(a), bits_as<Shorts>(b), c);
  } else if constexpr (row.a == i8) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, bits_as<Words>(a), true, bits_as<Words>(b), c, false);
  } else if constexpr (row.a == fp8 && row.b == fp8) {
    return __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(bits_as<Words>(a), bits_as<Words>(b), c);
  } else if constexpr (row.a == fp8) {
    return __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(bits_as<Words>(a), bits_as<Words>(b), c);
  } else if constexpr (row.b == fp8) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf8_fp8_w32_gfx12(bits_as<Words>(a), bits_as<Words>(b), c);
  } else {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(bits_as<Words>(a), bits_as<Words>(b), c);
  }
}

}  // namespace low::device

#endif
