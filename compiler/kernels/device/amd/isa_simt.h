// isa.h on the CPU: lanes are fibers of a program that checks what they do (see simt_shim.h).
#pragma once

#include "compiler/kernels/data/matrix.h"
#include "compiler/kernels/device/amd/simt_shim.h"
#include "compiler/kernels/device/command.h"

#if defined(LOW_ISA_SIMT)

// Set by the program that loads the kernels.
extern "C" __attribute__((visibility("default"))) const low::simt::Shim* low_simt_shim = nullptr;

// clang calls them, and nothing else is linked.
extern "C" void* memcpy(void* to, const void* from, decltype(sizeof(0)) bytes) {
  void* const result = to;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return result;
}
extern "C" void* memset(void* to, int value, decltype(sizeof(0)) bytes) {
  void* const result = to;
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
  return result;
}

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

inline constexpr u32 reads_together = 2;  // the fewest: each is compiled once more

template <typename T>
LOW_INLINE T load_global(const T* p, u32 site = __builtin_LINE()) {
  return *static_cast<const T*>(low_simt_shim->global(p, sizeof(T), simt::Access::read, site));
}
template <typename T>
LOW_INLINE void store_global(T* p, T value, u32 site = __builtin_LINE()) {
  *static_cast<T*>(low_simt_shim->global(p, sizeof(T), simt::Access::write, site)) = value;
}

template <typename T>
LOW_INLINE T load_lds(Lds p, u32 site = __builtin_LINE()) {
  return *static_cast<const T*>(low_simt_shim->lds(p.offset, sizeof(T), simt::Access::read, site));
}
template <typename T>
LOW_INLINE void store_lds(Lds p, T value, u32 site = __builtin_LINE()) {
  *static_cast<T*>(low_simt_shim->lds(p.offset, sizeof(T), simt::Access::write, site)) = value;
}

template <typename T>
LOW_INLINE T anew(T value) {
  return value;
}

template <int mask, typename T>
void swap_lanes(const void* const* in, void* const* out) {
  for (int lane = 0; lane < LOW_CHIP.wave_lanes; ++lane) __builtin_memcpy(out[lane], in[lane ^ mask], sizeof(T));
}
template <int mask, typename T>
LOW_INLINE T from_lane_xor(T value, u32 site = __builtin_LINE()) {
  static_assert(mask < 16);
  T other;
  low_simt_shim->meet(&value, &other, swap_lanes<mask, T>, site);
  return other;
}

template <MatrixInstruction row>
inline constexpr MatrixInstruction instruction_of = row;
template <MatrixInstruction row, typename A, typename B, typename C>
LOW_INLINE C multiply(A a, B b, C c, u32 site = __builtin_LINE()) {
  C result;
  low_simt_shim->multiply({&a, &b, &c}, &result, instruction_of<row>, site);
  return result;
}

}  // namespace low::device

#endif
