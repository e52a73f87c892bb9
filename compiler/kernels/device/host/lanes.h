// Vectors of f32 from elements of any storage format, and transposes of square blocks of them.
#pragma once

#include "compiler/kernels/device/host/target.h"

namespace low::device {

// Vectors in a row of a panel.
inline constexpr int panel_vectors = panel_columns / lanes;

// An element as the f32 that is multiplied: rounded to Math, unless it has that precision anyway.
template <typename Math, typename T>
inline constexpr bool keeps_value = is_same<Math, f32> || is_same<Math, T> || sizeof(T) < sizeof(Math);
template <typename Math, typename T>
LOW_INLINE f32 to_math(const T& element) {
  const auto value = load(&element);
  if constexpr (keeps_value<Math, T>) {
    return convert<f32>(value);  // f16 and bf16 hold all FP8 formats
  } else {
    return decode(convert<Math>(value));
  }
}

template <int count>
using Codes8 = i8 __attribute__((ext_vector_type(count)));
template <int count>
using Codes16 = i16 __attribute__((ext_vector_type(count)));
template <int count>
using Halves = _Float16 __attribute__((ext_vector_type(count)));

// FP8 formats whose codes, shifted, are those of f16 up to a power of two: hardware converts f16, subnormals included.
template <typename T>
inline constexpr bool is_like_half = is_same<T, f8e4m3fn> || is_same<T, f8e4m3fnuz> || is_same<T, f8e5m2>;

// `count` codes as f16; what these have to be multiplied with is half_scale. NaN has the bits that decode() gives it.
template <typename T, int count>
LOW_INLINE Codes16<count> half_codes(const T* p) {
  using Codes = Codes16<count>;
  const Codes wide = __builtin_convertvector(load_unaligned<Codes8<count>>(p), Codes);  // sign-extended
  if constexpr (is_same<T, f8e5m2>) {
    return wide << 8;
  } else {
    // The sign is in bits 7 to 15 of `wide`, and of the shifted code in bits 14 and 15: f16 wants it in bit 15 only.
    const Codes half = (wide << 7) & static_cast<i16>(0xbfff);
    const Codes nan = (wide & static_cast<i16>(0x8000)) | static_cast<i16>(0x7e00);
    if constexpr (is_same<T, f8e4m3fn>) {
      return (wide & 0x7f) == 0x7f ? nan : half;
    } else {
      return wide == static_cast<i16>(0xff80) ? nan : half;
    }
  }
}
template <typename T>
inline constexpr f32 half_scale = static_cast<f32>(1u << (15 - Format<T>::bias));

LOW_INLINE Vector from_halves(const Codes16<lanes>& codes) {
  return __builtin_convertvector(bits_as<Halves<lanes>>(codes), Vector);
}

// What elements are short of when they are not scaled: a power of two.
template <typename Math, typename T>
constexpr f32 missing_scale() {
  if constexpr (is_like_half<T> && keeps_value<Math, T>) {
    return half_scale<T>;
  } else {
    return 1;
  }
}

// `lanes` elements from p on; not `scaled`: divided by missing_scale.
template <typename Math, bool scaled = true, typename T>
LOW_INLINE Vector load_lanes(const T* p) {
  if constexpr (is_same<T, f32> && keeps_value<Math, T>) {
    return load_vector(p);
  } else if constexpr (is_like_half<T> && keeps_value<Math, T>) {
    const Vector value = from_halves(half_codes<T, lanes>(p));
    return scaled && half_scale<T> != 1 ? value * half_scale<T> : value;
  } else if constexpr (is_same<T, f16> && keeps_value<Math, T>) {
    return from_halves(load_unaligned<Codes16<lanes>>(p));
  } else if constexpr (is_same<T, bf16> && keeps_value<Math, T>) {
    using Wide = i32 __attribute__((ext_vector_type(lanes)));
    const Wide wide = __builtin_convertvector(load_unaligned<Codes16<lanes>>(p), Wide);
    return bits_as<Vector>(wide << 16);
  } else {
    alignas(64) f32 values[lanes];
#pragma clang loop vectorize(assume_safety)
    for (int j = 0; j < lanes; ++j) values[j] = to_math<Math>(p[j]);
    return load_vector(values);
  }
}

// 2 * lanes elements: for FP8, in full vectors of 16 bits.
template <typename Math, bool scaled = true, typename T>
LOW_INLINE void load_lanes(const T* p, Vector& first, Vector& second) {
  if constexpr (is_like_half<T> && keeps_value<Math, T>) {
    const Codes16<2 * lanes> codes = half_codes<T, 2 * lanes>(p);
    first = from_halves(codes.lo);
    second = from_halves(codes.hi);
    if constexpr (scaled && half_scale<T> != 1) first *= half_scale<T>, second *= half_scale<T>;
  } else {
    first = load_lanes<Math, scaled>(p);
    second = load_lanes<Math, scaled>(p + lanes);
  }
}

// Element i of vector j becomes element j of vector i. Groups of four lanes first, within which x86 shuffles at full
// speed, then whole groups.
template <int... i>
LOW_INLINE void transpose_groups(Vector (&v)[lanes], Indices<i...>) {
  // Within groups of four vectors, 4 x 4 elements in each group of lanes.
  constexpr auto low_of = [](int lane) { return lane / 4 * 4 + lane % 4 / 2 + (lane % 2) * lanes; };
  constexpr auto pair_of = [](int lane) { return lane / 4 * 4 + lane % 2 + (lane % 4 / 2) * lanes; };
#pragma unroll
  for (int j = 0; j < lanes; j += 4) {
    const Vector a = __builtin_shufflevector(v[j], v[j + 1], low_of(i)...);
    const Vector b = __builtin_shufflevector(v[j + 2], v[j + 3], low_of(i)...);
    const Vector c = __builtin_shufflevector(v[j], v[j + 1], (low_of(i) + 2)...);
    const Vector d = __builtin_shufflevector(v[j + 2], v[j + 3], (low_of(i) + 2)...);
    v[j] = __builtin_shufflevector(a, b, pair_of(i)...);
    v[j + 1] = __builtin_shufflevector(a, b, (pair_of(i) + 2)...);
    v[j + 2] = __builtin_shufflevector(c, d, pair_of(i)...);
    v[j + 3] = __builtin_shufflevector(c, d, (pair_of(i) + 2)...);
  }
}
// Groups [g] of vectors 4 h + r and 4 (h ^ distance) + r change places where bit `distance` of g and h differs.
template <int distance, int... i>
LOW_INLINE void swap_groups(Vector (&v)[lanes], Indices<i...>) {
  constexpr auto low_of = [](int lane) { return (lane / 4 & distance) == 0 ? lane : lane - 4 * distance + lanes; };
  constexpr auto high_of = [](int lane) { return (lane / 4 & distance) == 0 ? lane + 4 * distance : lane + lanes; };
#pragma unroll
  for (int j = 0; j < lanes; ++j) {
    if ((j / 4 & distance) != 0) continue;
    const Vector a = v[j], b = v[j + 4 * distance];
    v[j] = __builtin_shufflevector(a, b, low_of(i)...);
    v[j + 4 * distance] = __builtin_shufflevector(a, b, high_of(i)...);
  }
}
LOW_INLINE void transpose(Vector (&v)[lanes]) {
  using All = MakeIndices<lanes>;
  transpose_groups(v, All{});
  swap_groups<1>(v, All{});
  if constexpr (lanes == 16) swap_groups<2>(v, All{});
}

// out[i * out_stride + j] = value_at(i, j) for i < rows, j < columns; vector_at(i, j) is that of (i, j), (i + 1, j), ….
// `rows` and `columns` may be anything; what lies beyond is neither read nor written.
template <typename VectorAt, typename ValueAt>
LOW_INLINE void transpose_to(i64 rows, i64 columns, f32* out, i64 out_stride, VectorAt vector_at, ValueAt value_at) {
  if (columns < lanes || rows < lanes) {
    for (i64 j = 0; j < columns; ++j) {
#pragma clang loop vectorize(disable) unroll(disable)
      for (i64 i = 0; i < rows; ++i) out[i * out_stride + j] = value_at(i, j);
    }
    return;
  }
  // The last blocks overlap the ones before.
  for (i64 block_j = 0; block_j < columns; block_j += lanes) {
    const i64 j0 = smaller(block_j, columns - lanes);
    for (i64 block_i = 0; block_i < rows; block_i += lanes) {
      const i64 i0 = smaller(block_i, rows - lanes);
      Vector v[lanes];
#pragma unroll
      for (int j = 0; j < lanes; ++j) v[j] = vector_at(i0, j0 + j);
      transpose(v);
#pragma unroll
      for (int i = 0; i < lanes; ++i) store_vector(out + (i0 + i) * out_stride + j0, v[i]);
    }
  }
}

// out[i * out_stride + j] = from[j * from_stride + i], rounded to Math: elements of a column are neighbours in memory.
template <typename Math, typename T>
LOW_INLINE void transpose_to(const T* from, i64 from_stride, i64 rows, i64 columns, f32* out, i64 out_stride) {
  transpose_to(
      rows, columns, out, out_stride,
      [&](i64 i, i64 j) __attribute__((always_inline)) { return load_lanes<Math>(from + j * from_stride + i); },
      [&](i64 i, i64 j) __attribute__((always_inline)) { return to_math<Math>(from[j * from_stride + i]); });
}

}  // namespace low::device
