#include "compiler/search/gather_axes.h"

#include <gtest/gtest.h>

#include <random>

namespace low {
namespace {

std::vector<int64_t> index_of(const Shape& shape, int64_t element) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

// Element by element, as the Graph says: what of data and of indices result element `element` may read.
void read(const GatherShapes& shapes, int64_t element, std::vector<bool>& data, std::vector<bool>& indices) {
  const std::vector<int64_t> at = index_of(shapes.result, element);
  const auto mark = [](const Shape& shape, const std::vector<int64_t>& index, std::vector<bool>& where) {
    int64_t place = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) place = place * shape[axis] + index[static_cast<size_t>(axis)];
    where[static_cast<size_t>(place)] = true;
  };
  const int rank = shapes.indices.rank();
  for (int64_t e = 0; e < shapes.data.elements(); ++e) {
    const std::vector<int64_t> of = index_of(shapes.data, e);
    bool readable = true;
    for (int axis = 0; axis < shapes.data.rank(); ++axis) {
      const Gather& gather = shapes.gather;
      int from = axis;  // of the result; -1: an index names it
      if (gather.mode == Gather::Mode::nd) {
        const int named = gather.batch_axes + static_cast<int>(shapes.indices[rank - 1]);
        if (axis >= gather.batch_axes) from = axis < named ? -1 : rank - 1 + axis - named;
      } else if (axis == gather.axis) {
        from = -1;
      } else if (gather.mode == Gather::Mode::axis && axis > gather.axis) {
        from = axis - 1 + rank;
      }
      readable = readable && (from < 0 || at[static_cast<size_t>(from)] == of[static_cast<size_t>(axis)]);
    }
    if (readable) mark(shapes.data, of, data);
  }
  if (shapes.gather.mode == Gather::Mode::nd) {
    std::vector<int64_t> index(at.begin(), at.begin() + (rank - 1));
    for (int64_t i = 0; i < shapes.indices[rank - 1]; ++i) {
      index.push_back(i);
      mark(shapes.indices, index, indices);
      index.pop_back();
    }
  } else {
    const int begin = shapes.gather.mode == Gather::Mode::axis ? shapes.gather.axis : 0;
    mark(shapes.indices, std::vector<int64_t>(at.begin() + begin, at.begin() + begin + rank), indices);
  }
}

TEST(GatherWanted, CoversWhatMayBeRead) {
  const std::vector<std::pair<Gather, std::pair<Shape, Shape>>> cases = {
      {{.mode = Gather::Mode::axis, .axis = 0}, {{7, 5}, {2, 3}}},
      {{.mode = Gather::Mode::axis, .axis = 1}, {{3, 4, 5}, {}}},
      {{.mode = Gather::Mode::axis, .axis = 2}, {{3, 2, 5}, {4}}},
      {{.mode = Gather::Mode::axis, .axis = 0}, {{9}, {}}},
      {{.mode = Gather::Mode::elements, .axis = 1}, {{3, 6, 5}, {2, 9, 4}}},
      {{.mode = Gather::Mode::elements, .axis = 2}, {{3, 2, 5}, {3, 2, 11}}},
      {{.mode = Gather::Mode::nd}, {{3, 4, 5}, {6, 2}}},
      {{.mode = Gather::Mode::nd, .batch_axes = 1}, {{3, 4, 5}, {3, 2, 1}}},
      {{.mode = Gather::Mode::nd}, {{3, 4}, {2}}},
  };
  for (size_t c = 0; c < cases.size(); ++c) {
    const auto& [gather, operands] = cases[c];
    const auto& [data, indices] = operands;
    const std::optional<Shape> result = gather_shape(gather, data, indices);
    ASSERT_TRUE(result) << c;
    const GatherShapes shapes{gather, data, indices, *result};
    const MatrixExtents extents = matrix_extents(*result);
    std::mt19937 random(static_cast<unsigned>(c));
    for (int round = 0; round < 40; ++round) {
      const int64_t row = random() % extents.rows, column = random() % extents.columns;
      const int64_t row_end = row + 1 + random() % (extents.rows - row);
      const int64_t column_end = column + 1 + random() % (extents.columns - column);
      std::vector<bool> of_data(static_cast<size_t>(data.elements())),
          of_indices(static_cast<size_t>(indices.elements()));
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = column; j < column_end; ++j) read(shapes, i * extents.columns + j, of_data, of_indices);
      }
      const GatherWanted wanted = gather_wanted(shapes, row, row_end, column, column_end);
      const auto check = [&](const Shape& shape, const std::vector<bool>& where, const Wanted& rect) {
        const MatrixExtents matrix = matrix_extents(shape);
        EXPECT_LE(rect.row_end, matrix.rows);
        EXPECT_LE(rect.column_end, matrix.columns);
        Wanted least{.row_begin = matrix.rows, .row_end = 0, .column_begin = matrix.columns, .column_end = 0};
        for (int64_t i = 0; i < matrix.rows; ++i) {
          for (int64_t j = 0; j < matrix.columns; ++j) {
            if (!where[static_cast<size_t>(i * matrix.columns + j)]) continue;
            least.row_begin = std::min(least.row_begin, i);
            least.row_end = std::max(least.row_end, i + 1);
            least.column_begin = std::min(least.column_begin, j);
            least.column_end = std::max(least.column_end, j + 1);
          }
        }
        EXPECT_LE(rect.row_begin, least.row_begin) << c;
        EXPECT_GE(rect.row_end, least.row_end) << c;
        EXPECT_EQ(rect.column_begin, least.column_begin) << c;
        EXPECT_EQ(rect.column_end, least.column_end) << c;
        // Rows are as few as can be where the rectangle is a box.
        if (shapes.result.rank() <= 2) {
          EXPECT_EQ(rect.row_begin, least.row_begin) << c;
          EXPECT_EQ(rect.row_end, least.row_end) << c;
        }
      };
      check(data, of_data, wanted.data);
      check(indices, of_indices, wanted.indices);
    }
  }
}

}  // namespace
}  // namespace low
