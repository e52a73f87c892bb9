// The scalar operations of expressions, one function for each, over all element types. Nodes of narrow formats compute
// in f32 and round.
#pragma once

#include "compiler/kernels/device/math.h"

namespace low::device {

// Integers compute in an unsigned type at least as wide as int, where everything wraps.
template <typename T>
struct WrapOf {
  using Type = u32;
};
template <>
struct WrapOf<i64> {
  using Type = u64;
};
template <>
struct WrapOf<u64> {
  using Type = u64;
};
template <typename T>
using Wrap = typename WrapOf<T>::Type;

// LOW_FLOAT_UNARY(name, expression of x): for f32 and f64 directly, for narrow formats through f32.
#define LOW_FLOAT_UNARY(name, ...)                            \
  template <typename T>                                       \
  LOW_INLINE T name(T a) {                                    \
    if constexpr (is_narrow<T>) {                             \
      return encode<T, Overflow::propagate>(name(decode(a))); \
    } else {                                                  \
      const T x = a;                                          \
      return __VA_ARGS__;                                     \
    }                                                         \
  }
LOW_FLOAT_UNARY(sqrt, math::sqrt(x))
LOW_FLOAT_UNARY(exp, math::exp(x))
LOW_FLOAT_UNARY(log, math::log(x))
LOW_FLOAT_UNARY(erf, math::erf(x))
LOW_FLOAT_UNARY(tanh, math::tanh(x))
LOW_FLOAT_UNARY(sigmoid, math::sigmoid(x))
LOW_FLOAT_UNARY(round_even, math::round_even(x))
LOW_FLOAT_UNARY(floor, math::floor(x))
LOW_FLOAT_UNARY(ceil, math::ceil(x))
LOW_FLOAT_UNARY(sin, math::sin(x))
LOW_FLOAT_UNARY(cos, math::cos(x))
LOW_FLOAT_UNARY(reciprocal, T{1} / x)
#undef LOW_FLOAT_UNARY

// LOW_BINARY(name, float expression of x and y, integer expression of a and b).
#define LOW_BINARY(name, float_value, integer_value)                     \
  template <typename T>                                                  \
  LOW_INLINE T name(T a, T b) {                                          \
    if constexpr (is_narrow<T>) {                                        \
      return encode<T, Overflow::propagate>(name(decode(a), decode(b))); \
    } else if constexpr (is_native_float<T>) {                           \
      const T x = a, y = b;                                              \
      return float_value;                                                \
    } else {                                                             \
      return integer_value;                                              \
    }                                                                    \
  }

template <typename T>
LOW_INLINE T divide_integers(T a, T b) {
  if constexpr (is_signed<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<Wrap<T>>(a));
  }
  return b == 0 ? T{0} : static_cast<T>(a / b);
}
template <typename T>
LOW_INLINE T remainder_of_integers(T a, T b) {
  if constexpr (is_signed<T>) {
    if (b == -1) return 0;
  }
  return b == 0 ? T{0} : static_cast<T>(a % b);
}
// By repeated squaring. A negative exponent truncates the real power: only 1 and -1 have one that is not 0.
template <typename T>
LOW_INLINE T power_of_integers(T a, T b) {
  if constexpr (is_signed<T>) {
    if (b < 0) return a == 1 ? T{1} : a == -1 ? ((b & 1) != 0 ? a : T{1}) : T{0};
  }
  Wrap<T> result = 1, base = static_cast<Wrap<T>>(a);
  for (u64 exponent = static_cast<u64>(b); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return static_cast<T>(result);
}

LOW_BINARY(add, x + y, static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b)))
LOW_BINARY(sub, x - y, static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b)))
LOW_BINARY(mul, x* y, static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b)))
LOW_BINARY(div, x / y, divide_integers(a, b))
LOW_BINARY(modulo, math::modulo(x, y), remainder_of_integers(a, b))
LOW_BINARY(pow, math::pow(x, y), power_of_integers(a, b))
// NaN wins. One choice between the two: of a chain of choices clang makes branches for GPUs.
LOW_BINARY(min, x != x || y >= x ? x : y, b < a ? b : a)
LOW_BINARY(max, x != x || y <= x ? x : y, b > a ? b : a)
#undef LOW_BINARY

template <typename T>
LOW_INLINE T neg(T a) {
  if constexpr (is_narrow<T>) {
    return encode<T, Overflow::propagate>(-decode(a));
  } else if constexpr (is_native_float<T>) {
    return -a;
  } else {
    return static_cast<T>(0 - static_cast<Wrap<T>>(a));
  }
}
template <typename T>
LOW_INLINE T abs(T a) {
  if constexpr (is_narrow<T>) {
    return encode<T, Overflow::propagate>(math::abs(decode(a)));
  } else if constexpr (is_native_float<T>) {
    return math::abs(a);
  } else if constexpr (is_signed<T>) {
    return a < 0 ? neg(a) : a;
  } else {
    return a;
  }
}
// Zeros and NaN are themselves.
template <typename T>
LOW_INLINE T sign(T a) {
  if constexpr (is_narrow<T>) {
    return encode<T, Overflow::propagate>(sign(decode(a)));
  } else if constexpr (is_native_float<T> || is_signed<T>) {
    return a > 0 ? T{1} : a < 0 ? static_cast<T>(-1) : a;
  } else {
    return a != 0 ? T{1} : T{0};
  }
}
template <typename T>
LOW_INLINE bool is_nan(T a) {
  if constexpr (is_narrow<T>) {
    return is_nan(decode(a));
  } else {
    return a != a;
  }
}

#define LOW_COMPARISON(name, op)     \
  template <typename T>              \
  LOW_INLINE bool name(T a, T b) {   \
    if constexpr (is_narrow<T>) {    \
      return decode(a) op decode(b); \
    } else {                         \
      return a op b;                 \
    }                                \
  }
LOW_COMPARISON(equal, ==)
LOW_COMPARISON(not_equal, !=)
LOW_COMPARISON(less, <)
LOW_COMPARISON(less_equal, <=)
LOW_COMPARISON(greater, >)
LOW_COMPARISON(greater_equal, >=)
#undef LOW_COMPARISON

// Without short circuits, which would be branches.
LOW_INLINE bool logical_not(bool a) { return !a; }
LOW_INLINE bool logical_and(bool a, bool b) { return (static_cast<int>(a) & static_cast<int>(b)) != 0; }
LOW_INLINE bool logical_or(bool a, bool b) { return (static_cast<int>(a) | static_cast<int>(b)) != 0; }
LOW_INLINE bool logical_xor(bool a, bool b) { return a != b; }
// On bit patterns; a shift by a negative count, or by all bits, leaves nothing.
template <typename T>
LOW_INLINE T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
LOW_INLINE T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
LOW_INLINE T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <typename T>
LOW_INLINE Wrap<T> bit_pattern(T a) {
  // Without the copies of the sign in front of a narrow integer.
  if constexpr (sizeof(T) < 4) {
    return static_cast<Wrap<T>>(a) & ((u32{1} << (8 * sizeof(T))) - 1);
  } else {
    return static_cast<Wrap<T>>(a);
  }
}
template <typename T>
LOW_INLINE T shift_left(T a, T count) {
  return bit_pattern(count) >= 8 * sizeof(T) ? T{0} : static_cast<T>(bit_pattern(a) << bit_pattern(count));
}
template <typename T>
LOW_INLINE T shift_right(T a, T count) {
  return bit_pattern(count) >= 8 * sizeof(T) ? T{0} : static_cast<T>(bit_pattern(a) >> bit_pattern(count));
}
template <typename T>
LOW_INLINE T where(bool condition, T a, T b) {
  return condition ? a : b;
}

// pow with the exponents that have a cheaper exact or nearly exact form.
template <typename T>
LOW_INLINE T square(T a) {
  return mul(a, a);
}
LOW_INLINE f32 cube(f32 a) { return a * a * a; }
LOW_INLINE f64 cube(f64 a) { return a * a * a; }

}  // namespace low::device
