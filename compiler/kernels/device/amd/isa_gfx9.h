// isa.h for gfx90a, gfx942 and gfx950: waves of 64 lanes.
#pragma once

#include "compiler/kernels/data/matrix.h"
#include "compiler/kernels/device/command.h"

#if defined(LOW_ISA_GFX9)

#define LOW_ENTRY(name)                                                                                         \
  extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(256, 256))) void name( \
      const low::abi::Launch launch)
#define LOW_KERNEL LOW_INLINE
#define LOW_LDS(name, bytes)                                             \
  __attribute__((shared)) alignas(16) unsigned char name##_bytes[bytes]; \
  const low::device::Lds name = (low::device::Lds)(name##_bytes)

namespace low::device {

using Lds = __attribute__((address_space(3))) unsigned char*;

LOW_INLINE u32 workgroup() { return __builtin_amdgcn_workgroup_id_x(); }
LOW_INLINE u32 lane() { return __builtin_amdgcn_workitem_id_x(); }
LOW_INLINE u64 ticks() { return __builtin_readsteadycounter(); }

LOW_INLINE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

inline constexpr u32 reads_together = 4;

template <typename T>
LOW_INLINE T load_global(const T* p) {
  return *(const __attribute__((address_space(1))) T*)(p);
}
template <typename T>
LOW_INLINE void store_global(T* p, T value) {
  *(__attribute__((address_space(1))) T*)(p) = value;
}

template <typename T>
LOW_INLINE T load_lds(Lds p) {
  return *(__attribute__((address_space(3))) T*)(p);
}
template <typename T>
LOW_INLINE void store_lds(Lds p, T value) {
  *(__attribute__((address_space(3))) T*)(p) = value;
}

template <typename T>
LOW_INLINE T anew(T value) {
  asm volatile("" : "+s"(value));
  return value;
}

template <int mask, typename T>
LOW_INLINE T from_lane_xor(T value) {
  static_assert(mask < 16);
  constexpr int words = (sizeof(T) + 3) / 4;
  const int address = static_cast<int>(lane() % 64 ^ mask) * 4;
  int own[words] = {}, other[words];
  __builtin_memcpy(own, &value, sizeof(T));
#pragma unroll
  for (int i = 0; i < words; ++i) other[i] = __builtin_amdgcn_ds_bpermute(address, own[i]);
  __builtin_memcpy(&value, other, sizeof(T));
  return value;
}

template <MatrixInstruction row, typename A, typename B, typename C>
LOW_INLINE C multiply(A a, B b, C c) {
  using enum MatrixFormat;
  using Halves = _Float16 __attribute__((ext_vector_type(4)));
  using Shorts = short __attribute__((ext_vector_type(4)));
  if constexpr (row.a == fp8 && row.b == fp8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == fp8 && row.b == bf8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == bf8 && row.b == fp8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == bf8 && row.b == bf8) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == i8) {
    return __builtin_amdgcn_mfma_i32_16x16x32_i8(bits_as<i64>(a), bits_as<i64>(b), c, 0, 0, 0);
  } else if constexpr (row.a == f16) {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(bits_as<Halves>(a), bits_as<Halves>(b), c, 0, 0, 0);
  } else if constexpr (row.a == bf16) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits_as<Shorts>(a), bits_as<Shorts>(b), c, 0, 0, 0);
  } else {
    static_assert(row.a == f32);
    return __builtin_amdgcn_mfma_f32_16x16x4f32(bits_as<float>(a), bits_as<float>(b), c, 0, 0, 0);
  }
}

}  // namespace low::device

#endif
