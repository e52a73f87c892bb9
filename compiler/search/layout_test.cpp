#include "compiler/search/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

namespace low {
namespace {

// Calls visit(index) for every index of the shape in row-major order.
template <typename Visit>
void for_each_index(const Shape& shape, Visit visit) {
  if (shape.elements() == 0) return;
  Shape index = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) index[axis] = 0;
  while (true) {
    visit(index);
    int axis = shape.rank() - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

int64_t offset_of(const Layout& layout, const Shape& index) {
  int64_t offset = layout.offset;
  for (int axis = 0; axis < index.rank(); ++axis) offset += index[axis] * layout.strides[axis];
  return offset;
}

std::vector<int64_t> offsets(const Layout& layout, const Shape& shape) {
  std::vector<int64_t> result;
  for_each_index(shape, [&](const Shape& index) { result.push_back(offset_of(layout, index)); });
  return result;
}

// Strides follow from the offsets of the elements next to the first; the layout exists when they explain all others.
bool some_layout_explains(const std::vector<int64_t>& wanted, const Shape& shape) {
  if (wanted.empty()) return true;
  const Shape row = shape.row_major_strides();
  Layout layout;
  layout.offset = wanted[0];
  for (int axis = 0; axis < shape.rank(); ++axis) {
    layout.strides.append(shape[axis] > 1 ? wanted[static_cast<size_t>(row[axis])] - wanted[0] : 0);
  }
  return offsets(layout, shape) == wanted;
}

// All shapes of up to `rank` axes (ones included up to that rank) with `elements` elements.
void factorizations(int64_t elements, int rank, Shape prefix, std::vector<Shape>& out) {
  if (elements == 1) out.push_back(prefix);
  if (prefix.rank() == rank) return;
  for (int64_t extent = 1; extent <= elements; ++extent) {
    if (elements % extent != 0) continue;
    Shape next = prefix;
    next.append(extent);
    factorizations(elements / extent, rank, next, out);
  }
}

TEST(Layout, ReshapedAgreesWithEnumerationForAllSmallShapes) {
  int possible = 0;
  int impossible = 0;
  std::mt19937 random(17);
  for (const int64_t elements : {1, 2, 3, 4, 6, 8, 12}) {
    std::vector<Shape> shapes;
    factorizations(elements, 4, Shape(), shapes);
    for (const Shape& from : shapes) {
      // Row-major, and strides drawn from a few that often line up, with zeros and negative ones.
      for (int variant = 0; variant < 6; ++variant) {
        Layout layout = row_major(from);
        layout.offset = 100;
        for (int axis = 0; axis < from.rank() && variant > 0; ++axis) {
          switch (random() % 5) {
            case 0:
              layout.strides[axis] = 0;
              break;
            case 1:
              layout.strides[axis] = -layout.strides[axis];
              break;
            case 2:
              layout.strides[axis] = static_cast<int64_t>(random() % 13) - 6;
              break;
            case 3:
              layout.strides[axis] *= 2;
              break;
            default:
              break;
          }
        }
        const std::vector<int64_t> wanted = offsets(layout, from);
        for (const Shape& to : shapes) {
          const std::optional<Layout> result = reshaped(layout, from, to);
          ASSERT_EQ(result.has_value(), some_layout_explains(wanted, to))
              << to_string(from) << " strides " << to_string(layout.strides) << " -> " << to_string(to);
          if (!result) {
            ++impossible;
            continue;
          }
          ++possible;
          ASSERT_EQ(offsets(*result, to), wanted)
              << to_string(from) << " strides " << to_string(layout.strides) << " -> " << to_string(to);
          if (variant == 0) {
            EXPECT_EQ(result->strides, row_major(to).strides);
          }
        }
      }
    }
  }
  EXPECT_GT(possible, 1000);
  EXPECT_GT(impossible, 1000);
}

TEST(Layout, ReshapedOfNothingAndOfDifferentCounts) {
  const Shape from = {0, 3};
  const std::optional<Layout> result = reshaped({{7, 7}, 5}, from, {2, 0, 4});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->offset, 5);
  EXPECT_EQ(result->strides, Shape({2, 0, 4}).row_major_strides());
  EXPECT_FALSE(reshaped(row_major({2, 3}), {2, 3}, {5}));
  // A column of a [4, 6] matrix as [2, 2]: strides 12 and 6.
  const std::optional<Layout> column = reshaped({{6, 1}, 2}, {4, 1}, {2, 2});
  ASSERT_TRUE(column);
  EXPECT_EQ(*column, (Layout{{12, 6}, 2}));
}

TEST(Layout, TransposedSlicedExpandedAgreeWithEnumeration) {
  const unsigned seed = 4;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (int round = 0; round < 2000; ++round) {
    const int rank = static_cast<int>(below(4)) + 1;
    Shape shape;
    Strides strides;
    for (int axis = 0; axis < rank; ++axis) {
      shape.append(below(4) + 1);
      strides.append(below(9) - 4);
    }
    const Layout layout{strides, 50};

    Shape permutation;
    std::vector<int64_t> axes;
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
    std::shuffle(axes.begin(), axes.end(), random);
    Shape permuted;
    for (const int64_t axis : axes) {
      permutation.append(axis);
      permuted.append(shape[static_cast<int>(axis)]);
    }
    const Layout turned = transposed(layout, permutation);
    for_each_index(permuted, [&](const Shape& index) {
      Shape source = index;
      for (int axis = 0; axis < rank; ++axis) source[static_cast<int>(permutation[axis])] = index[axis];
      ASSERT_EQ(offset_of(turned, index), offset_of(layout, source));
    });

    Shape start = shape;
    Shape step = shape;
    Shape extents = shape;
    for (int axis = 0; axis < rank; ++axis) {
      start[axis] = below(shape[axis]);
      step[axis] = below(2) == 0 ? 1 + below(2) : -1 - below(2);
      const int64_t room = step[axis] > 0 ? shape[axis] - 1 - start[axis] : start[axis];
      extents[axis] = below(room / std::abs(step[axis]) + 2);
    }
    const Layout cut = sliced(layout, start, step);
    for_each_index(extents, [&](const Shape& index) {
      Shape source = index;
      for (int axis = 0; axis < rank; ++axis) source[axis] = start[axis] + index[axis] * step[axis];
      ASSERT_EQ(offset_of(cut, index), offset_of(layout, source));
    });

    Shape to;
    to.append(below(3));
    for (int axis = 0; axis < rank; ++axis) to.append(shape[axis] == 1 ? below(4) : shape[axis]);
    const Layout wide = expanded(layout, shape, to);
    for_each_index(to, [&](const Shape& index) {
      Shape source = shape;
      for (int axis = 0; axis < rank; ++axis) source[axis] = shape[axis] == 1 ? 0 : index[axis + 1];
      ASSERT_EQ(offset_of(wide, index), offset_of(layout, source));
    });
  }
}

TEST(Layout, RowMajor) {
  EXPECT_EQ(row_major({2, 3, 4}).strides, Shape({12, 4, 1}));
  EXPECT_EQ(row_major(Shape()).strides, Shape());
  EXPECT_TRUE(is_row_major({2, 3}, {{3, 1}, 9}));
  EXPECT_TRUE(is_row_major({1, 3}, {{77, 1}, 0}));   // one row: its stride is never used
  EXPECT_TRUE(is_row_major({0, 3}, {{77, 55}, 0}));  // nothing to lay out
  EXPECT_FALSE(is_row_major({2, 3}, {{4, 1}, 0}));
  EXPECT_FALSE(is_row_major({2, 3}, {{1, 2}, 0}));
  EXPECT_FALSE(is_row_major({2}, {{-1}, 1}));
  EXPECT_TRUE(is_row_major(Shape(), Layout{}));
}

TEST(Layout, HugeStepsOfSingleElementsDoNotOverflow) {
  const Layout layout = sliced(row_major({4, 4}), {1, 0}, {INT64_MAX, 1});
  EXPECT_EQ(layout.offset, 4);
  EXPECT_EQ(layout.strides[1], 1);
}

}  // namespace
}  // namespace low
