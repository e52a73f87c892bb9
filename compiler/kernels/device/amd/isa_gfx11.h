// isa.h for gfx1100: waves of 32 lanes.
#pragma once

#include "compiler/kernels/device/amd/isa_gpu.h"

#if defined(LOW_ISA_GFX11)

namespace low::device {

template <MatrixInstruction row, typename A, typename B, typename C>
LOW_INLINE C multiply(A a, B b, C c) {
  using enum MatrixFormat;
  using Halves = _Float16 __attribute__((ext_vector_type(16)));
  using Shorts = short __attribute__((ext_vector_type(16)));
  using Words = int __attribute__((ext_vector_type(4)));
  if constexpr (row.a == f16) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bits_as<Halves>(a), bits_as<Halves>(b), c);
  } else if constexpr (row.a == bf16) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bits_as<Shorts>(a), bits_as<Shorts>(b), c);
  } else {
    static_assert(row.a == i8);
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, bits_as<Words>(a), true, bits_as<Words>(b), c, false);
  }
}

}  // namespace low::device

#endif
