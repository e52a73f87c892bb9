// Boxes of an index space: what a range of a matrix's rows is in terms of the axes that they come from.
#pragma once

#include <vector>

#include "runtime/tensor/shape.h"

namespace low {

struct IndexBox {
  Shape first, extents;
};

// The row-major range [begin, end) of an index space as boxes, in order, none empty: at most two for each axis.
std::vector<IndexBox> boxes_of_range(const Shape& shape, int64_t begin, int64_t end);

// The first `axes` axes, and the others.
struct SplitShape {
  Shape leading, trailing;
};
SplitShape split_axes(const Shape& shape, int axes);
// Both boxes' axes, one after the other.
IndexBox joined(const IndexBox& leading, const IndexBox& trailing);

}  // namespace low
