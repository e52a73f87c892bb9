// gemm: result[m, n] = body(sum over k of a[m, k] * b[k, n], extras…[m, n]…).
//
// A kernel K is derived from its Factors<…> and has: rows (m where it is few and unrolled, or 0); Result =
// OperandOf<…>; Extras = List<OperandOf<…>…>; body(sum, values…). The result must not overlap a or b; it may lie exactly
// where an extra lies.
//
// Functions that are alike in many models need not be compiled with each: with LOW_ROUTINE as "extern template" they are
// linked, with "template" they are what is compiled (compiler/codegen/codegen.h, compile_routines).
//
// Sums of f32 have one order on all targets and for all m and n: fused multiply-adds in the order of k within a slice of
// the depth (tiling.h's block_k, nearly equal slices), then slice by slice. So an element depends on its row and column
// alone, to the last bit.
#pragma once

#include "compiler/kernels/device/host/few_rows.h"
#include "compiler/kernels/device/host/operand.h"
#include "compiler/kernels/device/host/pack.h"

namespace low::device {

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
      pack_columns<Products, along_columns, along_k>(from, column_stride, k_stride, count, depth, out, panel_columns);
      for (i64 j = count; j < panel_columns; ++j) {
        for (i64 word = 0; word < words; ++word) out[word * panel_columns + j] = 0;
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

// What a kernel multiplies, whatever it makes of the sums: kernels that differ in that alone share their loops. `pairs`:
// whether FormatA, FormatB and Sum are bf16, bf16 and f32, and bf16 holds what a and b store.
template <typename OperandA, typename OperandB, typename FormatA, typename FormatB, typename Sum, bool of_pairs,
          bool in_panels>
struct Factors {
  using Base = Factors;
  using A = OperandA;
  using B = OperandB;
  using MathA = FormatA;
  using MathB = FormatB;
  using Accumulate = Sum;
  static constexpr bool pairs = of_pairs, panels = in_panels;
};
// Makes rows [row, row + rows) and columns [column, column + columns) of the result of their sums.
using Finish = void (*)(const Operands& operands, i64 row, i64 rows, i64 column, i64 columns, const f32* sums,
                        i64 sums_stride);

// Whether panels are multiplied where they lie: their elements are words.
template <typename Kernel>
inline constexpr bool reads_panels =
    Kernel::panels && !has_pairs<Kernel> && sizeof(typename Kernel::B::Type) == 4 &&
    (sums_integers<Kernel> ? sizeof(typename Kernel::MathB) == 4
                           : is_same<typename Kernel::B::Type, f32> && is_same<typename Kernel::MathB, f32>);

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
  store_sums<Products>(total, sums, sums_stride, add);
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

#if defined(LOW_ROUTINE)
LOW_ROUTINE void multiply_panels<ElementProducts<f32>>(i64, const f32*, const f32*, i64, i64, f32*, i64, bool);
LOW_ROUTINE void multiply_panels<IntegerProducts<i32>>(i64, const f32*, const f32*, i64, i64, f32*, i64, bool);
#if defined(LOW_TARGET_HOST_X86_64_V4_BF16)
LOW_ROUTINE void multiply_panels<PairProducts>(i64, const f32*, const f32*, i64, i64, f32*, i64, bool);
LOW_ROUTINE void multiply_panels<ByteProducts<true, false>>(i64, const f32*, const f32*, i64, i64, f32*, i64, bool);
LOW_ROUTINE void multiply_panels<ByteProducts<false, false>>(i64, const f32*, const f32*, i64, i64, f32*, i64, bool);
#else
LOW_ROUTINE void multiply_panels<ShortProducts>(i64, const f32*, const f32*, i64, i64, f32*, i64, bool);
#endif
#endif

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

// The same of sums as words, whatever they are.
template <typename Kernel>
LOW_NOINLINE void finish_sums(const Operands& operands, i64 row, i64 rows, i64 column, i64 columns, const f32* sums,
                              i64 sums_stride) {
  epilogue<Kernel>(operands, row, rows, column, columns, reinterpret_cast<const typename Kernel::Accumulate*>(sums),
                   sums_stride);
}

// Row `rows` of a block of a: what flipping made of elements that were 0.
template <typename Kernel>
LOW_INLINE void pack_flips(i64 rows, i64 depth, f32* packed_a) {
  using Products = ProductsOfA<Kernel>;
  if constexpr (flips_a<Kernel>) {
    static constexpr typename Kernel::A::Type zeros[Products::depth] = {};
    const f32 flips = Products::word(zeros, 1, Products::depth);
    for (i64 word = 0; word < words_of_depth<Products>(depth); ++word)
      packed_a[rows * packed_a_stride<Products> + word] = flips;
  }
}
// Subtracts its sums from those of the rows before, in whole vectors.
template <typename Kernel>
LOW_INLINE void subtract_flips(i64 rows, i64 columns, f32* sums, i64 sums_stride) {
  if constexpr (flips_a<Kernel>) {
    for (i64 i = 0; i < rows; ++i) {
      for (i64 j = 0; j < columns; j += lanes) {
        f32* const at = sums + i * sums_stride + j;
        store_vector(at, subtract_words(load_vector(at), load_vector(sums + rows * sums_stride + j)));
      }
    }
  }
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
  using Products = ProductsOfA<Kernel>;
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
    pack_rows<Products, A::axes[0], A::axes[1]>(a + depth * a_k, a_m, a_k, Kernel::rows, slice, packed_a, a_stride);
    pack_flips<Kernel>(Kernel::rows, slice, packed_a);
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
  if constexpr (!Kernel::panels) close_gap(Kernel::rows + flip_rows<Kernel>, columns, sums, blocks.n);
  subtract_flips<Kernel>(Kernel::rows, columns, sums, blocks.n);
  finish_sums<Kernel>(operands, 0, Kernel::rows, column, columns, sums, blocks.n);
}

template <typename Kernel>
LOW_INLINE void gemm_few_rows(const Operands& operands, unsigned char* scratch) {
  const i64 n = operands.extent(1);
  const GemmBlocks blocks = gemm_blocks(tiling, Kernel::rows, n, operands.extent(2), flip_rows<Kernel>);
  for (i64 column = 0, columns; column < n; column += columns) {
    columns = smaller(blocks.n, n - column);
    const i64 rest = n - column - columns;
    if (!Kernel::panels && rest > 0 && rest < lanes) columns -= tiling.panel_n;  // no block is below a vector
    gemm_few_rows_block<Kernel>(operands, blocks, column, columns, reinterpret_cast<f32*>(scratch));
  }
}

// Sums of 32 bits: blocked as tiling.h says. A Kernel's factors will do.
template <typename Kernel>
LOW_NOINLINE void gemm_blocked(const Operands& operands, unsigned char* scratch, Finish finish) {
  using A = typename Kernel::A;
  using B = typename Kernel::B;
  using ProductsA = ProductsOfA<Kernel>;
  using ProductsB = ProductsOfB<Kernel>;
  const i64 m = operands.extent(0), n = operands.extent(1), all = operands.extent(2);
  const GemmBlocks blocks = gemm_blocks(tiling, m, n, all, flip_rows<Kernel>);
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
        finish(operands, row, rows, column, columns, sums, blocks.n);
      }
      for (i64 depth = 0; depth < all; depth += blocks.k) {
        const i64 slice = smaller(blocks.k, all - depth);
        pack_rows<ProductsA, A::axes[0], A::axes[1]>(a + row * a_m + depth * a_k, a_m, a_k, rows, slice, packed_a,
                                                     packed_a_stride<ProductsA>);
        pack_flips<Kernel>(rows, slice, packed_a);
        for (i64 j = 0; j < columns; j += tiling.panel_n) {
          const i64 width = smaller(tiling.panel_n, columns - j);
          const i64 words = words_of_depth<ProductsA>(slice);
          const f32* words_of_b = packed_b;
          i64 second = second_vector(words);
          if constexpr (Kernel::panels) {
            const auto* const panel = b + (column + j) / panel_columns * b_k + depth * panel_columns;
            if constexpr (reads_panels<Kernel>) {
              words_of_b = reinterpret_cast<const f32*>(panel);
              second = panel_vectors > 1 ? lanes : width > lanes ? b_k : 0;
            } else {
              pack_panels<ProductsB>(panel, b_k, slice, width, packed_b);
            }
          } else {
            pack_b<ProductsB, B::axes[0], B::axes[1]>(b + depth * b_k + (column + j) * b_n, b_k, b_n, slice, width,
                                                      packed_b);
          }
          multiply_panels<RegisterProducts<Kernel>>(rows + flip_rows<Kernel>, packed_a, words_of_b, second, words,
                                                    sums + j, blocks.n, depth > 0);
          if (depth + slice == all) {
            subtract_flips<Kernel>(rows, width, sums + j, blocks.n);
            finish(operands, row, rows, column + j, width, sums + j, blocks.n);
          }
        }
      }
    }
  }
}

// Sums of 64 bits: a few rows and columns at a time, on the stack.
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
LOW_NOINLINE void gemm(const abi::Launch& launch, CommandPointer command, unsigned char* scratch) {
  const Operands operands(launch, command);
  if constexpr (!is_same<typename Kernel::Accumulate, f32> && !sums_integers<Kernel>) {
    gemm_plain<Kernel>(operands);
  } else if constexpr (has_few_rows<Kernel>) {
    gemm_few_rows<Kernel>(operands, scratch);
  } else {
    gemm_blocked<typename Kernel::Base>(operands, scratch, finish_sums<Kernel>);
  }
}

}  // namespace low::device
