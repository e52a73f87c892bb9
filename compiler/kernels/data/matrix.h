// The matrix instructions of GPUs: c[m, n] += sum over k of a[m, k] * b[k, n], by a wave, of which each lane holds some
// elements of a, b and c. A row an instruction, from the ISA documents' tables.
#pragma once

#include "compiler/kernels/data/chip.h"
#include "compiler/kernels/data/layout.h"

namespace low::device {

// Formats of elements, as the instructions know them: fp8 and bf8 are the chip's own E4M3 and E5M2.
enum class MatrixFormat { fp8, bf8, f16, bf16, f32, f64, i8 };

struct MatrixInstruction {
  MatrixFormat a = MatrixFormat::f32, b = MatrixFormat::f32;
  int m = 0, n = 0, k = 0;
  int lanes = 0;
  Layout a_layout, b_layout, c_layout;
  constexpr bool operator==(const MatrixInstruction&) const = default;
};

// Each element of every operand is held equally often.
constexpr bool is_complete(const MatrixInstruction& row) {
  return covers(row.a_layout, row.lanes, Axis::m, row.m, Axis::k, row.k) &&
         covers(row.b_layout, row.lanes, Axis::k, row.k, Axis::n, row.n) &&
         covers(row.c_layout, row.lanes, Axis::m, row.m, Axis::n, row.n);
}

// MFMA of 16x16 results, "AMD Instinct MI300 Instruction Set Architecture", section 7.1 (matrix arithmetic instructions):
// a lane holds `items` neighbours along k of a row of a and of a column of b, and four rows of a column of c.
constexpr MatrixInstruction mfma_16x16(MatrixFormat a, MatrixFormat b, int k) {
  const int items = k / 4;
  return {.a = a,
          .b = b,
          .m = 16,
          .n = 16,
          .k = k,
          .lanes = 64,
          .a_layout = {.lane = {{Axis::k, 4, items}, {Axis::m, 16, 1}}, .item = {{Axis::k, items, 1}}},
          .b_layout = {.lane = {{Axis::k, 4, items}, {Axis::n, 16, 1}}, .item = {{Axis::k, items, 1}}},
          .c_layout = {.lane = {{Axis::m, 4, 4}, {Axis::n, 16, 1}}, .item = {{Axis::m, 4, 1}}}};
}

// "AMD Instinct CDNA4 Instruction Set Architecture", section 7.1.5: 32 bytes a lane, in two chunks of 16 that are 64
// apart along k.
constexpr MatrixInstruction mfma_16x16x128(MatrixFormat a, MatrixFormat b) {
  MatrixInstruction row = mfma_16x16(a, b, 128);
  row.a_layout = {.lane = {{Axis::k, 4, 16}, {Axis::m, 16, 1}}, .item = {{Axis::k, 2, 64}, {Axis::k, 16, 1}}};
  row.b_layout = {.lane = {{Axis::k, 4, 16}, {Axis::n, 16, 1}}, .item = {{Axis::k, 2, 64}, {Axis::k, 16, 1}}};
  return row;
}

// WMMA, "RDNA3 Instruction Set Architecture", section 7.9: both halves of a wave hold all of a and b, and every second
// row of c.
constexpr MatrixInstruction wmma_gfx11(MatrixFormat format) {
  return {.a = format,
          .b = format,
          .m = 16,
          .n = 16,
          .k = 16,
          .lanes = 32,
          .a_layout = {.lane = {{Axis::m, 2, 0}, {Axis::m, 16, 1}}, .item = {{Axis::k, 16, 1}}},
          .b_layout = {.lane = {{Axis::n, 2, 0}, {Axis::n, 16, 1}}, .item = {{Axis::k, 16, 1}}},
          .c_layout = {.lane = {{Axis::m, 2, 1}, {Axis::n, 16, 1}}, .item = {{Axis::m, 8, 2}}}};
}
// WMMA, "RDNA4 Instruction Set Architecture", section 7.12: a half of a wave holds half of k, and half of the rows of c.
constexpr MatrixInstruction wmma_gfx12(MatrixFormat a, MatrixFormat b) {
  return {.a = a,
          .b = b,
          .m = 16,
          .n = 16,
          .k = 16,
          .lanes = 32,
          .a_layout = {.lane = {{Axis::k, 2, 8}, {Axis::m, 16, 1}}, .item = {{Axis::k, 8, 1}}},
          .b_layout = {.lane = {{Axis::k, 2, 8}, {Axis::n, 16, 1}}, .item = {{Axis::k, 8, 1}}},
          .c_layout = {.lane = {{Axis::m, 2, 8}, {Axis::n, 16, 1}}, .item = {{Axis::m, 8, 1}}}};
}

constexpr bool is_fp8(MatrixFormat format) { return format == MatrixFormat::fp8 || format == MatrixFormat::bf8; }

constexpr MatrixInstruction mfma_for(const Chip& chip, MatrixFormat a, MatrixFormat b) {
  if (is_fp8(a)) return chip.generation == Generation::cdna4 ? mfma_16x16x128(a, b) : mfma_16x16(a, b, 32);
  switch (a) {
    case MatrixFormat::i8:
      return mfma_16x16(a, b, chip.generation == Generation::cdna2 ? 16 : 32);
    case MatrixFormat::f16:
    case MatrixFormat::bf16:
      return mfma_16x16(a, b, chip.generation == Generation::cdna4 ? 32 : 16);
    case MatrixFormat::f32:
      return mfma_16x16(a, b, 4);
    default:
      return {};
  }
}

// The instruction that multiplies these formats; of 0 lanes: the chip has none.
constexpr MatrixInstruction matrix_for(const Chip& chip, MatrixFormat a, MatrixFormat b) {
  if (is_fp8(a) ? !is_fp8(b) || chip.fp8 == Fp8::none : a != b) return {};
  if (chip.wave_lanes == 64) return mfma_for(chip, a, b);
  if (a == MatrixFormat::f32 || a == MatrixFormat::f64) return {};
  return chip.generation == Generation::rdna3 ? wmma_gfx11(a) : wmma_gfx12(a, b);
}

}  // namespace low::device
