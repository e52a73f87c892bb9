// Elementary functions of f32 and f64. No calls, no tables but 2/pi; those of f32 have no branches either, so that
// loops become vector code. Errors in units in the last place of f32: exp 1, log 1, tanh 3, sigmoid 2, erf 2, sin and
// cos 1, pow 1; of f64: relative errors below 1e-13, and pow 1 (exact where the result is an f64).
//
// Coefficients: "fit" are our own minimax fits (Remez exchange, for the rational one iteratively weighted least
// squares, at 50 digits, rounded to the format), with the interval and the largest error as found; the others are
// Taylor coefficients.
#pragma once

#include "compiler/kernels/device/numeric.h"

namespace low::device::math {

inline constexpr f32 infinity_f32 = __builtin_inff();
inline constexpr f64 infinity_f64 = __builtin_inf();
inline constexpr f64 ln2_high = 0x1.62e42feep-1,
                     ln2_low = 0x1.a39ef35793c76p-33;  // the first has 21 zero bits at its end
inline constexpr f64 half_pi_high = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;

LOW_INLINE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
LOW_INLINE f64 fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
LOW_INLINE f32 abs(f32 x) { return __builtin_fabsf(x); }
LOW_INLINE f64 abs(f64 x) { return __builtin_fabs(x); }
LOW_INLINE f32 copysign(f32 x, f32 sign) { return __builtin_copysignf(x, sign); }
LOW_INLINE f64 copysign(f64 x, f64 sign) { return __builtin_copysign(x, sign); }
LOW_INLINE f32 sqrt(f32 x) { return __builtin_sqrtf(x); }
LOW_INLINE f64 sqrt(f64 x) { return __builtin_sqrt(x); }
LOW_INLINE f32 floor(f32 x) { return __builtin_floorf(x); }
LOW_INLINE f64 floor(f64 x) { return __builtin_floor(x); }
LOW_INLINE f32 ceil(f32 x) { return __builtin_ceilf(x); }
LOW_INLINE f64 ceil(f64 x) { return __builtin_ceil(x); }
LOW_INLINE f32 round_even(f32 x) { return __builtin_roundevenf(x); }
LOW_INLINE f64 round_even(f64 x) { return __builtin_roundeven(x); }
// NaN stays.
template <typename F>
LOW_INLINE F clamp(F x, F low, F high) {
  return x < low ? low : x > high ? high : x;
}

// c0 + x * (c1 + x * (…)).
template <typename F>
LOW_INLINE F polynomial(F, F c) {
  return c;
}
template <typename F, typename... Rest>
LOW_INLINE F polynomial(F x, F c, Rest... rest) {
  return fma(polynomial(x, rest...), x, c);
}

// exp: x = n ln 2 + r, |r| <= ln 2 / 2; exp(x) = 2^n exp(r), with 2^n as two factors, so that results overflow and
// become subnormal with one rounding. The addition of 1.5 * 2^23 (2^52) rounds to an integer that stands in the low
// bits.
LOW_INLINE f32 exp(f32 x) {
  constexpr f32 magic = 0x1.8p+23f;
  const f32 y = clamp(x, -104.0f, 89.0f);  // beyond, all results are 0 or infinity
  const f32 shifted = fma(y, 0x1.715476p+0f, magic);
  const f32 n = shifted - magic;
  const i32 exponent = static_cast<i32>(bits_as<u32>(shifted) - bits_as<u32>(magic));
  const f32 r = fma(n, 0x1.05c610p-29f, fma(n, -0x1.62e430p-1f, y));
  // Fit of (exp(r) - 1 - r) / r^2: 2.7e-8.
  const f32 p = polynomial(r, 0x1.fffffap-2f, 0x1.555590p-3f, 0x1.55699ep-5f, 0x1.11b9f0p-7f, 0x1.592f58p-10f);
  const f32 value = fma(p, r * r, r) + 1.0f;
  const i32 half = exponent >> 1;
  return value * bits_as<f32>(static_cast<u32>(half + 127) << 23) *
         bits_as<f32>(static_cast<u32>(exponent - half + 127) << 23);
}
LOW_INLINE f64 exp(f64 x) {
  constexpr f64 magic = 0x1.8p+52;
  const f64 y = clamp(x, -746.0, 710.0);
  const f64 shifted = fma(y, 0x1.71547652b82fep+0, magic);
  const f64 n = shifted - magic;
  const i32 exponent = static_cast<i32>(static_cast<u32>(bits_as<u64>(shifted) - bits_as<u64>(magic)));
  const f64 r = fma(n, -ln2_low, fma(n, -ln2_high, y));
  const f64 p = polynomial(r, 1 / 2.0, 1 / 6.0, 1 / 24.0, 1 / 120.0, 1 / 720.0, 1 / 5040.0, 1 / 40320.0, 1 / 362880.0,
                           1 / 3628800.0, 1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0);
  const f64 value = fma(p, r * r, r) + 1.0;
  const i32 half = exponent >> 1;
  return value * bits_as<f64>(static_cast<u64>(half + 1023) << 52) *
         bits_as<f64>(static_cast<u64>(exponent - half + 1023) << 52);
}

// log: x = 2^e m, sqrt(1/2) <= m < sqrt(2).
LOW_INLINE f32 log(f32 x) {
  constexpr u32 root = 0x3f3504f3u;  // sqrt(1/2)
  const bool subnormal = x < 0x1p-126f;
  const u32 shifted = bits_as<u32>(subnormal ? x * 0x1p+23f : x) - root;
  const f32 e = static_cast<f32>(static_cast<i32>(shifted) >> 23) - (subnormal ? 23.0f : 0.0f);
  const f32 f = bits_as<f32>((shifted & 0x7fffffu) + root) - 1.0f;
  const f32 f2 = f * f;
  // Fit of (log(1 + f) - f + f^2 / 2) / f^3: 7.5e-10.
  const f32 p = polynomial(f, 0x1.555548p-2f, -0x1.000006p-2f, 0x1.99a4b6p-3f, -0x1.555c4ep-3f, 0x1.23376ap-3f,
                           -0x1.fc2206p-4f, 0x1.e6f056p-4f, -0x1.de3c10p-4f, 0x1.1457cep-4f);
  const f32 tail = fma(e, -0x1.05c610p-29f, fma(f2 * f, p, -0.5f * f2));
  const f32 value = fma(e, 0x1.62e430p-1f, f + tail);
  return x > 0 ? (x < infinity_f32 ? value : x) : (x == 0 ? -infinity_f32 : __builtin_nanf(""));
}
LOW_INLINE f64 log(f64 x) {
  constexpr u64 root = 0x3fe6a09e667f3bcdull;  // sqrt(1/2)
  const bool subnormal = x < 0x1p-1022;
  const u64 shifted = bits_as<u64>(subnormal ? x * 0x1p+52 : x) - root;
  const f64 e = static_cast<f64>(static_cast<i32>(static_cast<i64>(shifted) >> 52)) - (subnormal ? 52.0 : 0.0);
  const f64 f = bits_as<f64>((shifted & ((u64{1} << 52) - 1)) + root) - 1.0;
  // log(1 + f) = 2 atanh(s) with s = f / (2 + f), and 2 s = f - s f; |s| < 0.172.
  const f64 s = f / (2.0 + f);
  const f64 s2 = s * s;
  const f64 series = s2 * polynomial(s2, 2 / 3.0, 2 / 5.0, 2 / 7.0, 2 / 9.0, 2 / 11.0, 2 / 13.0, 2 / 15.0, 2 / 17.0,
                                     2 / 19.0, 2 / 21.0, 2 / 23.0);
  const f64 value = fma(e, ln2_high, f - fma(s, f - series, -e * ln2_low));
  return x > 0 ? (x < infinity_f64 ? value : x) : (x == 0 ? -infinity_f64 : __builtin_nan(""));
}

LOW_INLINE f32 tanh(f32 x) {
  const f32 y = clamp(x, -9.02f, 9.02f);  // beyond, the result rounds to 1
  const f32 y2 = y * y;
  // Fit of tanh(x) / x as a quotient in x^2 on [0, 9.02]: 2.1e-8.
  const f32 p = polynomial(y2, 0x1p+0f, 0x1.12045ep-3f, 0x1.c9f930p-9f, 0x1.595708p-16f, 0x1.c9a7fcp-27f);
  const f32 q = polynomial(y2, 0x1p+0f, 0x1.de57780p-2f, 0x1.a7df8ep-6f, 0x1.5842ecp-12f, 0x1.a0bb3ap-21f);
  return clamp(y * p / q, -1.0f, 1.0f);
}
// exp(2a) - 1 = t, tanh(a) = t / (t + 2).
LOW_INLINE f64 tanh(f64 x) {
  const f64 y = 2 * clamp(abs(x), 0.0, 20.0);
  const f64 small =
      fma(y * y,
          polynomial(y, 1 / 2.0, 1 / 6.0, 1 / 24.0, 1 / 120.0, 1 / 720.0, 1 / 5040.0, 1 / 40320.0, 1 / 362880.0,
                     1 / 3628800.0, 1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0, 1 / 87178291200.0),
          y);
  const f64 t = y < 0.5 ? small : exp(y) - 1;
  return copysign(t / (t + 2), x);
}

// From exp(-|x|), which cannot overflow.
template <typename F>
LOW_INLINE F sigmoid(F x) {
  const F e = exp(-abs(x));
  return (x < 0 ? e : F{1}) / (F{1} + e);
}

LOW_INLINE f32 erf(f32 x) {
  const f32 a = clamp(abs(x), 0.0f, 3.95f);  // beyond, the result rounds to 1
  const f32 a2 = a * a;
  // Fit of erf(a) / a in a^2 on [0, 0.95]: 6.1e-10.
  const f32 small = a * polynomial(a2, 0x1.20dd76p+0f, -0x1.812742p-2f, 0x1.ce2dcap-4f, -0x1.b80962p-6f, 0x1.549664p-8f,
                                   -0x1.a88d8ap-11f, 0x1.574ec8p-14f);
  // Fit of -log(1 - erf(a)) on [0.94, 3.95], weighted for the error of erf: 1.4e-9.
  const f32 exponent = polynomial(a, 0x1.dd6e14p-13f, 0x1.20a6bep+0f, 0x1.46598ep-1f, 0x1.a8eb0ep-4f, -0x1.6aa8acp-6f,
                                  0x1.8bdeecp-9f, -0x1.9605cap-13f);
  return copysign(a < 0.95f ? small : 1.0f - exp(-exponent), x);
}
// erf(a) = 2 / sqrt(pi) exp(-a^2) sum of 2^i a^(2i+1) / (1 3 5 … (2i+1)): no term is negative.
LOW_INLINE f64 erf(f64 x) {
  const f64 a = clamp(abs(x), 0.0, 6.0);  // beyond, the result rounds to 1
  const f64 step = 2 * a * a;
  f64 term = a, sum = a;
  for (int i = 1; i < 140; ++i) {
    term *= step / (2 * i + 1);
    sum += term;
  }
  const f64 value = 0x1.20dd750429b6dp+0 * exp(-a * a) * sum;
  return copysign(value > 1 ? 1.0 : value, x);
}

// 2 / pi, 32 bits a word; the first bit weighs 1/2.
inline constexpr u32 two_over_pi[44] = {
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au,
    0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u,
    0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu,
    0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u,
    0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du, 0xa9e39161u, 0x5ee61b08u, 0x6599855fu, 0x14a06840u,
};
// 64 bits of 2 / pi from bit `position` on (0 is the first).
LOW_INLINE u64 two_over_pi_bits(u32 position) {
  const u32 word = position >> 5, shift = position & 31;
  const u64 high = (static_cast<u64>(two_over_pi[word]) << 32) | two_over_pi[word + 1];
  return (high << shift) | (static_cast<u64>(two_over_pi[word + 2]) >> (32 - shift));
}

// x = quadrant * pi / 2 + r, |r| <= pi / 4 and a little.
struct Reduced {
  f64 r;
  u32 quadrant;  // modulo 4
};
// With pi / 2 in two parts; for |x| < 2^26 the rest does not matter.
LOW_INLINE Reduced reduce_small(f64 x) {
  constexpr f64 magic = 0x1.8p+52;
  const f64 shifted = fma(x, 0x1.45f306dc9c883p-1, magic);
  const f64 n = shifted - magic;
  return {fma(n, -half_pi_low, fma(n, -half_pi_high, x)), static_cast<u32>(bits_as<u64>(shifted))};
}
// |x| = mantissa * 2^e with e >= 3: bits of 2 / pi that weigh 4 or more after the product change no quadrant, so that a
// window of it is enough. The product's first two bits are the quadrant, the rest is a fixed-point fraction of pi / 2.
LOW_INLINE Reduced reduce_large(f32 x) {
  const u32 bits = bits_as<u32>(x) & 0x7fffffffu;
  const u32 exponent = bits >> 23;
  const u32 position = (exponent > 153 ? exponent : 153) - 150 - 2;
  const u64 mantissa = (bits & 0x7fffffu) | 0x800000u;
  const u64 product =
      mantissa * two_over_pi_bits(position) + ((mantissa * (two_over_pi_bits(position + 64) >> 32)) >> 32);
  const u64 quadrant = (product + (u64{1} << 61)) >> 62;
  const f64 r = static_cast<f64>(static_cast<i64>(product - (quadrant << 62))) * (0x1p-62 * half_pi_high);
  return x < 0 ? Reduced{-r, static_cast<u32>(0 - quadrant)} : Reduced{r, static_cast<u32>(quadrant)};
}
LOW_INLINE Reduced reduce(f32 x) {
  const Reduced small = reduce_small(static_cast<f64>(x)), large = reduce_large(x);
  return abs(x) < 0x1p+26f ? small : large;
}
LOW_INLINE Reduced reduce(f64 x) {
  if (!(abs(x) >= 0x1p+26)) return reduce_small(x);
  const u64 bits = bits_as<u64>(x) & ~(u64{1} << 63);
  const u32 exponent = static_cast<u32>(bits >> 52);
  if (exponent == 2047) return {__builtin_nan(""), 0};
  // e = exponent - 1075 may be negative here; the window then begins before the first bit, with zeros.
  const i32 position = static_cast<i32>(exponent) - 1075 - 2;
  const u64 mantissa = (bits & ((u64{1} << 52) - 1)) | (u64{1} << 52);
  const u32 lead = position < 0 ? static_cast<u32>(-position) : 0;  // at most 51
  const u32 first = position < 0 ? 0 : static_cast<u32>(position);
  u64 w0 = two_over_pi_bits(first), w1 = two_over_pi_bits(first + 64), w2 = two_over_pi_bits(first + 128);
  if (lead != 0) {
    w2 = (w2 >> lead) | (w1 << (64 - lead));
    w1 = (w1 >> lead) | (w0 << (64 - lead));
    w0 = w0 >> lead;
  }
  using u128 = unsigned __int128;
  const u128 product = (static_cast<u128>(mantissa * w0) << 64) + static_cast<u128>(mantissa) * w1 +
                       ((static_cast<u128>(mantissa) * w2) >> 64);
  const u128 quadrant = (product + (static_cast<u128>(1) << 125)) >> 126;
  u128 fraction = product - (quadrant << 126);
  const bool negative = static_cast<i64>(static_cast<u64>(fraction >> 64)) < 0;
  fraction = negative ? 0 - fraction : fraction;
  const f64 high = static_cast<f64>(static_cast<u64>(fraction >> 64)) * 0x1p-62;
  const f64 low = static_cast<f64>(static_cast<u64>(fraction)) * 0x1p-126;
  const f64 magnitude = (high + low) * half_pi_high;
  const f64 r = negative != (x < 0) ? -magnitude : magnitude;
  const u32 q = static_cast<u32>(static_cast<u64>(quadrant));
  return {r, x < 0 ? 0 - q : q};
}

// sin(r) and cos(r) for |r| <= pi / 4. Fits in r^2 on [0, 0.617]: 4.9e-12 and 1.2e-13.
LOW_INLINE f32 sin_part(f32 r) {
  const f32 r2 = r * r;
  return fma(r * r2, polynomial(r2, -0x1.555556p-3f, 0x1.111108p-7f, -0x1.a00f94p-13f, 0x1.6cd5ecp-19f), r);
}
LOW_INLINE f32 cos_part(f32 r) {
  const f32 r2 = r * r;
  return fma(r2 * r2, polynomial(r2, 0x1.555556p-5f, -0x1.6c16b8p-10f, 0x1.a010d6p-16f, -0x1.241ca8p-22f),
             fma(r2, -0.5f, 1.0f));
}
LOW_INLINE f64 sin_part(f64 r) {
  const f64 r2 = r * r;
  return fma(r * r2,
             polynomial(r2, -1 / 6.0, 1 / 120.0, -1 / 5040.0, 1 / 362880.0, -1 / 39916800.0, 1 / 6227020800.0,
                        -1 / 1307674368000.0, 1 / 355687428096000.0),
             r);
}
LOW_INLINE f64 cos_part(f64 r) {
  const f64 r2 = r * r;
  return fma(r2 * r2,
             polynomial(r2, 1 / 24.0, -1 / 720.0, 1 / 40320.0, -1 / 3628800.0, 1 / 479001600.0, -1 / 87178291200.0,
                        1 / 20922789888000.0, -1 / 6402373705728000.0),
             fma(r2, -0.5, 1.0));
}
template <typename F>
LOW_INLINE F sin_quadrant(F x, F r, u32 quadrant) {
  const F part = (quadrant & 1) != 0 ? cos_part(r) : sin_part(r);
  const F value = (quadrant & 2) != 0 ? -part : part;
  // x - x is NaN for infinities and NaN.
  return abs(x) < static_cast<F>(infinity_f64) ? value : x - x;
}
template <typename F>
LOW_INLINE F sin(F x) {
  const Reduced reduced = reduce(x);
  const F value = sin_quadrant(x, static_cast<F>(reduced.r), reduced.quadrant);
  return x == 0 ? x : value;  // keeps the sign of zero
}
template <typename F>
LOW_INLINE F cos(F x) {
  const Reduced reduced = reduce(x);
  return sin_quadrant(x, static_cast<F>(reduced.r), reduced.quadrant + 1);
}

// high + low, with low below the last bit of high.
struct Sum {
  f64 high, low;
};
// Exact for |a| >= |b|.
LOW_INLINE Sum fast_sum(f64 a, f64 b) {
  const f64 high = a + b;
  return {high, b - (high - a)};
}
LOW_INLINE Sum product(Sum a, Sum b) {
  const f64 high = a.high * b.high;
  return fast_sum(high, fma(a.high, b.high, -high) + (a.high * b.low + a.low * b.high));
}
LOW_INLINE Sum add_smaller(Sum a, Sum b) {
  const Sum sum = fast_sum(a.high, b.high);
  return fast_sum(sum.high, sum.low + (a.low + b.low));
}
// log with a relative error below 2^-70; the method is that of the f64 log.
LOW_INLINE Sum log_sum(f64 x) {
  constexpr u64 root = 0x3fe6a09e667f3bcdull;  // sqrt(1/2)
  const bool subnormal = x < 0x1p-1022;
  const u64 shifted = bits_as<u64>(subnormal ? x * 0x1p+52 : x) - root;
  const f64 e = static_cast<f64>(static_cast<i32>(static_cast<i64>(shifted) >> 52)) - (subnormal ? 52.0 : 0.0);
  const f64 f = bits_as<f64>((shifted & ((u64{1} << 52) - 1)) + root) - 1.0;
  const Sum divisor = fast_sum(2.0, f);
  const f64 quotient = f / divisor.high;
  const Sum s = {quotient, (fma(-quotient, divisor.high, f) - quotient * divisor.low) / divisor.high};
  const Sum s2 = product(s, s);
  // atanh(s) / s = 1 + s^2 (1/3 + s^2 (1/5 + s^2 (1/7 + …))): the larger a term, the more of it counts.
  const f64 tail = polynomial(s2.high, 1 / 7.0, 1 / 9.0, 1 / 11.0, 1 / 13.0, 1 / 15.0, 1 / 17.0, 1 / 19.0, 1 / 21.0,
                              1 / 23.0, 1 / 25.0, 1 / 27.0);
  const Sum fifth = add_smaller({1 / 5.0, -0x1.999999999999ap-57}, product(s2, {tail, 0.0}));
  const Sum third = add_smaller({1 / 3.0, 0x1.5555555555555p-56}, product(s2, fifth));
  const Sum half = add_smaller(s, product(s, product(s2, third)));
  const Sum value = add_smaller({e * ln2_high, e * ln2_low}, {2 * half.high, 2 * half.low});
  const f64 high = x > 0 ? (x < infinity_f64 ? value.high : x) : (x == 0 ? -infinity_f64 : __builtin_nan(""));
  return {high, value.low};
}
// exp of the sum, before the last rounding with a relative error below 2^-55. `low` is not read where the result is
// infinite, 0 or NaN.
LOW_INLINE f64 exp_sum(Sum x) {
  constexpr f64 magic = 0x1.8p+52;
  const f64 y = clamp(x.high, -746.0, 710.0);
  const f64 low = y == x.high ? x.low : 0.0;
  const f64 shifted = fma(y, 0x1.71547652b82fep+0, magic);
  const f64 n = shifted - magic;
  const i32 exponent = static_cast<i32>(static_cast<u32>(bits_as<u64>(shifted) - bits_as<u64>(magic)));
  const Sum r = fast_sum(fma(n, -ln2_high, y), fma(n, -ln2_low, low));
  const f64 p =
      polynomial(r.high, 1 / 2.0, 1 / 6.0, 1 / 24.0, 1 / 120.0, 1 / 720.0, 1 / 5040.0, 1 / 40320.0, 1 / 362880.0,
                 1 / 3628800.0, 1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0, 1 / 87178291200.0);
  const Sum linear = fast_sum(1.0, r.high);
  const f64 value = linear.high + (linear.low + fma(p, r.high * r.high, r.low));
  const i32 half = exponent >> 1;
  return value * bits_as<f64>(static_cast<u64>(half + 1023) << 52) *
         bits_as<f64>(static_cast<u64>(exponent - half + 1023) << 52);
}

// a^b for a >= 0 or NaN, by exp(b log a). f32 in f64; f64 in twice f64, since what is computed for integers is
// truncated afterwards: 3^6 must not be a bit below 729.
LOW_INLINE f32 positive_pow(f32 a, f32 b) {
  return static_cast<f32>(exp(static_cast<f64>(b) * log(static_cast<f64>(a))));
}
LOW_INLINE f64 positive_pow(f64 a, f64 b) {
  const Sum l = log_sum(a);
  const f64 high = b * l.high;
  return exp_sum({high, fma(b, l.high, -high) + b * l.low});
}

// C's rules: anything to the 0 and 1 to anything are 1, (-1)^(+-inf) is 1, negative bases need integer exponents.
template <typename F>
LOW_INLINE F pow(F a, F b) {
  F value = positive_pow(abs(a), b);
  const bool integer = floor(b) == b;  // infinities are
  const bool odd = integer && floor(b * F{0.5}) != b * F{0.5};
  const bool negative = copysign(F{1}, a) < 0;
  value = odd && negative ? -value : value;
  value =
      !integer && a < 0 && abs(a) < static_cast<F>(infinity_f64) && b == b ? static_cast<F>(__builtin_nan("")) : value;
  value = abs(a) == 1 && abs(b) == static_cast<F>(infinity_f64) ? F{1} : value;
  return a == 1 || b == 0 ? F{1} : value;
}

// 2^e for a normal result.
LOW_INLINE f32 power_of_two(i32 e, f32) { return bits_as<f32>(static_cast<u32>(e + 127) << 23); }
LOW_INLINE f64 power_of_two(i32 e, f64) { return bits_as<f64>(static_cast<u64>(e + 1023) << 52); }

// C's fmod, exactly, by long division of the significands as many bits a step as a word has room for.
template <typename F>
LOW_INLINE F modulo(F x, F y) {
  using N = Native<F>;
  using Bits = typename N::Bits;
  constexpr Bits implicit = Bits{1} << N::mantissa_bits;
  if (y == 0 || y != y || !(abs(x) < static_cast<F>(infinity_f64))) return static_cast<F>(__builtin_nan(""));
  if (abs(x) < abs(y)) return x;
  const Bits bx = bits_as<Bits>(abs(x)), by = bits_as<Bits>(abs(y));
  const i32 field_x = static_cast<i32>(bx >> N::mantissa_bits), field_y = static_cast<i32>(by >> N::mantissa_bits);
  u64 mx = (bx & (implicit - 1)) | (field_x != 0 ? implicit : 0);
  const u64 my = (by & (implicit - 1)) | (field_y != 0 ? implicit : 0);
  const i32 ex = field_x != 0 ? field_x : 1, ey = field_y != 0 ? field_y : 1;
  constexpr i32 room = 63 - N::mantissa_bits;
  mx %= my;
  for (i32 rest = ex - ey; rest > 0;) {
    const i32 step = rest < room ? rest : room;
    mx = (mx << step) % my;
    rest -= step;
  }
  const i32 scale = ey - N::bias - N::mantissa_bits;
  const i32 half = scale / 2;
  // Exact: below my in y's units. The second factor may make it subnormal.
  const F magnitude = static_cast<F>(mx) * power_of_two(half, F{0}) * power_of_two(scale - half, F{0});
  return copysign(magnitude, x);
}

}  // namespace low::device::math
