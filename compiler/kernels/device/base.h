// Types and attributes of the kernel library. Freestanding: no header of any vendor or system is included.
#pragma once

// clang-format off
using int8_t = __INT8_TYPE__;
using int16_t = __INT16_TYPE__;
using int32_t = __INT32_TYPE__;
using int64_t = __INT64_TYPE__;
using uint8_t = __UINT8_TYPE__;
using uint16_t = __UINT16_TYPE__;
using uint32_t = __UINT32_TYPE__;
using uint64_t = __UINT64_TYPE__;
using size_t = __SIZE_TYPE__;
// clang-format on

#define LOW_FREESTANDING
#define LOW_INLINE inline __attribute__((always_inline))
#define LOW_NOINLINE __attribute__((noinline))
// The memory that commands are in, where a target has one of its own for what does not change.
#ifndef LOW_CONSTANT
#define LOW_CONSTANT
#endif

namespace low::device {

using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using f32 = float;
using f64 = double;

// Narrow formats are their bits; a value is had by decode().
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct f8e4m3fn {
  u8 bits;
};
struct f8e5m2 {
  u8 bits;
};
struct f8e4m3fnuz {
  u8 bits;
};
struct f8e5m2fnuz {
  u8 bits;
};
// A boolean in memory: reading anything but 0 and 1 as bool would be undefined.
struct boolean {
  u8 bits;
};

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

template <int... I>
struct Indices {};
template <typename T, T... I>
struct IndexSequence {
  using Result = Indices<I...>;
};
template <int n>
using MakeIndices = typename __make_integer_seq<IndexSequence, int, n>::Result;

template <typename To, typename From>
LOW_INLINE constexpr To bits_as(From value) {
  return __builtin_bit_cast(To, value);
}

// A number that is known when compiling, as an argument.
template <i64 number>
struct Constant {
  static constexpr i64 value = number;
};
// f(Constant<value>{}) for a value of 1 to `most`.
template <i64 most, typename F>
LOW_INLINE void with_constant(i64 value, F f) {
  if constexpr (most > 1) {
    if (value != most) return with_constant<most - 1>(value, f);
  }
  f(Constant<most>{});
}

LOW_INLINE constexpr i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

}  // namespace low::device
