#include "runtime/tensor/dtype.h"

#include <array>
#include <bit>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/tensor/float_format.h"

namespace low {
namespace {

enum class Kind : uint8_t { floating, signed_integer, unsigned_integer, boolean };

struct TypeInfo {
  std::string_view name;
  size_t bytes;
  Kind kind;
};

// In the order of DType.
constexpr std::array<TypeInfo, dtype_count> types{{
    {"f64", 8, Kind::floating},
    {"f32", 4, Kind::floating},
    {"f16", 2, Kind::floating},
    {"bf16", 2, Kind::floating},
    {"f8e4m3fn", 1, Kind::floating},
    {"f8e5m2", 1, Kind::floating},
    {"f8e4m3fnuz", 1, Kind::floating},
    {"f8e5m2fnuz", 1, Kind::floating},
    {"i8", 1, Kind::signed_integer},
    {"i16", 2, Kind::signed_integer},
    {"i32", 4, Kind::signed_integer},
    {"i64", 8, Kind::signed_integer},
    {"u8", 1, Kind::unsigned_integer},
    {"u16", 2, Kind::unsigned_integer},
    {"u32", 4, Kind::unsigned_integer},
    {"u64", 8, Kind::unsigned_integer},
    {"bool", 1, Kind::boolean},
}};
static_assert(static_cast<int>(DType::boolean) + 1 == dtype_count);

const TypeInfo& info(DType type) {
  const auto index = static_cast<size_t>(type);
  LOW_CHECK(index < types.size());
  return types[index];
}

// Of the formats of at most 16 bits.
const FloatFormat& format_of(DType type) {
  switch (type) {
    case DType::f16:
      return format_f16;
    case DType::bf16:
      return format_bf16;
    case DType::f8e4m3fn:
      return format_f8e4m3fn;
    case DType::f8e5m2:
      return format_f8e5m2;
    case DType::f8e4m3fnuz:
      return format_f8e4m3fnuz;
    case DType::f8e5m2fnuz:
      return format_f8e5m2fnuz;
    default:
      check_failed(__FILE__, __LINE__, "a float type of at most 16 bits");
  }
}

}  // namespace

size_t byte_size(DType type) { return info(type).bytes; }

std::string_view name(DType type) { return info(type).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_float(DType type) { return info(type).kind == Kind::floating; }

bool is_fp8(DType type) { return is_float(type) && byte_size(type) == 1; }

bool is_signed_integer(DType type) { return info(type).kind == Kind::signed_integer; }

bool is_unsigned_integer(DType type) { return info(type).kind == Kind::unsigned_integer; }

double max_finite(DType type) {
  if (type == DType::f64) return std::numeric_limits<double>::max();
  if (type == DType::f32) return std::numeric_limits<float>::max();
  const FloatFormat& format = format_of(type);
  return decode_float(format, format.max_code());
}

double decode(DType type, uint64_t bits) {
  if (type == DType::f64) return std::bit_cast<double>(bits);
  if (type == DType::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const FloatFormat& format = format_of(type);
  return decode_float(format, bits & (2 * format.sign_mask() - 1));
}

uint64_t encode(DType type, double value, Overflow overflow) {
  if (type == DType::f64) return std::bit_cast<uint64_t>(value);
  if (type == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return encode_float(format_of(type), value, overflow);
}

}  // namespace low
