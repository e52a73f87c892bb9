#include "compiler/low/constant_box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace low {
namespace {

std::shared_ptr<const Tensor> counted(const Shape& shape) {
  Tensor tensor(DType::i16, shape);
  std::iota(tensor.data<int16_t>(), tensor.data<int16_t>() + shape.elements(), int16_t{1});
  return std::make_shared<const Tensor>(std::move(tensor));
}

// Element by element: [steps, parts, panels, rows, columns of a panel].
void check(const ConstantBox& box, int64_t columns, int64_t part) {
  const auto tensor = box.tensor();
  ASSERT_EQ(tensor->shape(), box.shape);
  const Shape& e = box.extents;
  int64_t at = 0;
  for (int64_t step = 0; step < e[0]; ++step)
    for (int64_t p = 0; p < e[1]; ++p)
      for (int64_t panel = 0; panel < e[2]; ++panel)
        for (int64_t row = 0; row < e[3]; ++row)
          for (int64_t j = 0; j < e[4]; ++j, ++at) {
            const int64_t in_part = panel * e[4] + j, column = p * part + in_part;
            const bool there = in_part < part && column < columns;
            const int64_t source = box.offset + step * box.strides[0] + row * box.strides[3] + column * box.strides[4];
            EXPECT_EQ(tensor->integer(at), there ? source + 1 : 0) << step << " " << column << " " << row;
          }
}

ConstantBox panels_of(const Shape& shape, int64_t row_stride, int64_t column_stride, int64_t columns, uint32_t parts) {
  const int64_t rows = shape.elements() / shape[0] / columns, part = (columns + parts - 1) / parts;
  ConstantBox box{.source = counted(shape), .shape = {}, .extents = {}, .strides = {}, .offset = 0};
  box.extents = {shape[0], parts, (part + 15) / 16, rows, 16};
  box.strides = {rows * columns, part * column_stride, 16 * column_stride, row_stride, column_stride};
  box.shape = box.extents;
  box.panels = ColumnPanels{.columns = columns, .part = part};
  return box;
}

TEST(ConstantBox, PanelsOfColumns) {
  for (const int64_t columns : {1, 15, 16, 17, 40, 64, 83})
    for (const uint32_t parts : {1U, 2U, 3U})
      if (columns >= parts)
        check(panels_of({2, 5, columns}, columns, 1, columns, parts), columns, (columns + parts - 1) / parts);
}

TEST(ConstantBox, PanelsOfATransposedMatrix) {
  for (const int64_t columns : {7, 16, 45})
    check(panels_of({2, columns, 3}, 1, 3, columns, 2), columns, (columns + 1) / 2);
}

TEST(ConstantBox, PanelsFromTheLastStepToTheFirst) {
  ConstantBox box = panels_of({3, 4, 21}, 21, 1, 21, 1);
  box.strides[0] = -box.strides[0];
  box.offset = 2 * 4 * 21;
  check(box, 21, 21);
}

TEST(ConstantBox, BoxesThatDifferInTheirPanels) {
  const ConstantBox one = panels_of({1, 2, 40}, 40, 1, 40, 2);
  ConstantBox other = one;
  EXPECT_TRUE(one.same_box(other));
  other.panels->part = 21;
  EXPECT_FALSE(one.same_box(other));
}

}  // namespace
}  // namespace low
