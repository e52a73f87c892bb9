// Narrow float formats and conversions, without branches, so that loops over them become vector code. The semantics are
// those of the compiler's expressions: round to nearest even, one rounding in each conversion, clamping float ->
// integer, wrapping integers.
#pragma once

#include "compiler/kernels/device/base.h"

namespace low::device {

enum class Overflow { saturate, propagate };

enum class Special {
  ieee,  // the top exponent is infinity and NaN
  fn,    // all ones is NaN; no infinity
  fnuz,  // the code of negative zero is the only NaN; no infinity
};

template <int exponent, int mantissa, int exponent_bias, Special special_values>
struct NarrowFormat {
  static constexpr bool narrow = true;
  static constexpr int exponent_bits = exponent, mantissa_bits = mantissa, bias = exponent_bias;
  static constexpr Special special = special_values;
  static constexpr u32 sign = 1u << (exponent + mantissa);
  static constexpr u32 infinity = ((1u << exponent) - 1) << mantissa;  // ieee only
  static constexpr u32 max = special == Special::ieee ? infinity - 1 : special == Special::fn ? sign - 2 : sign - 1;
  // Without sign; f16 and bf16 set the top mantissa bit only.
  static constexpr u32 nan = special == Special::fnuz ? sign
                             : mantissa <= 3          ? sign - 1
                                                      : infinity | (1u << (mantissa - 1));
};

template <typename T>
struct Format {
  static constexpr bool narrow = false;
};
template <>
struct Format<f16> : NarrowFormat<5, 10, 15, Special::ieee> {};
template <>
struct Format<bf16> : NarrowFormat<8, 7, 127, Special::ieee> {};
template <>
struct Format<f8e4m3fn> : NarrowFormat<4, 3, 7, Special::fn> {};
template <>
struct Format<f8e5m2> : NarrowFormat<5, 2, 15, Special::ieee> {};
template <>
struct Format<f8e4m3fnuz> : NarrowFormat<4, 3, 8, Special::fnuz> {};
template <>
struct Format<f8e5m2fnuz> : NarrowFormat<5, 2, 16, Special::fnuz> {};

template <typename T>
inline constexpr bool is_narrow = Format<T>::narrow;
template <typename T>
inline constexpr bool is_native_float = is_same<T, f32> || is_same<T, f64>;
template <typename T>
inline constexpr bool is_float = is_narrow<T> || is_native_float<T>;
template <typename T>
inline constexpr bool is_signed = T(-1) < T(0);

// The parts of f32 and f64 as bits.
template <typename T>
struct Native;
template <>
struct Native<f32> {
  using Bits = u32;
  static constexpr int mantissa_bits = 23, bias = 127;
};
template <>
struct Native<f64> {
  using Bits = u64;
  static constexpr int mantissa_bits = 52, bias = 1023;
};

// The value, exactly.
template <typename T>
LOW_INLINE constexpr f32 decode(T x) {
  using F = Format<T>;
  if constexpr (is_same<T, bf16>) {
    return bits_as<f32>(static_cast<u32>(x.bits) << 16);
  } else if constexpr (is_same<T, f16>) {
    return static_cast<f32>(bits_as<_Float16>(x.bits));
  } else {
    const u32 code = x.bits & (F::sign - 1);
    const u32 sign = (x.bits & F::sign) << (31 - F::exponent_bits - F::mantissa_bits);
    const u32 normal = (code << (23 - F::mantissa_bits)) + (static_cast<u32>(127 - F::bias) << 23);
    // With the exponent of the smallest normal number and a leading one, which is taken away again.
    const f32 subnormal = bits_as<f32>(normal + (1u << 23)) - bits_as<f32>(static_cast<u32>(128 - F::bias) << 23);
    u32 magnitude = code < (1u << F::mantissa_bits) ? bits_as<u32>(subnormal) : normal;
    if constexpr (F::special == Special::ieee) {
      magnitude = code >= F::infinity ? (code << (23 - F::mantissa_bits)) | 0x7f800000u : magnitude;
    } else if constexpr (F::special == Special::fn) {
      magnitude = code == F::sign - 1 ? 0x7fc00000u : magnitude;
    } else {
      magnitude = x.bits == F::sign ? 0x7fc00000u : magnitude;
    }
    return bits_as<f32>(magnitude | sign);
  }
}

// To nearest, ties to even, from f32 or f64. Only FP8 formats saturate.
template <typename T, Overflow overflow, typename From>
LOW_INLINE T encode(From x) {
  using F = Format<T>;
  using N = Native<From>;
  using Bits = typename N::Bits;
  if constexpr (is_same<T, f16> && is_same<From, f32>) {
    return T{bits_as<u16>(static_cast<_Float16>(x))};
  } else {
    constexpr int shift = N::mantissa_bits - F::mantissa_bits;
    constexpr Bits one = 1;
    constexpr Bits native_sign = one << (sizeof(Bits) * 8 - 1);
    constexpr Bits native_infinity = static_cast<Bits>(2 * N::bias + 1) << N::mantissa_bits;
    const Bits magnitude = bits_as<Bits>(x) & (native_sign - 1);
    const u32 sign = static_cast<u32>(bits_as<Bits>(x) >> (sizeof(Bits) * 8 - 1)) * F::sign;
    // Normal results: half a unit less a bit, plus the last kept bit, carries exactly when the rest rounds up.
    const Bits rounded = (magnitude + (one << (shift - 1)) - 1 + ((magnitude >> shift) & 1)) >> shift;
    Bits code = rounded - (static_cast<Bits>(N::bias - F::bias) << F::mantissa_bits);
    if constexpr (N::bias != F::bias) {
      // Subnormal results: an addition whose unit in the last place is the format's smallest number rounds for us.
      constexpr Bits magic = static_cast<Bits>(N::bias + 1 - F::bias - F::mantissa_bits + N::mantissa_bits)
                             << N::mantissa_bits;
      const Bits subnormal = bits_as<Bits>(bits_as<From>(magnitude) + bits_as<From>(magic)) - magic;
      code = magnitude < (static_cast<Bits>(N::bias + 1 - F::bias) << N::mantissa_bits) ? subnormal : code;
    }
    constexpr bool saturates = overflow == Overflow::saturate && sizeof(T) == 1;
    constexpr Bits limit = saturates ? F::max : F::special == Special::ieee ? F::infinity : F::nan;
    constexpr Bits nan_from = saturates && F::special == Special::fnuz ? native_infinity : native_infinity + 1;
    code = code > F::max ? limit : code;
    code = magnitude >= nan_from ? Bits{F::nan} : code;
    u32 result = static_cast<u32>(code);
    if constexpr (F::special == Special::fnuz) {
      result = result == 0 || result == F::nan ? result : result | sign;
    } else {
      result |= sign;
    }
    return T{static_cast<decltype(T::bits)>(result)};
  }
}

// An integer as a double that rounds to any narrow format as the integer itself would: where bits are lost, the last
// one is set.
template <typename T>
LOW_INLINE f64 to_f64_odd(T x) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<f64>(x);
  } else {
    const bool negative = is_signed<T> && x < 0;
    const u64 magnitude = negative ? 0 - static_cast<u64>(x) : static_cast<u64>(x);
    const u64 kept = (magnitude >> 11) | ((magnitude & 0x7ff) != 0 ? 1u : 0u);
    const f64 large = static_cast<f64>(static_cast<i64>(kept)) * 2048.0;
    const f64 small = static_cast<f64>(static_cast<i64>(magnitude & ((u64{1} << 53) - 1)));
    const f64 value = magnitude >> 53 != 0 ? large : small;
    return negative ? -value : value;
  }
}

// Toward zero, clamped to T's range; NaN gives 0.
template <typename T, typename From>
LOW_INLINE T truncate(From x) {
  constexpr int bits = static_cast<int>(sizeof(T)) * 8;
  constexpr T maximum = is_signed<T> ? static_cast<T>((u64{1} << (bits - 1)) - 1) : static_cast<T>(~u64{0});
  // One above the maximum: exact, as the maximum itself is not for wide integers.
  constexpr From limit = static_cast<From>(u64{1} << (bits - 2)) * static_cast<From>(is_signed<T> ? 2 : 4);
  if constexpr (is_signed<T>) {
    return x != x ? T{0} : x >= limit ? maximum : x < -limit ? static_cast<T>(-maximum - 1) : static_cast<T>(x);
  } else {
    return !(x > 0) ? T{0} : x >= limit ? maximum : static_cast<T>(x);
  }
}

template <typename To, Overflow overflow = Overflow::propagate, typename From>
LOW_INLINE To convert(From x) {
  if constexpr (is_same<To, From>) {
    return x;
  } else if constexpr (is_narrow<From>) {
    return convert<To, overflow>(decode(x));
  } else if constexpr (is_same<From, bool>) {
    return convert<To, overflow>(static_cast<i32>(x));
  } else if constexpr (is_same<To, bool>) {
    return x != 0;  // true for NaN
  } else if constexpr (is_narrow<To>) {
    if constexpr (is_native_float<From>) {
      return encode<To, overflow>(x);
    } else if constexpr (sizeof(From) <= 2) {
      return encode<To, overflow>(static_cast<f32>(x));
    } else {
      return encode<To, overflow>(to_f64_odd(x));
    }
  } else if constexpr (is_native_float<From> && !is_native_float<To>) {
    return truncate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// What an element in memory is in a register, and back.
template <typename T>
LOW_INLINE T load(const T* p) {
  return *p;
}
LOW_INLINE bool load(const boolean* p) { return p->bits != 0; }
template <typename T>
LOW_INLINE void store(T* p, T value) {
  *p = value;
}
LOW_INLINE void store(boolean* p, bool value) { p->bits = value ? 1 : 0; }

}  // namespace low::device
