#include "compiler/search/gather_axes.h"

#include <algorithm>

namespace low {

GatherAxes gather_axes(const Gather& gather, int rank, const Strides& data, const Shape& indices,
                       const Strides& index_strides) {
  GatherAxes axes;
  for (int axis = 0; axis < rank; ++axis) {
    int64_t data_stride = 0, index_stride = 0;
    if (gather.mode == Gather::Mode::axis) {
      const int behind = gather.axis + indices.rank();
      if (axis < gather.axis) data_stride = data[axis];
      if (axis >= behind) data_stride = data[axis - indices.rank() + 1];
      if (axis >= gather.axis && axis < behind) index_stride = index_strides[axis - gather.axis];
    } else if (gather.mode == Gather::Mode::elements) {
      if (axis != gather.axis) data_stride = data[axis];
      index_stride = index_strides[axis];
    } else {
      const int named = indices.rank() - 1;  // axes of the result that come from indices
      const auto depth = static_cast<int>(indices[named]);
      if (axis < gather.batch_axes) data_stride = data[axis];
      if (axis >= named) data_stride = data[axis - named + gather.batch_axes + depth];
      if (axis < named) index_stride = index_strides[axis];
    }
    axes.data.append(data_stride);
    axes.indices.append(index_stride);
  }
  if (gather.mode != Gather::Mode::nd) {
    axes.indexed.push_back(gather.axis);
    return axes;
  }
  const int last = indices.rank() - 1;
  for (int i = 0; i < static_cast<int>(indices[last]); ++i) axes.indexed.push_back(gather.batch_axes + i);
  axes.index_stride = index_strides[last];
  return axes;
}

MatrixStrides matrix_strides(const Shape& shape) {
  MatrixStrides strides;
  const int last = shape.rank() - 1;
  for (int axis = 0; axis <= last; ++axis) {
    int64_t rows = axis < last ? 1 : 0;
    for (int behind = axis + 1; behind < last; ++behind) rows *= shape[behind];
    strides.rows.append(rows);
    strides.columns.append(axis < last ? 0 : 1);
  }
  return strides;
}

GatherWanted gather_wanted(const GatherShapes& shapes, int64_t row_begin, int64_t row_end, int64_t column_begin,
                           int64_t column_end) {
  // The box around the result's rectangle: rows agree in their first axes, differ in the next, and the others are
  // whole.
  const int rank = shapes.result.rank();
  Shape first = shapes.result, last = shapes.result;
  int64_t a = row_begin, b = row_end - 1;
  for (int axis = rank - 2; axis >= 0; --axis) {
    const int64_t extent = std::max<int64_t>(shapes.result[axis], 1);
    const bool whole = a / extent != b / extent;
    first[axis] = whole ? 0 : a % extent;
    last[axis] = whole ? extent - 1 : b % extent;
    a /= extent;
    b /= extent;
  }
  if (rank > 0) {
    first[rank - 1] = column_begin;
    last[rank - 1] = column_end - 1;
  }
  const MatrixStrides data = matrix_strides(shapes.data), indices = matrix_strides(shapes.indices);
  const GatherAxes rows = gather_axes(shapes.gather, rank, data.rows, shapes.indices, indices.rows);
  const GatherAxes columns = gather_axes(shapes.gather, rank, data.columns, shapes.indices, indices.columns);

  const MatrixExtents data_extents = matrix_extents(shapes.data), index_extents = matrix_extents(shapes.indices);
  GatherWanted wanted;
  wanted.data.matrix_rows = data_extents.rows;
  wanted.indices.matrix_rows = index_extents.rows;
  const auto span_of = [&](const Strides& strides, int64_t& begin, int64_t& end) {
    begin = 0;
    end = 1;
    for (int axis = 0; axis < rank; ++axis) {
      begin += first[axis] * strides[axis];
      end += last[axis] * strides[axis];
    }
  };
  span_of(rows.data, wanted.data.row_begin, wanted.data.row_end);
  span_of(columns.data, wanted.data.column_begin, wanted.data.column_end);
  span_of(rows.indices, wanted.indices.row_begin, wanted.indices.row_end);
  span_of(columns.indices, wanted.indices.column_begin, wanted.indices.column_end);
  for (const int axis : rows.indexed) {
    wanted.data.row_end += (shapes.data[axis] - 1) * data.rows[axis];
    wanted.data.column_end += (shapes.data[axis] - 1) * data.columns[axis];
  }
  if (shapes.gather.mode == Gather::Mode::nd) wanted.indices.column_end = index_extents.columns;
  return wanted;
}

}  // namespace low
