// What x86-64 hosts give the kernels: vectors, a clock, and the routines that clang may call by itself.
#pragma once

#include "compiler/kernels/data/tiling.h"
#include "compiler/kernels/device/numeric.h"

namespace low::device {

#if defined(LOW_TARGET_HOST_X86_64_V4_BF16)
#define LOW_TARGET_HOST_X86_64_V4  // and more
#endif
#if defined(LOW_TARGET_HOST_X86_64_V4)
inline constexpr Tiling tiling = tiling_x86_64_v4;
inline constexpr int lanes = 16;
#elif defined(LOW_TARGET_HOST_X86_64_V3)
inline constexpr Tiling tiling = tiling_x86_64_v3;
inline constexpr int lanes = 8;
#else
#error "define LOW_TARGET_HOST_X86_64_V3 or LOW_TARGET_HOST_X86_64_V4"
#endif

using Vector = f32 __attribute__((ext_vector_type(lanes)));

// At any address. (A pointer to a vector type of smaller alignment does not do: clang drops that in places.)
template <typename V>
LOW_INLINE V load_unaligned(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
LOW_INLINE Vector load_vector(const f32* p) { return load_unaligned<Vector>(p); }
LOW_INLINE void store_vector(f32* p, Vector v) { __builtin_memcpy(p, &v, sizeof v); }
LOW_INLINE Vector splat(f32 x) { return x; }  // to all lanes
LOW_INLINE Vector multiply_add(Vector a, Vector b, Vector c) { return __builtin_elementwise_fma(a, b, c); }

// Of pairs of i16: the sum of both products as an i32, which wraps around.
LOW_INLINE Vector multiply_shorts(Vector a, Vector b) {
  using Shorts = short __attribute__((vector_size(sizeof(Vector))));
#if defined(LOW_TARGET_HOST_X86_64_V4)
  return bits_as<Vector>(__builtin_ia32_pmaddwd512(bits_as<Shorts>(a), bits_as<Shorts>(b)));
#else
  return bits_as<Vector>(__builtin_ia32_pmaddwd256(bits_as<Shorts>(a), bits_as<Shorts>(b)));
#endif
}

#if defined(LOW_TARGET_HOST_X86_64_V4_BF16)
// Of pairs of bf16: total + upper halves' product + lower halves' product, each sum rounded to nearest even.
LOW_INLINE Vector dot_add(Vector a, Vector b, Vector total) {
  using Pairs = __bf16 __attribute__((vector_size(64)));
  return __builtin_ia32_dpbf16ps_512(total, bits_as<Pairs>(a), bits_as<Pairs>(b));
}
// Of integers: total + the four products of unsigned bytes of u and signed ones of s; it wraps around.
LOW_INLINE Vector dot_add_bytes(Vector u, Vector s, Vector total) {
  using Words = int __attribute__((vector_size(64)));
  return bits_as<Vector>(__builtin_ia32_vpdpbusd512(bits_as<Words>(total), bits_as<Words>(u), bits_as<Words>(s)));
}
// Byte i of the result is byte index[i] modulo 128 of a and, from 64 on, b.
template <typename Bytes>
LOW_INLINE Bytes pick_bytes(Bytes a, Bytes b, Bytes index) {
  using Chars = char __attribute__((vector_size(64)));
  return bits_as<Bytes>(__builtin_ia32_vpermi2varqi512(bits_as<Chars>(a), bits_as<Chars>(index), bits_as<Chars>(b)));
}
#endif

// x * 2^n, rounded once, for an integer n of -252 to 254 and `shifted` = 1.5 * 2^23 + n; NaN if x and n are.
LOW_INLINE Vector scale_by_power(Vector x, Vector n, Vector shifted) {
#if defined(LOW_TARGET_HOST_X86_64_V4)
  return __builtin_ia32_scalefps512_mask(x, n, x, static_cast<unsigned short>(0xffff), 4);
#else
  // As two factors that are normal numbers.
  using Bits = i32 __attribute__((ext_vector_type(lanes)));
  const Bits exponent = bits_as<Bits>(shifted) - bits_as<i32>(0x1.8p+23f);
  const Bits half = exponent >> 1;
  return x * bits_as<Vector>((half + 127) << 23) * bits_as<Vector>((exponent - half + 127) << 23);
#endif
}

// Columns that one call of a strip handles: two vectors of f32.
inline constexpr int strip = 2 * lanes;
static_assert(strip == tiling.panel_n);

LOW_INLINE u64 ticks() { return __builtin_ia32_rdtsc(); }

LOW_INLINE void copy_bytes(void* to, const void* from, size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

}  // namespace low::device

// Large moves and fills become calls of these. Hidden, so that the code object needs nothing from the process that
// loads it; weak, as several objects may be linked to one.
extern "C" {
__attribute__((visibility("hidden"), weak)) void* memcpy(void* to, const void* from, size_t bytes) {
  low::device::copy_bytes(to, from, bytes);
  return to;
}
__attribute__((visibility("hidden"), weak)) void* memmove(void* to, const void* from, size_t bytes) {
  auto* t = static_cast<volatile unsigned char*>(to);
  const auto* f = static_cast<const volatile unsigned char*>(from);
  if (t <= f) {
    for (size_t i = 0; i < bytes; ++i) t[i] = f[i];
  } else {
    for (size_t i = bytes; i > 0; --i) t[i - 1] = f[i - 1];
  }
  return to;
}
__attribute__((visibility("hidden"), weak)) void* memset(void* to, int value, size_t bytes) {
  void* p = to;
  asm volatile("rep stosb" : "+D"(p), "+c"(bytes) : "a"(value) : "memory");
  return to;
}
}
