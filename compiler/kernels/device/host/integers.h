// Products of integers whose sums have 32 bits: words that travel as f32 hold integers here. Sums wrap around, so their
// order does not matter, and signed and unsigned ones have the same bits. What a Products is, products.h says.
#pragma once

#include "compiler/kernels/device/host/pairs.h"

namespace low::device {

LOW_INLINE Vector add_words(Vector a, Vector b) {
  using Words = u32 __attribute__((ext_vector_type(lanes)));
  return bits_as<Vector>(bits_as<Words>(a) + bits_as<Words>(b));
}
LOW_INLINE Vector subtract_words(Vector a, Vector b) {
  using Words = u32 __attribute__((ext_vector_type(lanes)));
  return bits_as<Vector>(bits_as<Words>(a) - bits_as<Words>(b));
}

// A word is an element, converted to Math.
template <typename Math>
struct IntegerProducts {
  static constexpr i64 depth = 1;

  template <typename T>
  static LOW_INLINE f32 word(const T* p, i64, i64) {
    return bits_as<f32>(static_cast<u32>(convert<Math>(load(p))));
  }
  template <typename T>
  static LOW_INLINE Vector words(const T* p) {
    alignas(64) f32 values[lanes];
#pragma clang loop vectorize(assume_safety)
    for (int j = 0; j < lanes; ++j) values[j] = word(p + j, 1, 1);
    return load_vector(values);
  }
  template <typename T>
  static LOW_INLINE Vector columns(const T* p, i64, i64) {
    return words(p);
  }
  template <typename T>
  static LOW_INLINE void columns(const T* p, i64, i64, Vector& first, Vector& second) {
    first = words(p);
    second = words(p + lanes);
  }
  static constexpr i64 panel_rows = 1;
  template <typename T>
  static LOW_INLINE void panel(const T* p, Vector (&loaded)[1][panel_vectors]) {
#pragma unroll
    for (int v = 0; v < panel_vectors; ++v) loaded[0][v] = words(p + v * lanes);
  }
  template <typename T>
  static LOW_INLINE void panel(const T* p, i64, Vector (&loaded)[1][panel_vectors]) {
    panel(p, loaded);
  }
  static LOW_INLINE Vector add(Vector a, Vector b) { return add_words(a, b); }
  static LOW_INLINE Vector multiply_add(Vector a, Vector b, Vector total) {
    using Words = u32 __attribute__((ext_vector_type(lanes)));
    return bits_as<Vector>(bits_as<Words>(total) + bits_as<Words>(a) * bits_as<Words>(b));
  }
};

// A word is two elements of 8 bits, each as 16.
struct ShortProducts {
  static constexpr i64 depth = 2;

  template <typename T>
  static LOW_INLINE f32 word(const T* p, i64 stride, i64 count) {
    const u32 lower = static_cast<u16>(static_cast<i16>(p[0]));
    const u32 upper = count > 1 ? static_cast<u16>(static_cast<i16>(p[stride])) : 0;
    return bits_as<f32>(upper << 16 | lower);
  }
  template <typename T>
  static LOW_INLINE Vector words(const T* p) {
    return bits_as<Vector>(wide<2 * lanes>(p));
  }
  template <typename T>
  static LOW_INLINE Vector columns(const T* p, i64 k_stride, i64 count) {
    return interleaved<0>(wide<lanes>(p), count > 1 ? wide<lanes>(p + k_stride) : Shorts<lanes>(0),
                          MakeIndices<2 * lanes>{});
  }
  template <typename T>
  static LOW_INLINE void columns(const T* p, i64 k_stride, i64 count, Vector& first, Vector& second) {
    const Shorts<2 * lanes> a = wide<2 * lanes>(p);
    const Shorts<2 * lanes> b = count > 1 ? wide<2 * lanes>(p + k_stride) : Shorts<2 * lanes>(0);
    first = interleaved<0>(a, b, MakeIndices<2 * lanes>{});
    second = interleaved<lanes>(a, b, MakeIndices<2 * lanes>{});
  }
  static constexpr i64 panel_rows = 2;
  template <typename T>
  static LOW_INLINE void panel(const T* p, i64 rows, Vector (&loaded)[1][panel_vectors]) {
    if constexpr (panel_vectors == 1) {
      loaded[0][0] = columns(p, panel_columns, rows);
    } else {
      columns(p, panel_columns, rows, loaded[0][0], loaded[0][1]);
    }
  }
  template <typename T>
  static LOW_INLINE void panel(const T* p, Vector (&loaded)[1][panel_vectors]) {
    panel(p, panel_rows, loaded);
  }
  static LOW_INLINE Vector add(Vector a, Vector b) { return add_words(a, b); }
  static LOW_INLINE Vector multiply_add(Vector a, Vector b, Vector total) {
    return add_words(total, multiply_shorts(a, b));
  }

 private:
  template <int count>
  using Shorts = i16 __attribute__((ext_vector_type(count)));

  template <int count, typename T>
  static LOW_INLINE Shorts<count> wide(const T* p) {
    using Narrow = T __attribute__((ext_vector_type(count)));
    return __builtin_convertvector(load_unaligned<Narrow>(p), Shorts<count>);
  }
  // Elements from `first` on of a and of b in turns.
  template <int first, int count, int... i>
  static LOW_INLINE Vector interleaved(Shorts<count> a, Shorts<count> b, Indices<i...>) {
    return bits_as<Vector>(__builtin_shufflevector(a, b, (first + i / 2 + i % 2 * count)...));
  }
};

#if defined(LOW_TARGET_HOST_X86_64_V4_BF16)
// A word is four elements of 8 bits. The instruction multiplies unsigned by signed ones: where a and b are alike, a's
// most significant bits are flipped, which adds 128 to each of its elements (or subtracts it, read as signed), and the
// sum of 128 * b has to be subtracted (or added): that of a row of a whose elements were 0.
template <bool b_signed, bool flips>
struct ByteProducts {
  static constexpr i64 depth = 4;

  template <typename T>
  static LOW_INLINE f32 word(const T* p, i64 stride, i64 count) {
    u32 bits = 0;
#pragma unroll
    for (i64 i = 0; i < depth; ++i) bits |= i < count ? static_cast<u32>(static_cast<u8>(p[i * stride])) << 8 * i : 0;
    return bits_as<f32>(flips ? bits ^ 0x80808080 : bits);
  }
  template <typename T>
  static LOW_INLINE Vector words(const T* p) {
    return flipped(load_unaligned<Bytes>(p));
  }
  template <typename T>
  static LOW_INLINE Vector columns(const T* p, i64 k_stride, i64 count) {
    const auto row = [&](i64 i) __attribute__((always_inline)) {
      return i < count ? load_unaligned<Row>(p + i * k_stride) : Row(0);
    };
    const auto lower = __builtin_shufflevector(row(0), row(1), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                                               17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const auto upper = __builtin_shufflevector(row(2), row(3), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                                               17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    return of_rows(joined(lower, upper, MakeIndices<64>{}), MakeIndices<64>{});
  }
  template <typename T>
  static LOW_INLINE void columns(const T* p, i64 k_stride, i64 count, Vector& first, Vector& second) {
    first = columns(p, k_stride, count);
    second = columns(p + lanes, k_stride, count);
  }
  static constexpr i64 panel_rows = 4;
  template <typename T>
  static LOW_INLINE void panel(const T* p, Vector (&loaded)[1][1]) {
    loaded[0][0] = of_rows(load_unaligned<Bytes>(p), MakeIndices<64>{});
  }
  template <typename T>
  static LOW_INLINE void panel(const T* p, i64 rows, Vector (&loaded)[1][1]) {
    loaded[0][0] = columns(p, panel_columns, rows);
  }
  static LOW_INLINE Vector add(Vector a, Vector b) { return add_words(a, b); }
  static LOW_INLINE Vector multiply_add(Vector a, Vector b, Vector total) {
    return b_signed ? dot_add_bytes(a, b, total) : dot_add_bytes(b, a, total);
  }

 private:
  using Row = u8 __attribute__((ext_vector_type(lanes)));

  static LOW_INLINE Vector flipped(Bytes bytes) {
    return bits_as<Vector>(flips ? bytes ^ static_cast<u8>(0x80) : bytes);
  }
  // Four rows of `lanes` elements, one after another.
  template <int... i>
  static LOW_INLINE Vector of_rows(Bytes rows, Indices<i...>) {
    return flipped(__builtin_shufflevector(rows, rows, (i / 4 + i % 4 * lanes)...));
  }
};
#else
template <bool b_signed, bool flips>
struct ByteProducts;
#endif

}  // namespace low::device
