// How the axes of a gather's result, of its data and of its indices belong together.
#pragma once

#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/search/distributed_layout.h"

namespace low {

// Strides of 0: the operand does not vary along the result's axis.
struct GatherAxes {
  Strides data, indices;     // over the result's axes
  std::vector<int> indexed;  // axes of data that an index names
  int64_t index_stride = 0;  // from one index of a position to the next
};
// `rank` is the result's; `data` and `index_strides` are the operands' strides over their own axes.
GatherAxes gather_axes(const Gather& gather, int rank, const Strides& data, const Shape& indices,
                       const Strides& index_strides);

// Rectangles of the operands' matrices which a rectangle of the result's matrix may read: they bound what it reads.
struct GatherWanted {
  Wanted data, indices;  // of one matrix each
};
struct GatherShapes {
  Gather gather;
  Shape data, indices, result;
};
// `rows` and `columns` of the result, none empty.
GatherWanted gather_wanted(const GatherShapes& shapes, int64_t row_begin, int64_t row_end, int64_t column_begin,
                           int64_t column_end);

// Strides of an operand's axes in its matrix [rows, columns]: a step along an axis is that many rows, or columns.
struct MatrixStrides {
  Strides rows, columns;
};
MatrixStrides matrix_strides(const Shape& shape);

}  // namespace low
