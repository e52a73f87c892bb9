// isa.h for gfx90a, gfx942 and gfx950: waves of 64 lanes.
#pragma once

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

template <typename T>
LOW_INLINE T load_global(const T* p) {
  return *(const __attribute__((address_space(1))) T*)(p);
}
template <typename T>
LOW_INLINE void store_global(T* p, T value) {
  *(__attribute__((address_space(1))) T*)(p) = value;
}

}  // namespace low::device

#endif
