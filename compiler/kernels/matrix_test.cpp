// The tables of matrix instructions are complete. What they say is checked with the model of the instructions
// (hwtests/simt/matrix_test.cpp).
#include "compiler/kernels/data/matrix.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace low::device
