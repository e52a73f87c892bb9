// Block sizes of the f32 matrix kernel: for the kernels, and for the compiler when it states how much scratch they need.
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
  long long a_begin;   // behind the sums [m, n]
  long long b_begin;
  long long end;
};

constexpr GemmBlocks gemm_blocks(const Tiling& tiling, long long m, long long n, long long k) {
  GemmBlocks blocks{};
  blocks.m = block_size(m, tiling.block_m, 1);
  blocks.n = block_size(n, tiling.block_n, tiling.panel_n);
  blocks.k = block_size(k, tiling.block_k, 1);
  // A constant, so that one register kernel serves all shapes; off a power of two, so that rows differ in cache sets.
  blocks.a_stride = tiling.block_k + 16;
  blocks.a_begin = blocks.m * blocks.n;
  blocks.b_begin = (blocks.a_begin + blocks.m * blocks.a_stride + 15) / 16 * 16;
  blocks.end = blocks.b_begin + blocks.k * tiling.panel_n;
  return blocks;
}

}  // namespace low::device
