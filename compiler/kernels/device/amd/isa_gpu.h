// What isa.h says, but for the matrix instructions, is the same on all GPUs.
#pragma once

#include "compiler/kernels/data/matrix.h"
#include "compiler/kernels/device/command.h"

#if !defined(LOW_ISA_SIMT)

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
  static_assert(sizeof(T) % 4 == 0);
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
  for (int& word : words)
    word = __builtin_amdgcn_readfirstlane(word);  // clang does not always see that all lanes have the same
  __builtin_memcpy(&value, words, sizeof(T));
  asm volatile("" : "+s"(value));
  return value;
}

template <int mask, typename T>
LOW_INLINE T from_lane_xor(T value) {
  static_assert(mask < 16);
  constexpr int words = (sizeof(T) + 3) / 4;
  const int address = static_cast<int>(lane() % LOW_CHIP.wave_lanes ^ mask) * 4;
  int own[words] = {}, other[words];
  __builtin_memcpy(own, &value, sizeof(T));
#pragma unroll
  for (int i = 0; i < words; ++i) other[i] = __builtin_amdgcn_ds_bpermute(address, own[i]);
  __builtin_memcpy(&value, other, sizeof(T));
  return value;
}

}  // namespace low::device

#endif
