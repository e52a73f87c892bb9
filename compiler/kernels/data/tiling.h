// Block sizes of the f32 matrix kernel: for the kernels, and for the compiler when it states how much scratch they
// need.
//
// One kernel run computes result[m, n] block by block:
//   for each block of block_m rows and block_n columns, for each slice of block_k of the depth:
//     the rows' part of a is decoded to f32 into scratch once (it stays in L2);
//     for each panel_n columns: their part of b is decoded into scratch (it stays in L1), and multiplied with all rows,
//     panel_m at a time, in registers; sums are kept in scratch until the depth is done, then the body maps them.
#pragma once

namespace low::device {

struct Tiling {
  int panel_m;  // rows in registers
  int panel_n;  // columns in registers
  int block_m;  // at most
  int block_n;  // at most; a multiple of panel_n
  int block_k;  // at most
};

// 32 vector registers of 16 lanes: 14 x 2 sums, 2 of b, and a as broadcast memory operands.
inline constexpr Tiling tiling_x86_64_v4{14, 32, 448, 2048, 288};
// 16 vector registers of 8 lanes: 6 x 2 sums, 2 of b, 1 of a.
inline constexpr Tiling tiling_x86_64_v3{6, 16, 384, 2048, 288};

// Columns of a panel in which a constant matrix may lie, row by row: one vector of a target with 16 lanes, two with 8.
inline constexpr int panel_columns = 16;

// Of a gemm kernel that unrolls its rows: rows at most, and columns at least. A target with fewer registers unrolls
// less.
inline constexpr int most_unrolled_rows = 6;
inline constexpr long long least_unrolled_columns = 16;

// The size, at most `limit` and a multiple of `unit`, of the fewest nearly equal blocks that cover `extent`.
constexpr long long block_size(long long extent, long long limit, long long unit) {
  if (extent <= 0) return unit;
  const long long blocks = (extent + limit - 1) / limit;
  const long long size = (extent + blocks - 1) / blocks;
  return (size + unit - 1) / unit * unit;
}

// The blocks of one shape, and where the kernel keeps them, in floats from the start of its scratch.
struct GemmBlocks {
  long long m, n, k;
  long long a_stride;  // of a's decoded rows
  long long a_begin;   // behind the sums
  long long b_begin;
  long long end;
};

// Words, of `depth` elements each, from one packed row of a to the next. A constant, so that one register kernel serves
// all shapes; off a power of two, so that rows differ in cache sets.
constexpr long long packed_row_words(const Tiling& tiling, long long depth) { return tiling.block_k / depth + 16; }

// `more_rows`: of a block of a and of its sums, beside those of the result.
constexpr GemmBlocks gemm_blocks(const Tiling& tiling, long long m, long long n, long long k, long long more_rows = 0) {
  GemmBlocks blocks{};
  blocks.m = block_size(m, tiling.block_m, 1);
  blocks.n = block_size(n, tiling.block_n, tiling.panel_n);
  blocks.k = block_size(k, tiling.block_k, 1);
  blocks.a_stride = packed_row_words(tiling, 1);
  blocks.a_begin = (blocks.m + more_rows) * blocks.n;
  blocks.b_begin = (blocks.a_begin + (blocks.m + more_rows) * blocks.a_stride + 15) / 16 * 16;
  blocks.end = blocks.b_begin + blocks.k * tiling.panel_n;
  return blocks;
}

// The blocks of attention (see attention.h), and where the kernel keeps them, in floats from the start of its scratch.
struct AttentionBlocks {
  long long keys;                      // of a block, but for the last one
  long long panels, width, larger;     // panels of `width` vectors of rows; the first `larger` have one more
  long long block_panels;              // panels that share the decoding of k and v
  long long k, v, scores, mask, rows;  // of one block of keys, and of one panel
  long long q, o, largest, sum;        // of the panels of a block
  long long end;
};

// Keys of a block, at most: the same on all targets, for it is what results depend on. Blocks are multiples of the
// unit, which is one of all targets' score_rows.
inline constexpr long long attention_keys = 96;
inline constexpr long long attention_keys_unit = 24;
// Rows of q whose panels share the decoding of k and v, at most, and elements of q and o in scratch if that is more
// than one panel.
inline constexpr long long attention_rows = 512;
inline constexpr long long attention_elements = 1 << 18;

constexpr AttentionBlocks attention_blocks(const Tiling& tiling, long long m, long long n, long long d, long long dv,
                                           bool masked) {
  AttentionBlocks blocks{};
  const long long lanes = tiling.panel_n / 2, widest = lanes == 16 ? 3 : 2;
  blocks.keys = block_size(n, attention_keys, attention_keys_unit);
  const long long vectors = m > 0 ? (m + lanes - 1) / lanes : 1;
  blocks.panels = (vectors + widest - 1) / widest;
  blocks.width = vectors / blocks.panels;
  blocks.larger = vectors % blocks.panels;
  const long long by_rows = attention_rows / (widest * lanes),
                  by_elements = attention_elements / (widest * lanes * (d + dv));
  const long long most = by_elements < 1 ? 1 : by_elements < by_rows ? by_elements : by_rows;
  blocks.block_panels = block_size(blocks.panels, most, 1);
  const long long panel = (blocks.width + (blocks.larger > 0 ? 1 : 0)) * lanes, block = blocks.block_panels * panel;
  const auto place = [&blocks](long long floats) {
    const long long begin = blocks.end;
    blocks.end += (floats + 15) / 16 * 16;
    return begin;
  };
  blocks.k = place(blocks.keys * d);
  blocks.v = place(blocks.keys * dv);
  blocks.scores = place(blocks.keys * panel);
  blocks.mask = place(masked ? blocks.keys * panel : 0);
  blocks.rows = place(panel * dv);
  blocks.q = place(block * d);
  blocks.o = place(block * dv);
  blocks.largest = place(block);
  blocks.sum = place(block);
  return blocks;
}

}  // namespace low::device
