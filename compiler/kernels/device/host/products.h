// How products are computed from packed operands. Packed operands are words, each what one instruction takes of the
// depth for one row or column; words travel in f32 registers, whatever they hold. A Products P has:
//   depth                                 elements of k in a word
//   word(p, stride, count)                the word of `count` elements, `stride` apart; 1 <= count <= depth
//   words(p)                              `lanes` words of elements that follow each other along k
//   columns(p, k_stride, count)           `lanes` words, one a column; columns follow each other, k is `k_stride` apart
//   columns(p, k_stride, count, w, x)     2 * lanes such words
//   panel_rows                            rows of a panel that are loaded together
//   panel(p, words)                       those words of such rows, from p on: [panel_rows / depth, vectors of a row]
//   panel(p, rows, words)                 the same with rows beyond the first few as zeros
//   add(a, b)                             a + b, of sums
//   multiply_add(a, b, total)             total + a * b for each lane, summed and rounded in the order of k
#pragma once

#include "compiler/kernels/device/host/integers.h"
#include "compiler/kernels/device/host/lanes.h"
#include "compiler/kernels/device/host/pairs.h"

namespace low::device {

// A word is an element, rounded to Math; not `scaled`: as of load_lanes.
template <typename Math, bool scaled = true>
struct ElementProducts {
  static constexpr i64 depth = 1;

  template <typename T>
  static LOW_INLINE f32 word(const T* p, i64, i64) {
    return to_math<Math>(*p);
  }
  template <typename T>
  static LOW_INLINE Vector words(const T* p) {
    return load_lanes<Math, scaled>(p);
  }
  template <typename T>
  static LOW_INLINE Vector columns(const T* p, i64, i64) {
    return load_lanes<Math, scaled>(p);
  }
  template <typename T>
  static LOW_INLINE void columns(const T* p, i64, i64, Vector& first, Vector& second) {
    load_lanes<Math, scaled>(p, first, second);
  }
  static constexpr i64 panel_rows = 1;
  template <typename T>
  static LOW_INLINE void panel(const T* p, Vector (&words)[1][panel_vectors]) {
    if constexpr (panel_vectors == 1) {
      words[0][0] = load_lanes<Math, scaled>(p);
    } else {
      load_lanes<Math, scaled>(p, words[0][0], words[0][1]);
    }
  }
  template <typename T>
  static LOW_INLINE void panel(const T* p, i64, Vector (&words)[1][panel_vectors]) {
    panel(p, words);
  }
  static LOW_INLINE Vector add(Vector a, Vector b) { return a + b; }
  static LOW_INLINE Vector multiply_add(Vector a, Vector b, Vector total) { return device::multiply_add(a, b, total); }
};

#if defined(LOW_TARGET_HOST_X86_64_V4_BF16)
// A word is a pair of bf16.
struct PairProducts {
  static constexpr i64 depth = 2;

  template <typename T>
  static LOW_INLINE f32 word(const T* p, i64 stride, i64 count) {
    return pair_of(p[0], count > 1 ? p[stride] : T{});
  }
  template <typename T>
  static LOW_INLINE Vector words(const T* p) {
    return pairs_of_run(p);
  }
  template <typename T>
  static LOW_INLINE Vector columns(const T* p, i64 k_stride, i64 count) {
    return pairs_of_rows<lanes>(p, next_row(p, k_stride, count), MakeIndices<2 * lanes>{}).first;
  }
  template <typename T>
  static LOW_INLINE void columns(const T* p, i64 k_stride, i64 count, Vector& first, Vector& second) {
    const PairWords words = pairs_of_rows<2 * lanes>(p, next_row(p, k_stride, count), MakeIndices<2 * lanes>{});
    first = words.first;
    second = words.second;
  }
  static constexpr i64 panel_rows = 4;
  template <typename T>
  static LOW_INLINE void panel(const T* p, Vector (&words)[2][1]) {
    pairs_of_panel(p, words[0][0], words[1][0], MakeIndices<2 * lanes>{});
  }
  template <typename T>
  static LOW_INLINE void panel(const T* p, i64 rows, Vector (&words)[2][1]) {
    T copy[panel_rows * panel_columns] = {};
    for (i64 i = 0; i < rows * panel_columns; ++i) copy[i] = p[i];
    panel(copy, words);
  }
  static LOW_INLINE Vector add(Vector a, Vector b) { return a + b; }
  static LOW_INLINE Vector multiply_add(Vector a, Vector b, Vector total) { return dot_add(a, b, total); }

 private:
  template <typename T>
  static LOW_INLINE const T* next_row(const T* p, i64 k_stride, i64 count) {
    static constexpr T zeros[2 * lanes] = {};
    return count > 1 ? p + k_stride : zeros;
  }
};
#else
struct PairProducts;
#endif

// What a kernel multiplies in: pairs, if its operands allow it and the target has dot products; bytes likewise.
template <typename Kernel>
inline constexpr bool has_pairs = has_dots && Kernel::pairs;
template <typename Kernel>
inline constexpr bool sums_integers =
    is_same<typename Kernel::Accumulate, i32> || is_same<typename Kernel::Accumulate, u32>;
template <typename T>
inline constexpr bool is_byte = is_same<T, i8> || is_same<T, u8>;
template <typename Kernel>
inline constexpr bool multiplies_bytes =
    sums_integers<Kernel> && is_byte<typename Kernel::A::Type> && is_byte<typename Kernel::B::Type> &&
    sizeof(typename Kernel::MathA) == 4 && sizeof(typename Kernel::MathB) == 4;
// Whether a's words are flipped, and there is one row more, whose sums are subtracted from those of all others.
template <typename Kernel>
inline constexpr bool flips_a =
    has_dots && multiplies_bytes<Kernel> && is_same<typename Kernel::A::Type, typename Kernel::B::Type>;
template <typename Kernel>
inline constexpr int flip_rows = flips_a<Kernel> ? 1 : 0;

template <typename P>
struct Chosen {
  using Type = P;
};
template <typename Kernel, typename Math, bool scaled>
constexpr auto choose_floats() {
  if constexpr (has_pairs<Kernel>) {
    return Chosen<PairProducts>{};
  } else {
    return Chosen<ElementProducts<Math, scaled>>{};
  }
}
template <typename Kernel, typename Math, bool scaled, bool flips>
constexpr auto choose_products() {
  if constexpr (multiplies_bytes<Kernel> && has_dots) {
    return Chosen<ByteProducts<is_same<typename Kernel::B::Type, i8>, flips>>{};
  } else if constexpr (multiplies_bytes<Kernel>) {
    return Chosen<ShortProducts>{};
  } else if constexpr (sums_integers<Kernel>) {
    return Chosen<IntegerProducts<Math>>{};
  } else {
    return choose_floats<Kernel, Math, scaled>();
  }
}
template <typename Kernel>
using ProductsOfA = typename decltype(choose_products<Kernel, typename Kernel::MathA, true, flips_a<Kernel>>())::Type;
template <typename Kernel, bool scaled = true>
using ProductsOfB = typename decltype(choose_products<Kernel, typename Kernel::MathB, scaled, false>())::Type;
// One type whatever elements were rounded to, so that kernels share their register kernels.
template <typename Kernel>
using RegisterProducts = typename decltype(choose_products<Kernel, typename Kernel::Accumulate, true, false>())::Type;

template <typename Products>
LOW_INLINE constexpr i64 words_of_depth(i64 depth) {
  return (depth + Products::depth - 1) / Products::depth;
}

}  // namespace low::device
