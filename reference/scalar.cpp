#include "reference/scalar.h"

#include <bit>
#include <cmath>

namespace low::reference {
namespace {

// An integer's magnitude as a double. Bits beyond the 53 of a double are gathered in the last of them (rounding to
// odd), so that rounding the result once more, to at most 51 bits, gives what rounding the integer at once would.
double magnitude_to_odd(uint64_t magnitude) {
  const int excess = static_cast<int>(std::bit_width(magnitude)) - 53;
  if (excess <= 0) return static_cast<double>(magnitude);
  const uint64_t kept = magnitude >> excess;
  const bool inexact = (kept << excess) != magnitude;
  return std::ldexp(static_cast<double>(kept | (inexact ? 1 : 0)), excess);
}

double integer_to_real(DType from, DType to, uint64_t integer) {
  const bool negative = is_signed_integer(from) && static_cast<int64_t>(integer) < 0;
  const uint64_t magnitude = negative ? 0 - integer : integer;
  const double value = to == DType::f64 ? static_cast<double>(magnitude) : magnitude_to_odd(magnitude);
  return negative ? -value : value;
}

}  // namespace

uint64_t wrap(DType type, uint64_t value) {
  switch (type) {
    case DType::i8:
      return static_cast<uint64_t>(static_cast<int8_t>(value));
    case DType::i16:
      return static_cast<uint64_t>(static_cast<int16_t>(value));
    case DType::i32:
      return static_cast<uint64_t>(static_cast<int32_t>(value));
    case DType::u8:
      return static_cast<uint8_t>(value);
    case DType::u16:
      return static_cast<uint16_t>(value);
    case DType::u32:
      return static_cast<uint32_t>(value);
    case DType::boolean:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

double round_to(DType type, double value) {
  if (type == DType::f64) return value;
  if (type == DType::f32) return static_cast<double>(static_cast<float>(value));
  return decode(type, encode(type, value, Overflow::propagate));
}

Scalar decode_scalar(DType type, uint64_t bits) {
  if (type == DType::f32) return {.real = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))};
  if (is_float(type)) return {.real = decode(type, bits)};
  return {.integer = wrap(type, bits)};
}

uint64_t encode_scalar(DType type, const Scalar& scalar) {
  if (type == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(scalar.real));
  if (is_float(type)) return encode(type, scalar.real, Overflow::propagate);
  return scalar.integer;
}

Scalar load(const Tensor& tensor, int64_t index) { return decode_scalar(tensor.dtype(), tensor.bits(index)); }

void store(Tensor& tensor, int64_t index, const Scalar& scalar) {
  tensor.set_bits(index, encode_scalar(tensor.dtype(), scalar));
}

Scalar convert(const Scalar& scalar, DType from, DType to, Overflow overflow) {
  if (from == to && !is_float(to)) return scalar;
  if (to == DType::boolean) return {.integer = (is_float(from) ? scalar.real != 0 : scalar.integer != 0) ? 1U : 0U};
  if (is_float(to)) {
    const double value = is_float(from) ? scalar.real : integer_to_real(from, to, scalar.integer);
    return {.real = is_fp8(to) ? decode(to, encode(to, value, overflow)) : round_to(to, value)};
  }
  return {.integer = is_float(from) ? truncate_and_saturate(to, scalar.real) : wrap(to, scalar.integer)};
}

uint64_t truncate_and_saturate(DType type, double value) {
  if (std::isnan(value)) return 0;
  const int width = static_cast<int>(byte_size(type)) * 8;
  const bool is_signed = is_signed_integer(type);
  // The first value above the range, a power of two; the first below it is -above - 1, or -1.
  const double above = std::ldexp(1.0, is_signed ? width - 1 : width);
  const double whole = std::trunc(value);
  if (is_signed) {
    if (whole >= above) return (uint64_t{1} << (width - 1)) - 1;
    if (whole <= -above) return wrap(type, uint64_t{1} << (width - 1));
    return static_cast<uint64_t>(static_cast<int64_t>(whole));
  }
  if (whole >= above) return wrap(type, ~uint64_t{0});
  return whole <= 0 ? 0 : static_cast<uint64_t>(whole);
}

}  // namespace low::reference
