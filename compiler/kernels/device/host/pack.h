// Operands of products as words, which products.h explains.
#pragma once

#include "compiler/kernels/device/host/operand.h"
#include "compiler/kernels/device/host/products.h"

namespace low::device {

// Words of rows x depth elements to `out`, row by row, `out_stride` words apart.
template <typename Products, Access along_rows, Access along_k, typename T>
LOW_NOINLINE void pack_rows(const T* from, i64 row_stride, i64 k_stride, i64 rows, i64 depth, f32* out,
                            i64 out_stride) {
  constexpr i64 step = Products::depth;
  const i64 words = words_of_depth<Products>(depth);
  const auto word_at = [&](i64 i, i64 word) __attribute__((always_inline)) {
    return Products::word(from + i * row_stride + word * step * k_stride, k_stride, depth - word * step);
  };
  if constexpr (along_k == Access::unit) {
    const i64 whole = depth / step;
    for (i64 i = 0; i < rows; ++i) {
      i64 word = 0;
      if (whole >= lanes) {
        // The last vector overlaps the one before it.
        for (; word < whole; word += lanes) {
          const i64 at = smaller(word, whole - lanes);
          store_vector(out + i * out_stride + at, Products::words(from + i * row_stride + at * step));
        }
        word = whole;
      }
#pragma clang loop vectorize(disable) unroll(disable)
      for (; word < words; ++word) out[i * out_stride + word] = word_at(i, word);
    }
  } else if constexpr (along_rows == Access::unit) {
    transpose_to(
        rows, words, out, out_stride,
        [&](i64 i, i64 word) __attribute__((always_inline)) {
          return Products::columns(from + i + word * step * k_stride, k_stride, depth - word * step);
        },
        word_at);
  } else {
    for (i64 word = 0; word < words; ++word) {
      for (i64 i = 0; i < rows; ++i) out[i * out_stride + word] = word_at(i, word);
    }
  }
}

// The same transposed: out[word * out_stride + i] is a word of row i.
template <typename Products, Access along_rows, Access along_k, typename T>
LOW_NOINLINE void pack_columns(const T* from, i64 row_stride, i64 k_stride, i64 rows, i64 depth, f32* out,
                               i64 out_stride) {
  constexpr i64 step = Products::depth;
  const i64 words = words_of_depth<Products>(depth);
  const auto word_at = [&](i64 word, i64 i) __attribute__((always_inline)) {
    return Products::word(from + i * row_stride + word * step * k_stride, k_stride, depth - word * step);
  };
  i64 done = 0;  // words
  if constexpr (along_rows == Access::unit) {
    if (rows >= lanes) {
      for (; done < words; ++done) {
        // The last vector overlaps the one before it.
        for (i64 i = 0; i < rows; i += lanes) {
          const i64 at = smaller(i, rows - lanes);
          store_vector(out + done * out_stride + at,
                       Products::columns(from + at + done * step * k_stride, k_stride, depth - done * step));
        }
      }
    }
  } else if constexpr (along_k == Access::unit) {
    done = depth / step;
    transpose_to(
        done, rows, out, out_stride,
        [&](i64 word, i64 i)
            __attribute__((always_inline)) { return Products::words(from + word * step + i * row_stride); },
        word_at);
  }
  for (; done < words; ++done) {
    for (i64 i = 0; i < rows; ++i) out[done * out_stride + i] = word_at(done, i);
  }
}

}  // namespace low::device
