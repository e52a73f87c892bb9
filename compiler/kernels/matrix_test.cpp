// The tables of matrix instructions, against the ISA documents' formulas: where lane l has its item i.
#include "compiler/kernels/data/matrix.h"

#include <gtest/gtest.h>

#include <functional>

namespace low::device {
namespace {

using enum MatrixFormat;

TEST(Matrix, EveryElementIsHeldEquallyOften) {
  int rows = 0;
  for (const Chip* chip : chips) {
    for (const MatrixFormat a : {fp8, bf8, f16, bf16, f32, i8}) {
      for (const MatrixFormat b : {fp8, bf8, f16, bf16, f32, i8}) {
        const MatrixInstruction row = matrix_for(*chip, a, b);
        if (row.lanes == 0) continue;
        ++rows;
        EXPECT_TRUE(is_complete(row)) << chip->target << " " << static_cast<int>(a) << " " << static_cast<int>(b);
        EXPECT_EQ(row.lanes, chip->wave_lanes);
      }
    }
  }
  // f16, bf16 and i8 everywhere, f32 of CDNA, four pairs of FP8 of three chips.
  EXPECT_EQ(rows, 3 * 5 + 3 + 4 * 3);
}

using Formula = std::function<int(int l, int i)>;

// `k` of a and b, `m` of c; a's row and b's and c's column are l % 16 everywhere.
void expect(const MatrixInstruction& row, const Formula& k, const Formula& m) {
  for (int l = 0; l < row.lanes; ++l) {
    for (int i = 0; i < items_of(row.a_layout); ++i) {
      const Element a = element_at(row.a_layout, l, i), b = element_at(row.b_layout, l, i);
      EXPECT_EQ(a.m, l % 16);
      EXPECT_EQ(b.n, l % 16);
      EXPECT_EQ(a.k, k(l, i)) << "lane " << l << ", item " << i;
      EXPECT_EQ(b.k, k(l, i)) << "lane " << l << ", item " << i;
    }
    for (int i = 0; i < items_of(row.c_layout); ++i) {
      const Element c = element_at(row.c_layout, l, i);
      EXPECT_EQ(c.n, l % 16);
      EXPECT_EQ(c.m, m(l, i)) << "lane " << l << ", item " << i;
    }
  }
}

TEST(Matrix, Formulas) {
  const Formula mfma_row = [](int l, int i) { return 4 * (l / 16) + i; };
  expect(matrix_for(gfx942, fp8, fp8), [](int l, int i) { return 8 * (l / 16) + i; }, mfma_row);
  expect(matrix_for(gfx942, i8, i8), [](int l, int i) { return 8 * (l / 16) + i; }, mfma_row);
  expect(matrix_for(gfx90a, bf16, bf16), [](int l, int i) { return 4 * (l / 16) + i; }, mfma_row);
  expect(matrix_for(gfx90a, f32, f32), [](int l, int) { return l / 16; }, mfma_row);
  expect(matrix_for(gfx950, f16, f16), [](int l, int i) { return 8 * (l / 16) + i; }, mfma_row);
  expect(matrix_for(gfx950, fp8, bf8), [](int l, int i) { return 64 * (i / 16) + 16 * (l / 16) + i % 16; }, mfma_row);
  expect(matrix_for(gfx1100, f16, f16), [](int, int i) { return i; }, [](int l, int i) { return 2 * i + l / 16; });
  expect(
      matrix_for(gfx1201, fp8, fp8), [](int l, int i) { return 8 * (l / 16) + i; },
      [](int l, int i) { return 8 * (l / 16) + i; });
}

}  // namespace
}  // namespace low::device
