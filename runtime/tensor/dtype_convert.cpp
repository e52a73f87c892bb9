#include "runtime/tensor/dtype_convert.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/tensor/clamp.h"
#include "runtime/tensor/float_format.h"

namespace low {
namespace {

constexpr std::array<float, 256> decode_table(const FloatFormat& format) {
  std::array<float, 256> table{};
  for (size_t code = 0; code < table.size(); ++code) table[code] = static_cast<float>(decode_float(format, code));
  return table;
}

constexpr std::array<float, 256> f8e4m3fn_values = decode_table(format_f8e4m3fn);
constexpr std::array<float, 256> f8e5m2_values = decode_table(format_f8e5m2);
constexpr std::array<float, 256> f8e4m3fnuz_values = decode_table(format_f8e4m3fnuz);
constexpr std::array<float, 256> f8e5m2fnuz_values = decode_table(format_f8e5m2fnuz);

// Calls to_f32(T) for each T in bytes.
template <typename T, typename ToF32>
void decode_each(std::span<const std::byte> bytes, std::span<float> values, ToF32 to_f32) {
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = to_f32(element);
  }
}

template <typename T>
void decode_numbers(std::span<const std::byte> bytes, std::span<float> values) {
  decode_each<T>(bytes, values, [](T element) { return static_cast<float>(element); });
}

void decode_by_table(const std::array<float, 256>& table, std::span<const std::byte> bytes, std::span<float> values) {
  decode_each<uint8_t>(bytes, values, [&table](uint8_t code) { return table[code]; });
}

template <typename T, typename FromF32>
void encode_each(std::span<const float> values, std::span<std::byte> bytes, FromF32 from_f32) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T element = from_f32(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
}

template <typename T>
void encode_integers(std::span<const float> values, std::span<std::byte> bytes) {
  encode_each<T>(values, bytes, [](float value) { return truncate_and_clamp<T>(static_cast<double>(value)); });
}

template <const FloatFormat& format, typename T>
void encode_floats(std::span<const float> values, std::span<std::byte> bytes, Overflow overflow) {
  encode_each<T>(values, bytes, [overflow](float value) {
    return static_cast<T>(encode_float(format, static_cast<double>(value), overflow));
  });
}

// The upper half of an f32, rounded to nearest even; a carry out of the mantissa goes into the exponent, up to
// infinity.
uint16_t bf16_of_f32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>(format_bf16.nan((bits >> 31) != 0));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace

void decode_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> values) {
  LOW_CHECK(bytes.size() == values.size() * byte_size(type));
  switch (type) {
    case DType::f64:
      return decode_numbers<double>(bytes, values);
    case DType::f32:
      return decode_numbers<float>(bytes, values);
    case DType::f16:
      return decode_each<uint16_t>(bytes, values,
                                   [](uint16_t bits) { return static_cast<float>(decode_float(format_f16, bits)); });
    case DType::bf16:
      return decode_each<uint16_t>(
          bytes, values, [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); });
    case DType::f8e4m3fn:
      return decode_by_table(f8e4m3fn_values, bytes, values);
    case DType::f8e5m2:
      return decode_by_table(f8e5m2_values, bytes, values);
    case DType::f8e4m3fnuz:
      return decode_by_table(f8e4m3fnuz_values, bytes, values);
    case DType::f8e5m2fnuz:
      return decode_by_table(f8e5m2fnuz_values, bytes, values);
    case DType::i8:
      return decode_numbers<int8_t>(bytes, values);
    case DType::i16:
      return decode_numbers<int16_t>(bytes, values);
    case DType::i32:
      return decode_numbers<int32_t>(bytes, values);
    case DType::i64:
      return decode_numbers<int64_t>(bytes, values);
    case DType::u8:
      return decode_numbers<uint8_t>(bytes, values);
    case DType::u16:
      return decode_numbers<uint16_t>(bytes, values);
    case DType::u32:
      return decode_numbers<uint32_t>(bytes, values);
    case DType::u64:
      return decode_numbers<uint64_t>(bytes, values);
    case DType::boolean:
      return decode_numbers<uint8_t>(bytes, values);
  }
}

void encode_from_f32(DType type, std::span<const float> values, std::span<std::byte> bytes, Overflow overflow) {
  LOW_CHECK(bytes.size() == values.size() * byte_size(type));
  switch (type) {
    case DType::f64:
      return encode_each<double>(values, bytes, [](float value) { return static_cast<double>(value); });
    case DType::f32:
      return encode_each<float>(values, bytes, [](float value) { return value; });
    case DType::f16:
      return encode_floats<format_f16, uint16_t>(values, bytes, overflow);
    case DType::bf16:
      return encode_each<uint16_t>(values, bytes, bf16_of_f32);
    case DType::f8e4m3fn:
      return encode_floats<format_f8e4m3fn, uint8_t>(values, bytes, overflow);
    case DType::f8e5m2:
      return encode_floats<format_f8e5m2, uint8_t>(values, bytes, overflow);
    case DType::f8e4m3fnuz:
      return encode_floats<format_f8e4m3fnuz, uint8_t>(values, bytes, overflow);
    case DType::f8e5m2fnuz:
      return encode_floats<format_f8e5m2fnuz, uint8_t>(values, bytes, overflow);
    case DType::i8:
      return encode_integers<int8_t>(values, bytes);
    case DType::i16:
      return encode_integers<int16_t>(values, bytes);
    case DType::i32:
      return encode_integers<int32_t>(values, bytes);
    case DType::i64:
      return encode_integers<int64_t>(values, bytes);
    case DType::u8:
      return encode_integers<uint8_t>(values, bytes);
    case DType::u16:
      return encode_integers<uint16_t>(values, bytes);
    case DType::u32:
      return encode_integers<uint32_t>(values, bytes);
    case DType::u64:
      return encode_integers<uint64_t>(values, bytes);
    case DType::boolean:
      return encode_each<uint8_t>(values, bytes, [](float value) -> uint8_t { return value != 0 ? 1 : 0; });
  }
}

}  // namespace low
