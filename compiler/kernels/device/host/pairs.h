// Pairs of bf16, of targets whose dot products multiply such (dot_add in the target's header). A pair is a word of 32
// bits that travels as f32; the element that is added first, the one of smaller k, is its upper half.
#pragma once

#include "compiler/kernels/device/host/lanes.h"

namespace low::device {

#if defined(LOW_TARGET_HOST_X86_64_V4_BF16)

inline constexpr bool has_dots = true;

// FP8 and bf16 have no bits that bf16 lacks.
template <typename T>
LOW_INLINE f32 pair_of(const T& first, const T& second) {
  const u32 upper = bits_as<u32>(to_math<bf16>(first)), lower = bits_as<u32>(to_math<bf16>(second));
  return bits_as<f32>((upper & 0xffff0000) | lower >> 16);
}

using Bytes = u8 __attribute__((ext_vector_type(64)));

// The bytes of the bf16 codes of all 128 magnitudes.
template <typename T>
struct PairTables {
  u8 lower[128], upper[128];
};
template <typename T>
constexpr PairTables<T> make_pair_tables() {
  PairTables<T> tables{};
  for (u32 code = 0; code < 128; ++code) {
    const u32 bits = bits_as<u32>(decode(T{static_cast<u8>(code)})) >> 16;
    tables.lower[code] = static_cast<u8>(bits);
    tables.upper[code] = static_cast<u8>(bits >> 8);
  }
  return tables;
}
template <typename T>
inline constexpr PairTables<T> pair_tables = make_pair_tables<T>();

// The lower and the upper bytes of the bf16 codes of 64 FP8 codes.
struct HalfBytes {
  Bytes lower, upper;
};
template <typename T>
LOW_INLINE HalfBytes half_bytes(Bytes codes) {
  const u8* const lower = pair_tables<T>.lower;
  const u8* const upper = pair_tables<T>.upper;
  // Signs do not count as an index.
  HalfBytes halves{pick_bytes(load_unaligned<Bytes>(lower), load_unaligned<Bytes>(lower + 64), codes),
                   pick_bytes(load_unaligned<Bytes>(upper), load_unaligned<Bytes>(upper + 64), codes)};
  halves.upper |= codes & static_cast<u8>(0x80);
  if constexpr (Format<T>::special == Special::fnuz) {
    const auto is_nan = codes == static_cast<u8>(0x80);
    halves.lower = is_nan ? Bytes(0xc0) : halves.lower;
    halves.upper = is_nan ? Bytes(0xff) : halves.upper;
  }
  return halves;
}

template <typename Row, int... i>
LOW_INLINE Bytes joined(Row a, Row b, Indices<i...>) {
  return __builtin_shufflevector(a, b, i...);
}

// Word w: code first + w * step, and the code `second` further.
template <int first, int step, int second, int... byte>
LOW_INLINE Vector words_of(const HalfBytes& halves, Indices<byte...>) {
  constexpr auto source = [](int i) {
    const int code = first + i / 4 * step + (i % 4 < 2 ? second : 0);
    return static_cast<u8>(i % 2 == 1 ? 64 + code : code);
  };
  return bits_as<Vector>(pick_bytes(halves.lower, halves.upper, Bytes{source(byte)...}));
}

// `lanes` words of 2 * lanes elements that follow each other along k.
template <typename T>
LOW_INLINE Vector pairs_of_run(const T* p) {
  if constexpr (is_same<T, bf16>) {
    using Words = u32 __attribute__((ext_vector_type(lanes)));
    const Words words = load_unaligned<Words>(p);
    return bits_as<Vector>(words << 16 | words >> 16);
  } else {
    Bytes codes = {};
    __builtin_memcpy(&codes, p, 2 * lanes);
    return words_of<0, 2, 1>(half_bytes<T>(codes), MakeIndices<64>{});
  }
}

// Words of `columns` neighbouring columns, lanes or 2 * lanes, of two rows of k.
struct PairWords {
  Vector first, second;
};
template <int columns, typename T, int... i>
LOW_INLINE PairWords pairs_of_rows(const T* first, const T* second, Indices<i...>) {
  using Row = decltype(T::bits) __attribute__((ext_vector_type(2 * lanes)));
  Row a = {}, b = {};
  __builtin_memcpy(&a, first, columns * sizeof(T));
  __builtin_memcpy(&b, second, columns * sizeof(T));
  if constexpr (is_same<T, bf16>) {
    return {bits_as<Vector>(__builtin_shufflevector(b, a, (i / 2 + i % 2 * 2 * lanes)...)),
            bits_as<Vector>(__builtin_shufflevector(b, a, (lanes + i / 2 + i % 2 * 2 * lanes)...))};
  } else {
    const HalfBytes halves = half_bytes<T>(joined(a, b, MakeIndices<64>{}));
    return {words_of<0, 1, 2 * lanes>(halves, MakeIndices<64>{}),
            words_of<lanes, 1, 2 * lanes>(halves, MakeIndices<64>{})};
  }
}

// Words of four rows of a panel of lanes columns, which follow each other: of rows 0 and 1, and of rows 2 and 3.
template <typename T, int... i>
LOW_INLINE void pairs_of_panel(const T* p, Vector& first, Vector& second, Indices<i...>) {
  if constexpr (is_same<T, bf16>) {
    using Rows = u16 __attribute__((ext_vector_type(2 * lanes)));
    const Rows a = load_unaligned<Rows>(p), b = load_unaligned<Rows>(p + 2 * lanes);
    first = bits_as<Vector>(__builtin_shufflevector(a, a, (i / 2 + (1 - i % 2) * lanes)...));
    second = bits_as<Vector>(__builtin_shufflevector(b, b, (i / 2 + (1 - i % 2) * lanes)...));
  } else {
    const HalfBytes halves = half_bytes<T>(load_unaligned<Bytes>(p));
    first = words_of<0, 1, lanes>(halves, MakeIndices<64>{});
    second = words_of<2 * lanes, 1, lanes>(halves, MakeIndices<64>{});
  }
}

#else
inline constexpr bool has_dots = false;
#endif

}  // namespace low::device
