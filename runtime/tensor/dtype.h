// Element types, and their conversion to and from bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace low {

// clang-format off
enum class DType : uint8_t {
  f64, f32, f16, bf16, f8e4m3fn, f8e5m2, f8e4m3fnuz, f8e5m2fnuz,
  i8, i16, i32, i64, u8, u16, u32, u64, boolean,
};
// clang-format on
inline constexpr int dtype_count = 17;

// Bytes of one element; a boolean takes one byte, 0 or 1.
size_t byte_size(DType type);
// "f32", "f8e4m3fn", "bool", …: the names of printed stages and of the command line.
std::string_view name(DType type);
std::optional<DType> parse_dtype(std::string_view text);

bool is_float(DType type);  // all eight float formats
bool is_fp8(DType type);
bool is_signed_integer(DType type);
bool is_unsigned_integer(DType type);  // without boolean
inline bool is_integer(DType type) { return is_signed_integer(type) || is_unsigned_integer(type); }

// The largest finite value: 448, 57344, 240, 57344 for the FP8 formats in the order of DType. Floats only.
double max_finite(DType type);

enum class Overflow : uint8_t {
  // ONNX saturate=1: finite overflow goes to the maximum; infinity to the maximum in E4M3FN and E5M2, to NaN in FNUZ.
  saturate,
  propagate,  // ONNX saturate=0: overflow goes to infinity where the format has one, else to NaN
};

// Decodes the low byte_size(type) bytes of `bits`. Exact. Float types only.
double decode(DType type, uint64_t bits);
// Encodes to nearest, ties to even, directly from double (no double rounding). Float types only.
// f16, bf16, f32 and f64 have infinities and ignore `overflow`: they always overflow to infinity.
uint64_t encode(DType type, double value, Overflow overflow);

}  // namespace low
