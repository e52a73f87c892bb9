// gemm: result[m, n] = body(sum over k of a[m, k] * b[k, n], extras…[m, n]…).
//
// A kernel K has: rows (m where it is few and unrolled, or 0); MathA, MathB, Accumulate; pairs (whether these are bf16,
// bf16 and f32, and bf16 holds what a and b store); A, B, Result = OperandOf<…>; Extras = List<OperandOf<…>…>;
// body(sum, values…). The result must not overlap a or b; it may lie exactly where an extra lies.
//
// f32 sums have one order on all targets and for all m and n: fused multiply-adds in the order of k within a slice of
// the depth (tiling.h's block_k, nearly equal slices), then slice by slice. So an element depends on its row and column
// alone, to the last bit.
#pragma once

#include "compiler/kernels/device/few_rows.h"
#include "compiler/kernels/device/operand.h"
#include "compiler/kernels/device/products.h"

namespace low::device {

// rows x depth elements of a to `out` as words, row by row, `out_stride` words apart.
template <typename Products, Access along_rows, Access along_k, typename T>
LOW_NOINLINE void pack_a(const T* a, i64 row_stride, i64 k_stride, i64 rows, i64 depth, f32* out, i64 out_stride) {
  constexpr i64 step = Products::depth;
  const i64 words = words_of_depth<Products>(depth);
  const auto word_at = [&](i64 i, i64 word) __attribute__((always_inline)) {
    return Products::word(a + i * row_stride + word * step * k_stride, k_stride, depth - word * step);
  };
  if constexpr (along_k == Access::unit) {
    const i64 whole = depth / step;
    for (i64 i = 0; i < rows; ++i) {
      i64 word = 0;
      if (whole >= lanes) {
        // The last vector overlaps the one before it.
        for (; word < whole; word += lanes) {
          const i64 at = smaller(word, whole - lanes);
          store_vector(out + i * out_stride + at, Products::words(a + i * row_stride + at * step));
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
          return Products::columns(a + i + word * step * k_stride, k_stride, depth - word * step);
        },
        word_at);
  } else {
    for (i64 word = 0; word < words; ++word) {
      for (i64 i = 0; i < rows; ++i) out[i * out_stride + word] = word_at(i, word);
    }
  }
}

// Packed b: panels of panel_columns words a row, one after another. Where the second vector of a row's panel_n words is.
LOW_INLINE constexpr i64 second_vector(i64 words) { return panel_vectors == 1 ? words * panel_columns : lanes; }

// depth x columns elements of b to `out` as words of panel_n columns; columns beyond are 0.
template <typename Products, Access along_k, Access along_columns, typename T>
LOW_NOINLINE void pack_b(const T* b, i64 k_stride, i64 column_stride, i64 depth, i64 columns, f32* out) {
  constexpr int width = tiling.panel_n;
  constexpr i64 step = Products::depth;
  const i64 words = words_of_depth<Products>(depth), second = second_vector(words);
  if constexpr (along_columns == Access::unit) {
    for (i64 word = 0; word < words; ++word) {
      const T* from = b + word * step * k_stride;
      i64 stride = k_stride;
      T tail[step * width];
      if (columns < width) {
        const i64 count = smaller(step, depth - word * step);
        for (i64 j = 0; j < step * width; ++j) tail[j] = T{};
        for (i64 i = 0; i < count; ++i) {
          for (i64 j = 0; j < columns; ++j) tail[i * width + j] = from[i * k_stride + j];
        }
        from = tail;
        stride = width;
      }
      Vector vectors[2];
      Products::columns(from, stride, depth - word * step, vectors[0], vectors[1]);
      store_vector(out + word * panel_columns, vectors[0]);
      store_vector(out + second + word * panel_columns, vectors[1]);
    }
  } else {
    for (i64 first = 0; first < width; first += panel_columns, out += words * panel_columns) {
      const T* const from = b + first * column_stride;
      const i64 count = columns < first ? 0 : smaller(columns - first, panel_columns);
      const auto word_at = [&](i64 word, i64 j) __attribute__((always_inline)) {
        return Products::word(from + word * step * k_stride + j * column_stride, k_stride, depth - word * step);
      };
      const i64 whole = along_k == Access::unit ? depth / step : 0;
      if constexpr (along_k == Access::unit) {
        transpose_to(
            whole, count, out, panel_columns,
            [&](i64 word, i64 j)
                __attribute__((always_inline)) { return Products::words(from + word * step + j * column_stride); },
            word_at);
      }
      for (i64 j = 0; j < panel_columns; ++j) {
        for (i64 word = j < count ? whole : 0; word < words; ++word)
          out[word * panel_columns + j] = j < count ? word_at(word, j) : 0;
      }
    }
  }
}

// The same of panels in memory, `panel_stride` elements apart; the second one may not be there.
template <typename Products, typename T>
LOW_NOINLINE void pack_panels(const T* b, i64 panel_stride, i64 depth, i64 columns, f32* out) {
  constexpr i64 step = Products::panel_rows;
  const i64 words = words_of_depth<Products>(depth);
  for (i64 first = 0; first < tiling.panel_n; first += panel_columns, out += words * panel_columns) {
    const T* const from = b + (first < columns ? first / panel_columns * panel_stride : 0);
    const auto store = [&](i64 row, Vector(&loaded)[step / Products::depth][panel_vectors])
                           __attribute__((always_inline)) {
#pragma unroll
                             for (int w = 0; w < step / Products::depth; ++w) {
                               const i64 word = row / Products::depth + w;
                               if (word >= words) break;
#pragma unroll
                               for (int v = 0; v < panel_vectors; ++v)
                                 store_vector(out + word * panel_columns + v * lanes, loaded[w][v]);
                             }
                           };
    i64 row = 0;
    for (; row + step <= depth; row += step) {
      Vector loaded[step / Products::depth][panel_vectors];
      Products::panel(from + row * panel_columns, loaded);
      store(row, loaded);
    }
    if (row < depth) {
      Vector loaded[step / Products::depth][panel_vectors];
      Products::panel(from + row * panel_columns, depth - row, loaded);
      store(row, loaded);
    }
  }
}

// Whether panels are multiplied where they lie.
template <typename Kernel>
inline constexpr bool reads_panels = Kernel::panels && !has_pairs<Kernel> && is_same<typename Kernel::B::Type, f32> &&
                                     is_same<typename Kernel::MathB, f32>;

template <typename Products>
inline constexpr i64 packed_a_stride = packed_row_words(tiling, Products::depth);

// sums[i, j] (+)= sum over k of a[i, k] * b[k, j] for `rows` rows and panel_n columns of packed operands, in registers.
// `second`: where the second vectors of b are.
template <int rows, typename Products>
LOW_NOINLINE void multiply_rows(const f32* a, const f32* b, i64 second, i64 words, f32* sums, i64 sums_stride,
                                bool add) {
  Vector total[rows][2] = {};
  for (i64 k = 0; k < words; ++k) {
    const Vector b0 = load_vector(b + k * panel_columns), b1 = load_vector(b + second + k * panel_columns);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const Vector ai = splat(a[i * packed_a_stride<Products> + k]);
      total[i][0] = Products::multiply_add(ai, b0, total[i][0]);
      total[i][1] = Products::multiply_add(ai, b1, total[i][1]);
    }
  }
  store_sums(total, sums, sums_stride, add);
}

template <int rows, typename Products>
LOW_INLINE void multiply_some(i64 count, const f32* a, const f32* b, i64 second, i64 words, f32* sums, i64 sums_stride,
                              bool add) {
  if constexpr (rows > 0) {
    if (count == rows) {
      multiply_rows<rows, Products>(a, b, second, words, sums, sums_stride, add);
    } else {
      multiply_some<rows - 1, Products>(count, a, b, second, words, sums, sums_stride, add);
    }
  }
}

// The rows of a block in panels that differ by at most one row: none runs with few registers in use.
template <typename Products>
LOW_NOINLINE void multiply_panels(i64 rows, const f32* a, const f32* b, i64 second, i64 words, f32* sums,
                                  i64 sums_stride, bool add) {
  const i64 panels = (rows + tiling.panel_m - 1) / tiling.panel_m;
  for (i64 p = 0, row = 0; p < panels; ++p) {
    const i64 count = (rows - row) / (panels - p);
    multiply_some<tiling.panel_m, Products>(count, a + row * packed_a_stride<Products>, b, second, words,
                                            sums + row * sums_stride, sums_stride, add);
    row += count;
  }
}

// Rows [row, row + rows) and columns [column, column + columns) of the result from their sums. Operand `first` is the
// first extra.
template <typename Kernel, int first, typename... Extras, int... index>
LOW_NOINLINE void epilogue(const Operands& operands, i64 row, i64 rows, i64 column, i64 columns,
                           const typename Kernel::Accumulate* sums, i64 sums_stride, List<Extras...>,
                           Indices<index...>) {
  using Result = typename Kernel::Result;
  using T = typename Result::Type;
  constexpr int last = first + sizeof...(Extras);
  const i64 column_stride = operands.template stride<Result>(last, 1);
  const i64 row_stride = operands.template stride<Result>(last, 0);
  T* result = operands.template address<T>(last) + row * row_stride + column * column_stride;
  const i64 strides[sizeof...(Extras) + 1][2] = {
      {operands.template stride<Extras>(first + index, 0), operands.template stride<Extras>(first + index, 1)}...,
      {0, 0}};
  const void* bases[sizeof...(Extras) + 1] = {operands.template address<const typename Extras::Type>(first + index) +
                                                  row * strides[index][0] + column * strides[index][1]...,
                                              nullptr};
  for (i64 i = 0; i < rows; ++i) {
    map_row<Kernel, Result::axes[1]>(
        columns, result + i * row_stride, column_stride,
        Cursor<typename Kernel::Accumulate, Access::unit>{sums + i * sums_stride, 1},
        Cursor<typename Extras::Type, access_along<Extras, 1>>{
            static_cast<const typename Extras::Type*>(bases[index]) + i * strides[index][0], strides[index][1]}...);
  }
}
template <typename Kernel, int first = 2>
LOW_INLINE void epilogue(const Operands& operands, i64 row, i64 rows, i64 column, i64 columns,
                         const typename Kernel::Accumulate* sums, i64 sums_stride) {
  epilogue<Kernel, first>(operands, row, rows, column, columns, sums, sums_stride, typename Kernel::Extras{},
                          MakeIndices<Kernel::Extras::size>{});
}

// Whether b goes from where it lies to registers: panels, or rows that are contiguous and hold at least a vector.
template <typename Kernel>
inline constexpr bool has_few_rows =
    Kernel::rows >= 1 && Kernel::rows <= few_rows && (Kernel::panels || Kernel::B::axes[1] == Access::unit);
static_assert(lanes <= least_unrolled_columns);

template <typename Kernel>
LOW_INLINE void gemm_few_rows_block(const Operands& operands, const GemmBlocks& blocks, i64 column, i64 columns,
                                    f32* sums) {
  using A = typename Kernel::A;
  using B = typename Kernel::B;
  using Products = ProductsOf<Kernel, typename Kernel::MathA>;
  constexpr i64 a_stride = packed_a_stride<Products>;
  f32* const packed_a = sums + blocks.a_begin;
  const i64 all = operands.extent(2);
  const i64 a_m = operands.stride<A>(0, 0), a_k = operands.stride<A>(0, 1);
  // Of panels: the distance of one from the next.
  const i64 b_stride = operands.stride<B>(1, 0);
  const auto* a = operands.address<const typename A::Type>(0);
  const auto* b =
      operands.address<const typename B::Type>(1) + (Kernel::panels ? column / panel_columns * b_stride : column);
  for (i64 depth = 0; depth < all; depth += blocks.k) {
    const i64 slice = smaller(blocks.k, all - depth);
    pack_a<Products, A::axes[0], A::axes[1]>(a + depth * a_k, a_m, a_k, Kernel::rows, slice, packed_a, a_stride);
    if constexpr (scales_a<Kernel>) {
      constexpr f32 scale = missing_scale<typename Kernel::MathB, typename B::Type>();
      for (i64 i = 0; i < Kernel::rows; ++i) {
        for (i64 k = 0; k < slice; ++k) packed_a[i * a_stride + k] *= scale;
      }
    }
    if constexpr (Kernel::panels) {
      multiply_few_rows_of_panels<Kernel>(packed_a, a_stride, b + depth * panel_columns, b_stride, slice, columns, sums,
                                          blocks.n, depth > 0);
    } else {
      multiply_few_rows<Kernel>(packed_a, a_stride, b + depth * b_stride, b_stride, slice, columns, sums, blocks.n,
                                depth > 0);
    }
  }
  if constexpr (!Kernel::panels) close_gap(Kernel::rows, columns, sums, blocks.n);
  epilogue<Kernel>(operands, 0, Kernel::rows, column, columns, sums, blocks.n);
}

template <typename Kernel>
LOW_INLINE void gemm_few_rows(const Operands& operands, unsigned char* scratch) {
  const i64 n = operands.extent(1);
  const GemmBlocks blocks = gemm_blocks(tiling, Kernel::rows, n, operands.extent(2));
  for (i64 column = 0, columns; column < n; column += columns) {
    columns = smaller(blocks.n, n - column);
    const i64 rest = n - column - columns;
    if (!Kernel::panels && rest > 0 && rest < lanes) columns -= tiling.panel_n;  // no block is below a vector
    gemm_few_rows_block<Kernel>(operands, blocks, column, columns, reinterpret_cast<f32*>(scratch));
  }
}

// f32 sums: blocked as tiling.h says.
template <typename Kernel>
LOW_INLINE void gemm_blocked(const Operands& operands, unsigned char* scratch) {
  using A = typename Kernel::A;
  using B = typename Kernel::B;
  using ProductsA = ProductsOf<Kernel, typename Kernel::MathA>;
  using ProductsB = ProductsOf<Kernel, typename Kernel::MathB>;
  const i64 m = operands.extent(0), n = operands.extent(1), all = operands.extent(2);
  const GemmBlocks blocks = gemm_blocks(tiling, m, n, all);
  f32* const sums = reinterpret_cast<f32*>(scratch);
  f32* const packed_a = sums + blocks.a_begin;
  f32* const packed_b = sums + blocks.b_begin;
  const i64 a_m = operands.stride<A>(0, 0), a_k = operands.stride<A>(0, 1);
  // Of panels: the distance of one from the next, then that of their rows.
  const i64 b_k = operands.stride<B>(1, 0), b_n = operands.stride<B>(1, 1);
  const auto* a = operands.address<const typename A::Type>(0);
  const auto* b = operands.address<const typename B::Type>(1);
  for (i64 row = 0; row < m; row += blocks.m) {
    const i64 rows = smaller(blocks.m, m - row);
    for (i64 column = 0; column < n; column += blocks.n) {
      const i64 columns = smaller(blocks.n, n - column);
      if (all == 0) {
        for (i64 i = 0; i < rows * blocks.n; ++i) sums[i] = 0;
        epilogue<Kernel>(operands, row, rows, column, columns, sums, blocks.n);
      }
      for (i64 depth = 0; depth < all; depth += blocks.k) {
        const i64 slice = smaller(blocks.k, all - depth);
        pack_a<ProductsA, A::axes[0], A::axes[1]>(a + row * a_m + depth * a_k, a_m, a_k, rows, slice, packed_a,
                                                  packed_a_stride<ProductsA>);
        for (i64 j = 0; j < columns; j += tiling.panel_n) {
          const i64 width = smaller(tiling.panel_n, columns - j);
          const i64 words = words_of_depth<ProductsA>(slice);
          const f32* words_of_b = packed_b;
          i64 second = second_vector(words);
          if constexpr (Kernel::panels) {
            const auto* const panel = b + (column + j) / panel_columns * b_k + depth * panel_columns;
            if constexpr (reads_panels<Kernel>) {
              words_of_b = panel;
              second = panel_vectors > 1 ? lanes : width > lanes ? b_k : 0;
            } else {
              pack_panels<ProductsB>(panel, b_k, slice, width, packed_b);
            }
          } else {
            pack_b<ProductsB, B::axes[0], B::axes[1]>(b + depth * b_k + (column + j) * b_n, b_k, b_n, slice, width,
                                                      packed_b);
          }
          multiply_panels<RegisterProducts<Kernel>>(rows, packed_a, words_of_b, second, words, sums + j, blocks.n,
                                                    depth > 0);
          if (depth + slice == all) {
            epilogue<Kernel>(operands, row, rows, column + j, width, sums + j, blocks.n);
          }
        }
      }
    }
  }
}

// f64 and integer sums: a few rows and columns at a time, on the stack.
template <typename Kernel>
LOW_INLINE void gemm_plain(const Operands& operands) {
  using A = typename Kernel::A;
  using B = typename Kernel::B;
  using Sum = typename Kernel::Accumulate;
  constexpr i64 block_m = 4, block_n = 64;
  const i64 m = operands.extent(0), n = operands.extent(1), depth = operands.extent(2);
  const i64 a_m = operands.stride<A>(0, 0), a_k = operands.stride<A>(0, 1);
  const i64 b_k = operands.stride<B>(1, 0), b_n = operands.stride<B>(1, 1);
  const auto* a = operands.address<const typename A::Type>(0);
  const auto* b = operands.address<const typename B::Type>(1);
  for (i64 row = 0; row < m; row += block_m) {
    const i64 rows = smaller(block_m, m - row);
    for (i64 column = 0; column < n; column += block_n) {
      const i64 columns = smaller(block_n, n - column);
      Sum sums[block_m][block_n] = {};
      Sum line[block_n] = {};
      for (i64 k = 0; k < depth; ++k) {
        for (i64 j = 0; j < columns; ++j)
          line[j] = convert<Sum>(convert<typename Kernel::MathB>(load(b + k * b_k + (column + j) * b_n)));
        for (i64 i = 0; i < rows; ++i) {
          const auto factor = convert<Sum>(convert<typename Kernel::MathA>(load(a + (row + i) * a_m + k * a_k)));
          for (i64 j = 0; j < block_n; ++j) {
            if constexpr (is_native_float<Sum>) {
              sums[i][j] = math::fma(factor, line[j], sums[i][j]);
            } else {
              sums[i][j] = add(sums[i][j], mul(factor, line[j]));
            }
          }
        }
      }
      epilogue<Kernel>(operands, row, rows, column, columns, &sums[0][0], block_n);
    }
  }
}

template <typename Kernel>
LOW_NOINLINE void gemm(const abi::Launch& launch, const abi::Command& command, unsigned char* scratch) {
  const Operands operands(launch, command);
  if constexpr (!is_same<typename Kernel::Accumulate, f32>) {
    gemm_plain<Kernel>(operands);
  } else if constexpr (has_few_rows<Kernel>) {
    gemm_few_rows<Kernel>(operands, scratch);
  } else {
    gemm_blocked<Kernel>(operands, scratch);
  }
}

}  // namespace low::device
