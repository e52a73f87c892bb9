// isa.h on the CPU: lanes are fibers of a program that checks what they do (see simt_shim.h).
#pragma once

#include "compiler/kernels/device/amd/simt_shim.h"
#include "compiler/kernels/device/command.h"

#if defined(LOW_ISA_SIMT)

// Set by the program that loads the kernels.
extern "C" __attribute__((visibility("default"))) const low::simt::Shim* low_simt_shim = nullptr;

#define LOW_ENTRY(name) extern "C" __attribute__((visibility("default"))) void name(const low::abi::Launch& launch)
#define LOW_KERNEL LOW_NOINLINE
#define LOW_LDS(name, bytes) const low::device::Lds name = (low_simt_shim->lds_size(bytes), low::device::Lds{})

namespace low::device {

// A place in the workgroup's LDS.
struct Lds {
  u32 offset = 0;
  Lds operator+(u32 bytes) const { return {offset + bytes}; }
};

LOW_INLINE u32 workgroup() { return low_simt_shim->workgroup(); }
LOW_INLINE u32 lane() { return low_simt_shim->lane(); }
LOW_INLINE u64 ticks() { return low_simt_shim->ticks(); }
LOW_INLINE void barrier(u32 site = __builtin_LINE()) { low_simt_shim->barrier(site); }

template <typename T>
LOW_INLINE T load_global(const T* p, u32 site = __builtin_LINE()) {
  return *static_cast<const T*>(low_simt_shim->global(p, sizeof(T), simt::Access::read, site));
}
template <typename T>
LOW_INLINE void store_global(T* p, T value, u32 site = __builtin_LINE()) {
  *static_cast<T*>(low_simt_shim->global(p, sizeof(T), simt::Access::write, site)) = value;
}

}  // namespace low::device

#endif
