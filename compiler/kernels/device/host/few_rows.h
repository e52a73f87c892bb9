// Products with few rows (a vector times a matrix, say): every element of b is used a few times only, so it goes from
// where it lies to registers and is decoded there, without being packed first. The sums are those of the packed kernel,
// bit for bit: over a slice of the depth in the order of k, then slice by slice.
#pragma once

#include "compiler/kernels/device/host/operand.h"
#include "compiler/kernels/device/host/products.h"

namespace low::device {

// A row of b is short and the next one is far away, which hardware prefetchers do not foresee: about so many bytes are
// asked for in advance.
inline constexpr i64 prefetch_bytes = 4096;

// Vectors of sums that fit into registers besides operands and constants of decoding.
inline constexpr int sum_vectors = lanes == 16 ? 20 : 10;
// Panels that are read at once: as many streams of memory.
inline constexpr int panels_at_once = 8;
// With more rows, packing pays.
inline constexpr int few_rows = lanes == 16 ? most_unrolled_rows : 3;

// Whether the scale of b's decoded elements is left to those of a, of which there are fewer. Exact: formats of small
// range, and powers of two, so that all products are the same.
template <typename Kernel>
inline constexpr bool scales_a =
    !has_pairs<Kernel> && missing_scale<typename Kernel::MathB, typename Kernel::B::Type>() != 1 &&
    (is_like_half<typename Kernel::A::Type> || is_same<typename Kernel::A::Type, f16>);

// sums[i, v] (+)= total[i][v].
template <typename Products, int rows, int vectors>
LOW_INLINE void store_sums(Vector (&total)[rows][vectors], f32* sums, i64 sums_stride, bool add) {
#pragma unroll
  for (int i = 0; i < rows; ++i) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      f32* to = sums + i * sums_stride + v * lanes;
      if (add) total[i][v] = Products::add(total[i][v], load_vector(to));
      store_vector(to, total[i][v]);
    }
  }
}

// Calls f(first, Constant<size>) for nearly equal chunks of [0, count), of at most `most`.
template <int most, typename F>
LOW_INLINE void for_each_chunk(i64 count, F f) {
  const i64 chunks = (count + most - 1) / most;
  for (i64 chunk = 0, first = 0; chunk < chunks; ++chunk) {
    const i64 size = (count - first) / (chunks - chunk);
    with_constant<most>(size, [&](auto constant) __attribute__((always_inline)) { f(first, constant); });
    first += size;
  }
}

// sums[i, v] (+)= sum over k of a[i, k] * b[k, columns of vector v], with a as words; vector v begins at column v *
// lanes, the last one at `last`.
template <typename Products, int rows, int vectors, typename T>
LOW_NOINLINE void multiply_columns(const f32* a, i64 a_stride, const T* b, i64 k_stride, i64 last, i64 depth, f32* sums,
                                   i64 sums_stride, bool add) {
  constexpr i64 row_bytes = vectors * lanes * static_cast<i64>(sizeof(T)), step = Products::depth;
  constexpr i64 ahead = 1 + prefetch_bytes / row_bytes;
  Vector total[rows][vectors] = {};
  // Few multiply-adds a step: the loop itself would show.
#pragma clang loop unroll_count(rows* vectors <= 8 ? 2 : 1)
  for (i64 word = 0; word < words_of_depth<Products>(depth); ++word) {
    const T* const row = b + word * step * k_stride;
    const i64 left = depth - word * step;
#pragma unroll
    for (i64 next = 0; next < step; ++next) {
      const auto* later = reinterpret_cast<const unsigned char*>(row + (ahead + next) * k_stride);
#pragma unroll
      for (i64 line = 0; line < row_bytes; line += 64) __builtin_prefetch(later + line);
    }
    const auto accumulate = [&](int v, Vector columns) __attribute__((always_inline)) {
#pragma unroll
      for (int i = 0; i < rows; ++i)
        total[i][v] = Products::multiply_add(splat(a[i * a_stride + word]), columns, total[i][v]);
    };
#pragma unroll
    for (int v = 0; v < vectors - 1; v += 2) {
      if (v + 1 == vectors - 1) {
        accumulate(v, Products::columns(row + v * lanes, k_stride, left));
      } else {
        Vector first, second;
        Products::columns(row + v * lanes, k_stride, left, first, second);
        accumulate(v, first);
        accumulate(v + 1, second);
      }
    }
    accumulate(vectors - 1, Products::columns(row + last, k_stride, left));
  }
  store_sums<Products>(total, sums, sums_stride, add);
}

// One slice of the depth for `columns` columns, at least `lanes` many: in vectors, the last of which may overlap the
// one before it, and vectors in nearly equal chunks.
template <typename Kernel>
LOW_INLINE void multiply_few_rows(const f32* a, i64 a_stride, const typename Kernel::B::Type* b, i64 k_stride,
                                  i64 depth, i64 columns, f32* sums, i64 sums_stride, bool add) {
  using Products = ProductsOfB<Kernel, !scales_a<Kernel>>;
  constexpr int rows = Kernel::rows + flip_rows<Kernel>, most = sum_vectors / rows;
  for_each_chunk<most>((columns + lanes - 1) / lanes, [&](i64 first, auto size) __attribute__((always_inline)) {
    constexpr int vectors = decltype(size)::value;
    const i64 last = smaller((first + vectors - 1) * lanes, columns - lanes) - first * lanes;
    multiply_columns<Products, rows, vectors>(a, a_stride, b + first * lanes, k_stride, last, depth,
                                              sums + first * lanes, sums_stride, add);
  });
}

// The same as multiply_columns for vectors of panels, `panel_stride` elements apart.
template <typename Products, int rows, int vectors, typename T>
LOW_NOINLINE void multiply_panel_columns(const f32* a, i64 a_stride, const T* b, i64 panel_stride, i64 depth, f32* sums,
                                         i64 sums_stride, bool add) {
  constexpr i64 step = Products::panel_rows, words = step / Products::depth;
  constexpr int panels = vectors / panel_vectors;
  Vector total[rows][vectors] = {};
  const auto accumulate = [&](int panel, i64 row, i64 count,
                              Vector(&loaded)[words][panel_vectors]) __attribute__((always_inline)) {
#pragma unroll
    for (int w = 0; w < words; ++w) {
      if (w >= count) break;
#pragma unroll
      for (int v = 0; v < panel_vectors; ++v) {
#pragma unroll
        for (int i = 0; i < rows; ++i) {
          Vector& t = total[i][panel * panel_vectors + v];
          t = Products::multiply_add(splat(a[i * a_stride + row / Products::depth + w]), loaded[w][v], t);
        }
      }
    }
  };
  i64 row = 0;
  for (; row + step <= depth; row += step) {
#pragma unroll
    for (int panel = 0; panel < panels; ++panel) {
      Vector loaded[words][panel_vectors];
      Products::panel(b + panel * panel_stride + row * panel_columns, loaded);
      accumulate(panel, row, words, loaded);
    }
  }
  if (row < depth) {
#pragma unroll
    for (int panel = 0; panel < panels; ++panel) {
      Vector loaded[words][panel_vectors];
      Products::panel(b + panel * panel_stride + row * panel_columns, depth - row, loaded);
      accumulate(panel, row, words_of_depth<Products>(depth - row), loaded);
    }
  }
  store_sums<Products>(total, sums, sums_stride, add);
}

// One slice of the depth for the panels of `columns` columns, in nearly equal chunks.
template <typename Kernel>
LOW_INLINE void multiply_few_rows_of_panels(const f32* a, i64 a_stride, const typename Kernel::B::Type* b,
                                            i64 panel_stride, i64 depth, i64 columns, f32* sums, i64 sums_stride,
                                            bool add) {
  using Products = ProductsOfB<Kernel, !scales_a<Kernel>>;
  constexpr int rows = Kernel::rows + flip_rows<Kernel>,
                most = smaller(sum_vectors / rows / panel_vectors, panels_at_once);
  const i64 panels = (columns + panel_columns - 1) / panel_columns;
  for_each_chunk<most>(panels, [&](i64 first, auto size) __attribute__((always_inline)) {
    multiply_panel_columns<Products, rows, decltype(size)::value * panel_vectors>(
        a, a_stride, b + first * panel_stride, panel_stride, depth, sums + first * panel_columns, sums_stride, add);
  });
}

// The last vector of sums moves to where its columns are.
LOW_INLINE void close_gap(i64 rows, i64 columns, f32* sums, i64 sums_stride) {
  if (columns % lanes != 0) {
    for (i64 i = 0; i < rows; ++i) {
      f32* row = sums + i * sums_stride;
      store_vector(row + columns - lanes, load_vector(row + columns / lanes * lanes));
    }
  }
}

}  // namespace low::device
