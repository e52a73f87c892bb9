#include "runtime/tensor/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/tensor/dtype_convert.h"

namespace low {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// The formats again, from their papers: independent of the code under test.
struct Reference {
  DType type;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;
  bool is_fnuz;
  double max;
  bool clamps;  // obeys Overflow::saturate

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint64_t codes() const { return uint64_t{1} << bits(); }

  double decode(uint64_t code) const {
    const uint64_t sign = code >> (bits() - 1);
    const uint64_t exponent = (code >> mantissa_bits) & ((1u << exponent_bits) - 1);
    const uint64_t mantissa = code & ((1u << mantissa_bits) - 1);
    const uint64_t top = (1u << exponent_bits) - 1;
    if (is_fnuz) {
      if (sign == 1 && exponent == 0 && mantissa == 0) return nan_value;
    } else if (has_infinity) {
      if (exponent == top && mantissa == 0) return sign == 1 ? -infinity : infinity;
      if (exponent == top) return nan_value;
    } else if (exponent == top && mantissa == (1u << mantissa_bits) - 1) {
      return nan_value;
    }
    const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
    return sign == 1 ? -magnitude : magnitude;
  }
};

// The least magnitude that is no longer rounded to the maximum follows from the next step of the same spacing.
const std::vector<Reference>& references() {
  static const std::vector<Reference> all = {
      {DType::f16, 5, 10, 15, true, false, 65504, false},
      {DType::bf16, 8, 7, 127, true, false, std::ldexp(255.0, 120), false},
      {DType::f8e4m3fn, 4, 3, 7, false, false, 448, true},
      {DType::f8e5m2, 5, 2, 15, true, false, 57344, true},
      {DType::f8e4m3fnuz, 4, 3, 8, false, true, 240, true},
      {DType::f8e5m2fnuz, 5, 2, 16, false, true, 57344, true},
  };
  return all;
}

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

// Encoding by search in the sorted list of all magnitudes, continued by one unreachable number for overflow.
class NearestSearch {
 public:
  explicit NearestSearch(const Reference& reference) : reference_(reference) {
    for (uint64_t code = 0; code < reference.codes() / 2; ++code) {
      const double value = reference.decode(code);
      if (std::isfinite(value)) magnitudes_.push_back(value);
    }
    const size_t n = magnitudes_.size();
    magnitudes_.push_back(2 * magnitudes_[n - 1] - magnitudes_[n - 2]);
  }

  // All finite magnitudes in ascending order, where the position is the code, and the overflow number.
  const std::vector<double>& magnitudes() const { return magnitudes_; }

  // The expected value (not code) of encoding.
  double expect(double value, Overflow overflow) const {
    const bool saturates = reference_.clamps && overflow == Overflow::saturate;
    if (std::isnan(value)) return nan_value;
    const double magnitude = std::fabs(value);
    double result = 0;
    if (std::isinf(value)) {
      if (reference_.is_fnuz) return nan_value;
      if (saturates) return std::copysign(reference_.max, value);
      return reference_.has_infinity ? value : nan_value;
    }
    const auto above = std::ranges::lower_bound(magnitudes_, magnitude);
    auto nearest = above;
    if (above == magnitudes_.end()) {
      nearest = above - 1;
    } else if (*above != magnitude) {
      const double lower = *(above - 1);
      const double upper = *above;
      // Exact: the sum of neighbours of such formats fits a double, and so does twice the magnitude.
      const double twice = 2 * magnitude;
      const bool lower_is_even = (above - 1 - magnitudes_.begin()) % 2 == 0;
      nearest = twice < lower + upper || (twice == lower + upper && lower_is_even) ? above - 1 : above;
    }
    if (nearest == magnitudes_.end() - 1) {
      if (saturates) return std::copysign(reference_.max, value);
      return reference_.has_infinity ? std::copysign(infinity, value) : nan_value;
    }
    result = *nearest;
    if (result == 0 && reference_.is_fnuz) return 0;
    return std::copysign(result, value);
  }

 private:
  const Reference& reference_;
  std::vector<double> magnitudes_;
};

TEST(DType, NamesParseBack) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(type)), type);
  }
  EXPECT_EQ(name(DType::f8e4m3fnuz), "f8e4m3fnuz");
  EXPECT_EQ(name(DType::boolean), "bool");
  EXPECT_FALSE(parse_dtype(""));
  EXPECT_FALSE(parse_dtype("F32"));
  EXPECT_FALSE(parse_dtype("f32 "));
}

TEST(DType, Classes) {
  int floats = 0;
  int fp8 = 0;
  int integers = 0;
  size_t bytes = 0;
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    floats += is_float(type) ? 1 : 0;
    fp8 += is_fp8(type) ? 1 : 0;
    integers += is_integer(type) ? 1 : 0;
    bytes += byte_size(type);
  }
  EXPECT_EQ(floats, 8);
  EXPECT_EQ(fp8, 4);
  EXPECT_EQ(integers, 8);
  EXPECT_EQ(bytes, 8u + 4 + 2 + 2 + 4 + 2 * (1 + 2 + 4 + 8) + 1);
  EXPECT_TRUE(is_signed_integer(DType::i8));
  EXPECT_FALSE(is_signed_integer(DType::u8));
  EXPECT_FALSE(is_integer(DType::boolean));
}

TEST(DType, Maxima) {
  for (const Reference& reference : references()) {
    EXPECT_EQ(max_finite(reference.type), reference.max) << name(reference.type);
  }
  EXPECT_EQ(max_finite(DType::f32), 3.4028234663852886e38);
  EXPECT_EQ(max_finite(DType::f64), std::numeric_limits<double>::max());
}

TEST(DType, DecodeEveryCode) {
  for (const Reference& reference : references()) {
    for (uint64_t code = 0; code < reference.codes(); ++code) {
      const double expected = reference.decode(code);
      ASSERT_TRUE(same(decode(reference.type, code), expected))
          << name(reference.type) << " " << code << ": " << decode(reference.type, code) << ", not " << expected;
    }
  }
}

TEST(DType, EncodeEveryValueBackToItsCode) {
  for (const Reference& reference : references()) {
    for (uint64_t code = 0; code < reference.codes(); ++code) {
      const double value = reference.decode(code);
      for (const Overflow overflow : {Overflow::saturate, Overflow::propagate}) {
        const uint64_t encoded = encode(reference.type, value, overflow);
        ASSERT_LT(encoded, reference.codes());
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(reference.decode(encoded))) << name(reference.type) << " " << code;
        } else if (std::isfinite(value) || overflow == Overflow::propagate || !reference.clamps) {
          ASSERT_EQ(encoded, code) << name(reference.type);
        }
      }
    }
  }
}

// Each midpoint, each number itself, and the doubles next to both, with both signs.
TEST(DType, EncodeAroundEveryMidpoint) {
  for (const Reference& reference : references()) {
    const NearestSearch search(reference);
    const std::vector<double>& magnitudes = search.magnitudes();
    for (size_t i = 0; i + 1 < magnitudes.size(); ++i) {
      const double middle = (magnitudes[i] + magnitudes[i + 1]) / 2;
      for (const double center : {magnitudes[i], middle}) {
        for (const double magnitude : {std::nextafter(center, 0), center, std::nextafter(center, infinity)}) {
          for (const double value : {magnitude, -magnitude}) {
            for (const Overflow overflow : {Overflow::saturate, Overflow::propagate}) {
              const double got = reference.decode(encode(reference.type, value, overflow));
              const double expected = search.expect(value, overflow);
              ASSERT_TRUE(same(got, expected))
                  << name(reference.type) << ": " << value << " gave " << got << ", not " << expected;
            }
          }
        }
      }
    }
  }
}

TEST(DType, EncodeExtremes) {
  for (const Reference& reference : references()) {
    const NearestSearch search(reference);
    const double last = search.magnitudes().back();
    for (const double magnitude :
         {0.0, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min(), 1e-300, last,
          std::nextafter(last, infinity), 2 * last, 1e300, std::numeric_limits<double>::max(), infinity, nan_value}) {
      for (const double value : {magnitude, -magnitude}) {
        for (const Overflow overflow : {Overflow::saturate, Overflow::propagate}) {
          const double got = reference.decode(encode(reference.type, value, overflow));
          ASSERT_TRUE(same(got, search.expect(value, overflow)))
              << name(reference.type) << ": " << value << " gave " << got;
        }
      }
    }
  }
}

TEST(DType, EncodeRandomBitPatterns) {
  const uint64_t seed = 20260501;
  std::mt19937_64 random(seed);
  for (const Reference& reference : references()) {
    const NearestSearch search(reference);
    for (int i = 0; i < 20'000; ++i) {
      // Exponents around the format's range, mantissas anywhere.
      const double magnitude =
          std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 11), -53), static_cast<int>(random() % 300) - 150);
      const double value = random() % 2 == 0 ? magnitude : -magnitude;
      for (const Overflow overflow : {Overflow::saturate, Overflow::propagate}) {
        ASSERT_TRUE(same(reference.decode(encode(reference.type, value, overflow)), search.expect(value, overflow)))
            << name(reference.type) << ": " << value << ", seed " << seed;
      }
    }
  }
}

TEST(DType, KnownFacts) {
  const auto saturate = [](DType type, double value) { return encode(type, value, Overflow::saturate); };
  const auto propagate = [](DType type, double value) { return encode(type, value, Overflow::propagate); };
  // E4M3FN: 464 is the tie between 448 (0x7e, even) and 480 (0x7f, would be NaN).
  EXPECT_EQ(propagate(DType::f8e4m3fn, 464), 0x7eu);
  EXPECT_EQ(propagate(DType::f8e4m3fn, 465), 0x7fu);
  EXPECT_EQ(propagate(DType::f8e4m3fn, -465), 0xffu);
  EXPECT_EQ(saturate(DType::f8e4m3fn, 465), 0x7eu);
  EXPECT_EQ(saturate(DType::f8e4m3fn, -infinity), 0xfeu);
  EXPECT_EQ(propagate(DType::f8e4m3fn, infinity), 0x7fu);
  EXPECT_EQ(saturate(DType::f8e4m3fn, -1e-9), 0x80u);  // -0
  EXPECT_TRUE(std::isnan(decode(DType::f8e4m3fn, 0x7f)));
  EXPECT_TRUE(std::isnan(decode(DType::f8e4m3fn, 0xff)));
  // E5M2: 61440 is the tie between 57344 (0x7b, odd) and infinity's place.
  EXPECT_EQ(propagate(DType::f8e5m2, std::nextafter(61440.0, 0)), 0x7bu);
  EXPECT_EQ(propagate(DType::f8e5m2, 61440), 0x7cu);
  EXPECT_EQ(saturate(DType::f8e5m2, 61440), 0x7bu);
  EXPECT_EQ(saturate(DType::f8e5m2, -infinity), 0xfbu);
  EXPECT_EQ(propagate(DType::f8e5m2, -infinity), 0xfcu);
  // FNUZ: the only NaN is 0x80, and zeros are +0.
  for (const DType type : {DType::f8e4m3fnuz, DType::f8e5m2fnuz}) {
    EXPECT_EQ(saturate(type, -0.0), 0x00u);
    EXPECT_EQ(saturate(type, -1e-9), 0x00u);
    EXPECT_EQ(saturate(type, nan_value), 0x80u);
    EXPECT_EQ(saturate(type, infinity), 0x80u);
    EXPECT_EQ(propagate(type, -infinity), 0x80u);
    EXPECT_EQ(propagate(type, 1e6), 0x80u);
    EXPECT_EQ(saturate(type, 1e6), 0x7fu);
    EXPECT_EQ(saturate(type, -1e6), 0xffu);
  }
  EXPECT_EQ(decode(DType::f8e4m3fnuz, 0x7f), 240);
  EXPECT_EQ(decode(DType::f8e4m3fn, 0x38), 1);
  EXPECT_EQ(decode(DType::f8e4m3fnuz, 0x38), 0.5);  // the same bits are half the value
  // Halves ignore saturation.
  EXPECT_EQ(saturate(DType::f16, 65519.99), 0x7bffu);
  EXPECT_EQ(saturate(DType::f16, 65520), 0x7c00u);
  EXPECT_EQ(saturate(DType::bf16, 3.4e38), 0x7f80u);
  EXPECT_EQ(saturate(DType::bf16, 1 + std::ldexp(1, -8)), 0x3f80u);  // tie to even
  // One rounding: above the tie of f16 by less than half a unit of f32, so going through f32 would give 0x3c00.
  EXPECT_EQ(saturate(DType::f16, 1 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01u);
  EXPECT_EQ(saturate(DType::f32, 1e39), 0x7f800000u);
  EXPECT_EQ(decode(DType::f32, 0xc0490fdb), -3.1415927410125732);
  EXPECT_EQ(decode(DType::f64, std::bit_cast<uint64_t>(0.1)), 0.1);
}

TEST(DTypeConvert, DecodesLikeOneByOne) {
  for (const Reference& reference : references()) {
    const size_t size = byte_size(reference.type);
    std::vector<std::byte> bytes;
    for (uint64_t code = 0; code < reference.codes(); ++code) {
      for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(code >> (8 * i)));
    }
    std::vector<float> values(reference.codes());
    decode_to_f32(reference.type, bytes, values);
    for (uint64_t code = 0; code < reference.codes(); ++code) {
      ASSERT_TRUE(same(values[code], reference.decode(code))) << name(reference.type) << " " << code;
    }
    // And back, NaNs apart.
    std::vector<std::byte> back(bytes.size());
    encode_from_f32(reference.type, values, back, Overflow::propagate);
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (std::isnan(values[i / size])) continue;
      ASSERT_EQ(back[i], bytes[i]) << name(reference.type) << " " << i / size;
    }
  }
}

TEST(DTypeConvert, EncodesLikeOneByOne) {
  const uint64_t seed = 7;
  std::mt19937_64 random(seed);
  std::vector<float> values = {0.0f,
                               -0.0f,
                               464.0f,
                               465.0f,
                               -1e30f,
                               static_cast<float>(infinity),
                               std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::denorm_min()};
  for (int i = 0; i < 1009; ++i) {
    values.push_back(
        static_cast<float>(std::ldexp(static_cast<double>(random() % 100'003), static_cast<int>(random() % 40) - 30)));
  }
  for (const Reference& reference : references()) {
    const size_t size = byte_size(reference.type);
    for (const Overflow overflow : {Overflow::saturate, Overflow::propagate}) {
      std::vector<std::byte> bytes(values.size() * size);
      encode_from_f32(reference.type, values, bytes, overflow);
      for (size_t i = 0; i < values.size(); ++i) {
        uint64_t code = 0;
        for (size_t j = 0; j < size; ++j) code |= std::to_integer<uint64_t>(bytes[i * size + j]) << (8 * j);
        ASSERT_EQ(code, encode(reference.type, values[i], overflow)) << name(reference.type) << " " << values[i];
      }
    }
  }
}

TEST(DTypeConvert, IntegersTruncateAndClamp) {
  const std::vector<float> values = {-1.9f, 1.9f, 300.0f, -300.0f, std::numeric_limits<float>::quiet_NaN(),
                                     3e38f, 0.5f};
  const auto convert = [&](DType type) {
    std::vector<std::byte> bytes(values.size() * byte_size(type));
    encode_from_f32(type, values, bytes);
    std::vector<float> back(values.size());
    decode_to_f32(type, bytes, back);
    return back;
  };
  EXPECT_EQ(convert(DType::i8), (std::vector<float>{-1, 1, 127, -128, 0, 127, 0}));
  EXPECT_EQ(convert(DType::u8), (std::vector<float>{0, 1, 255, 0, 0, 255, 0}));
  EXPECT_EQ(convert(DType::i32), (std::vector<float>{-1, 1, 300, -300, 0, 2147483648.0f, 0}));
  EXPECT_EQ(convert(DType::i64), (std::vector<float>{-1, 1, 300, -300, 0, 9223372036854775808.0f, 0}));
  EXPECT_EQ(convert(DType::u64), (std::vector<float>{0, 1, 300, 0, 0, 18446744073709551616.0f, 0}));
  EXPECT_EQ(convert(DType::boolean), (std::vector<float>{1, 1, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace low
