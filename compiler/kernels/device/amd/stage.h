// One operand's part of a product in LDS, for the fragments of matrix instructions: rows of a, or columns of b, with k
// innermost.
#pragma once

#include "compiler/kernels/data/matrix.h"
#include "compiler/kernels/device/amd/operand.h"

namespace low::device {

template <int bytes>
struct BitsOfSize {
  using Type = u32 __attribute__((ext_vector_type(bytes / 4)));
};
template <>
struct BitsOfSize<4> {
  using Type = u32;
};
template <>
struct BitsOfSize<8> {
  using Type = u64;
};
// Of a lane's items of an operand of type Math.
template <typename Math, Layout layout>
using FragmentBits = typename BitsOfSize<items_of(layout) * static_cast<int>(sizeof(Math))>::Type;

// What an instruction sums in, and a lane's sums.
template <MatrixInstruction row>
struct SumOf {
  using Type = f32;
};
template <MatrixInstruction row>
  requires(row.a == MatrixFormat::i8)
struct SumOf<row> {
  using Type = i32;
};
template <MatrixInstruction row>
using Sums = typename SumOf<row>::Type __attribute__((ext_vector_type(items_of(row.c_layout))));

using Chunk = u32 __attribute__((ext_vector_type(4)));  // the widest access: 16 bytes

template <typename Math, typename Rounded, typename T>
LOW_INLINE Math to_math(T element) {
  if constexpr (is_same<Math, T>) {
    return element;
  } else {
    return convert<Math>(convert<Rounded>(load(&element)));
  }
}

// Whether rows begin at multiples of 16 bytes.
LOW_INLINE bool begins_chunks(const void* first, i64 stride, u32 size) {
  return ((reinterpret_cast<u64>(first) | static_cast<u64>(stride) * size) & 15) == 0;
}

template <typename Math, int rows, int step, int pitch>
struct Stage {
  static constexpr int chunk_items = sizeof(Chunk) / sizeof(Math);
  static constexpr int row_chunks = step / chunk_items;
  static constexpr int chunks = rows * row_chunks;
  static_assert(step % chunk_items == 0 && pitch >= step * static_cast<int>(sizeof(Math)));
  Lds base;

  // From row and k of an operand on, which has `rows_left` and `k_left` of them there; what is beyond is 0. `wide`: rows
  // are contiguous elements of Math and begin at multiples of 16 bytes. Lanes that are neighbours take neighbours in
  // memory.
  template <typename Rounded, typename Operand, int k_axis>
  LOW_INLINE void fill(const typename Operand::Type* from, i64 row_stride, i64 k_stride, int rows_left, int k_left,
                       bool wide) const {
    using T = typename Operand::Type;
    constexpr bool k_first = Operand::axes[k_axis] == Access::unit;
    const int row_limit = rows_left < rows ? rows_left : rows, k_limit = k_left < step ? k_left : step;
    // Rolled: the addresses of all chunks at once would take the registers of the sums.
#pragma clang loop unroll(disable)
    for (int begin = 0; begin < chunks; begin += workgroup_lanes) {
      const int number = begin + static_cast<int>(lane());
      if (chunks % workgroup_lanes != 0 && number >= chunks) continue;
      const int row = k_first ? number / row_chunks : number % rows;
      const int k = (k_first ? number % row_chunks : number / rows) * chunk_items;
      const T* const first = from + row * row_stride + k * k_stride;
      Chunk chunk = {};
      if (is_same<T, Math> && wide && row < row_limit && k + chunk_items <= k_limit) {
        chunk = load_global(reinterpret_cast<const Chunk*>(first));
      } else {
        struct Items {
          Math item[chunk_items];
        } items{};
        const i64 next = anew(k_stride);  // all of its multiples would take as many registers
#pragma unroll
        for (int i = 0; i < chunk_items; ++i)
          if (row < row_limit && k + i < k_limit) items.item[i] = to_math<Math, Rounded>(load_global(first + i * next));
        chunk = bits_as<Chunk>(items);
      }
      store_lds(base + (row * pitch + k * static_cast<int>(sizeof(Math))), chunk);
    }
  }
  // A lane's items, of which the first is (row, k): runs of neighbours along k, at most 16 bytes at once.
  template <Layout layout>
  LOW_INLINE FragmentBits<Math, layout> fragment(int row, int k) const {
    constexpr int most = static_cast<int>(16 / sizeof(Math)), neighbours = innermost_run(layout);
    constexpr int run = neighbours < most ? neighbours : most, runs = items_of(layout) / run;
    using Part = typename BitsOfSize<run* static_cast<int>(sizeof(Math))>::Type;
    struct Parts {
      Part part[runs];
    } parts;
#pragma unroll
    for (int i = 0; i < runs; ++i) {
      const int at = k + element_at(layout, 0, i * run).k;
      parts.part[i] = load_lds<Part>(base + (row * pitch + at * static_cast<int>(sizeof(Math))));
    }
    return bits_as<FragmentBits<Math, layout>>(parts);
  }
};

}  // namespace low::device
