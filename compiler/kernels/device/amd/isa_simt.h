// isa.h on the CPU: lanes are fibers of a program that checks what they do (see simt_shim.h).
#pragma once

#include "compiler/kernels/data/matrix.h"
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

// Item number `item` of a matrix operand's bits, exactly.
template <MatrixFormat format, typename Bits>
f64 matrix_item(const Bits& bits, int item) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&bits);
  const auto get = [&]<typename T>(T element) {
    __builtin_memcpy(&element, bytes + item * sizeof(T), sizeof(T));
    return static_cast<f64>(convert<f64>(element));
  };
  constexpr bool fnuz = LOW_CHIP.fp8 == Fp8::fnuz;
  if constexpr (format == MatrixFormat::fp8) {
    return fnuz ? get(f8e4m3fnuz{}) : get(f8e4m3fn{});
  } else if constexpr (format == MatrixFormat::bf8) {
    return fnuz ? get(f8e5m2fnuz{}) : get(f8e5m2{});
  } else if constexpr (format == MatrixFormat::f16) {
    return get(f16{});
  } else if constexpr (format == MatrixFormat::bf16) {
    return get(bf16{});
  } else if constexpr (format == MatrixFormat::i8) {
    return get(i8{});
  } else {
    return get(f32{});
  }
}

template <typename A, typename B, typename C>
struct MatrixOperands {
  A a;
  B b;
  C c;
};

// Sums in f64, rounded once; in which order a chip rounds is not documented.
template <MatrixInstruction row, typename A, typename B, typename C>
void multiply_wave(const void* const* in, void* const* out) {
  const auto of = [&](int lane) -> const MatrixOperands<A, B, C>& {
    return *static_cast<const MatrixOperands<A, B, C>*>(in[lane]);
  };
  f64 a[row.m][row.k], b[row.k][row.n];
  for (int lane = 0; lane < row.lanes; ++lane) {
    for (int item = 0; item < items_of(row.a_layout); ++item) {
      const Element at = element_at(row.a_layout, lane, item);
      a[at.m][at.k] = matrix_item<row.a>(of(lane).a, item);
    }
    for (int item = 0; item < items_of(row.b_layout); ++item) {
      const Element at = element_at(row.b_layout, lane, item);
      b[at.k][at.n] = matrix_item<row.b>(of(lane).b, item);
    }
  }
  for (int lane = 0; lane < row.lanes; ++lane) {
    C c = of(lane).c;
    for (int item = 0; item < items_of(row.c_layout); ++item) {
      const Element at = element_at(row.c_layout, lane, item);
      f64 sum = static_cast<f64>(c[item]);
      for (int k = 0; k < row.k; ++k) sum += a[at.m][k] * b[k][at.n];
      if constexpr (row.a == MatrixFormat::i8) {
        c[item] = static_cast<i32>(static_cast<i64>(sum));  // wraps around
      } else {
        c[item] = static_cast<f32>(sum);
      }
    }
    *static_cast<C*>(out[lane]) = c;
  }
}
template <MatrixInstruction row, typename A, typename B, typename C>
LOW_INLINE C multiply(A a, B b, C c, u32 site = __builtin_LINE()) {
  const MatrixOperands<A, B, C> in{a, b, c};
  C result;
  low_simt_shim->meet(&in, &result, multiply_wave<row, A, B, C>, site);
  return result;
}

}  // namespace low::device

#endif
