// The float formats of at most 16 bits as parameters, and the one algorithm that decodes and encodes them all.
// Constexpr, so that callers with a fixed format get straight-line code and tables. For the rest of the project dtype.h
// is the interface.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/tensor/dtype.h"

namespace low {

// How the largest exponent and the negative zero are used.
enum class SpecialValues : uint8_t {
  ieee,  // the top exponent is infinity (mantissa 0) and NaN
  fn,    // all ones is NaN, the rest of the top exponent is finite; no infinity
  fnuz,  // the code of negative zero is the only NaN; no infinity, no negative zero
};

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  SpecialValues special;

  constexpr int min_exponent() const { return 1 - bias; }  // of normal numbers
  constexpr uint64_t sign_mask() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  constexpr uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }  // ieee only
  // Without sign: codes order finite magnitudes.
  constexpr uint64_t max_code() const {
    if (special == SpecialValues::ieee) return infinity() - 1;
    return special == SpecialValues::fn ? sign_mask() - 2 : sign_mask() - 1;
  }
  // A quiet NaN. f16 and bf16 set the top mantissa bit only; in the FP8 formats all bits are set (FNUZ has only one
  // NaN).
  constexpr uint64_t nan(bool negative) const {
    if (special == SpecialValues::fnuz) return sign_mask();
    const uint64_t magnitude = mantissa_bits <= 3 ? sign_mask() - 1 : infinity() | (uint64_t{1} << (mantissa_bits - 1));
    return magnitude | (negative ? sign_mask() : 0);
  }
};

inline constexpr FloatFormat format_f16{5, 10, 15, SpecialValues::ieee};
inline constexpr FloatFormat format_bf16{8, 7, 127, SpecialValues::ieee};
inline constexpr FloatFormat format_f8e4m3fn{4, 3, 7, SpecialValues::fn};
inline constexpr FloatFormat format_f8e5m2{5, 2, 15, SpecialValues::ieee};
inline constexpr FloatFormat format_f8e4m3fnuz{4, 3, 8, SpecialValues::fnuz};
inline constexpr FloatFormat format_f8e5m2fnuz{5, 2, 16, SpecialValues::fnuz};

namespace double_bits {
inline constexpr int mantissa = 52;
inline constexpr int bias = 1023;
inline constexpr uint64_t sign = uint64_t{1} << 63;
inline constexpr uint64_t infinity = uint64_t{0x7ff} << mantissa;
inline constexpr uint64_t nan = infinity | (uint64_t{1} << (mantissa - 1));
}  // namespace double_bits

// `bits` must not have bits above the format's.
constexpr double decode_float(const FloatFormat& format, uint64_t bits) {
  const bool negative = (bits & format.sign_mask()) != 0;
  const uint64_t sign = negative ? double_bits::sign : 0;
  const uint64_t code = bits & (format.sign_mask() - 1);
  if (format.special == SpecialValues::fnuz && negative && code == 0) return std::bit_cast<double>(double_bits::nan);
  if (code > format.max_code()) {
    const bool infinite = format.special == SpecialValues::ieee && code == format.infinity();
    return std::bit_cast<double>(sign | (infinite ? double_bits::infinity : double_bits::nan));
  }
  const uint64_t exponent = code >> format.mantissa_bits;
  const uint64_t mantissa = code & ((uint64_t{1} << format.mantissa_bits) - 1);
  if (exponent != 0) {
    const uint64_t double_exponent = exponent + static_cast<uint64_t>(double_bits::bias - format.bias);
    return std::bit_cast<double>(sign | (double_exponent << double_bits::mantissa) |
                                 (mantissa << (double_bits::mantissa - format.mantissa_bits)));
  }
  const auto unit_exponent = static_cast<uint64_t>(format.min_exponent() - format.mantissa_bits + double_bits::bias);
  const double magnitude =
      static_cast<double>(mantissa) * std::bit_cast<double>(unit_exponent << double_bits::mantissa);
  return negative ? -magnitude : magnitude;
}

// Rounds once, from the 53-bit significand, to nearest, ties to even.
constexpr uint64_t encode_float(const FloatFormat& format, double value, Overflow overflow) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = (bits & double_bits::sign) != 0;
  const uint64_t magnitude = bits & ~double_bits::sign;
  const uint64_t sign = negative ? format.sign_mask() : 0;
  const bool eight_bits = format.exponent_bits + format.mantissa_bits == 7;
  if (magnitude > double_bits::infinity) return format.nan(negative);
  const bool infinite = magnitude == double_bits::infinity;

  uint64_t code = format.max_code() + 1;
  if (!infinite) {
    const int biased = static_cast<int>(magnitude >> double_bits::mantissa);
    uint64_t significand = magnitude & ((uint64_t{1} << double_bits::mantissa) - 1);
    if (biased != 0) significand |= uint64_t{1} << double_bits::mantissa;
    // Doubles below 2^-1022 are below half of every format's smallest number: the exponent need not be right for them.
    const int exponent = biased - double_bits::bias;
    const int result_exponent = exponent > format.min_exponent() ? exponent : format.min_exponent();
    // value = significand * 2^(exponent - 52); a unit of the result is 2^(result_exponent - mantissa_bits).
    const int shift = result_exponent - exponent + double_bits::mantissa - format.mantissa_bits;
    uint64_t rounded = 0;
    if (shift <= double_bits::mantissa + 1) {  // else below half a unit, as significand < 2^53
      rounded = significand >> shift;
      const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
      const uint64_t half = uint64_t{1} << (shift - 1);
      if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
    }
    // The leading one of a normal number adds 1 to the exponent field, and so does a carry out of the mantissa.
    code = (static_cast<uint64_t>(result_exponent - format.min_exponent()) << format.mantissa_bits) + rounded;
  }
  if (code > format.max_code()) {
    const bool saturates =
        eight_bits && overflow == Overflow::saturate && !(infinite && format.special == SpecialValues::fnuz);
    if (saturates) return sign | format.max_code();
    return format.special == SpecialValues::ieee ? sign | format.infinity() : format.nan(negative);
  }
  if (code == 0 && format.special == SpecialValues::fnuz) return 0;
  return sign | code;
}

}  // namespace low
