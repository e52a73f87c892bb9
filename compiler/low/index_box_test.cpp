#include "compiler/low/expand/index_box.h"

#include <gtest/gtest.h>

namespace low {
namespace {

// Every range of some spaces: the boxes' elements in order are the range's, and there are at most two boxes an axis.
TEST(IndexBox, RangesAreFewBoxes) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{1, 7}, Shape{3, 4}, Shape{2, 3, 4}, Shape{3, 1, 2, 2}}) {
    const int64_t elements = shape.elements();
    for (int64_t begin = 0; begin <= elements; ++begin) {
      for (int64_t end = begin; end <= elements; ++end) {
        const std::vector<IndexBox> boxes = boxes_of_range(shape, begin, end);
        EXPECT_LE(boxes.size(), static_cast<size_t>(std::max(2 * shape.rank() - 1, 1)));
        int64_t next = begin;
        for (const IndexBox& box : boxes) {
          ASSERT_EQ(box.first.rank(), shape.rank());
          ASSERT_EQ(box.extents.rank(), shape.rank());
          for (int64_t i = 0; i < box.extents.elements(); ++i) {
            int64_t rest = i, element = 0, stride = 1;
            for (int axis = shape.rank() - 1; axis >= 0; --axis) {
              element += (box.first[axis] + rest % box.extents[axis]) * stride;
              rest /= box.extents[axis];
              stride *= shape[axis];
            }
            ASSERT_EQ(element, next++) << to_string(shape) << " [" << begin << ", " << end << ")";
          }
        }
        EXPECT_EQ(next, end);
      }
    }
  }
  EXPECT_TRUE(boxes_of_range({3, 0, 2}, 0, 0).empty());
}

}  // namespace
}  // namespace low
