// Where a graph value lives while a graph is expanded: a layout inside an allocation, with terms for enclosing Repeats.
#pragma once

#include <boost/container/small_vector.hpp>

#include "compiler/base/range.h"
#include "compiler/low/builder.h"
#include "compiler/machine/machine.h"
#include "compiler/search/layout.h"

namespace low {

struct Placed {
  AllocationId allocation;
  Layout layout;  // over the value's shape
  boost::container::small_vector<Term, 2> terms;
};

// Drops axes of extent 1 and joins neighbouring axes that every operand walks as one. The result has rank at least 1;
// strides of axes of extent 1 become 0.
struct CollapsedBox {
  Shape extents;
  std::vector<Strides> strides;
};
CollapsedBox collapse(const Shape& extents, std::span<const Strides> strides);

// The expression that converts its input.
Expr converted(DType from, DType to);

// The contract's id, once it is configured for runs of these extents.
ContractId configured(TileGraphBuilder& builder, KernelContract& contract, const Shape& extents);

// The class of an axis with this extent and stride.
Access access_of(int64_t extent, int64_t stride);
std::vector<Access> access_list(const Shape& extents, const Strides& strides);

// Result elements [begin, begin + size) of an axis are operand elements source, source + step, …
struct AxisPiece {
  int64_t begin = 0, size = 0;
  int64_t source = 0;
  int64_t step = 1;  // 0, 1 or -1
};

// The part of a result that one tile writes: a range of one axis.
struct PartOf {
  int axis = 0;
  Range range;
  TileId tile;
};

// Moves a box of `extents` elements from one place to another. The loops are collapsed; the innermost contiguous run is
// the chunk.
struct CopyLoops {
  CopyDescriptor descriptor;
  CollapsedBox box;  // operand 0 is the source, 1 the destination
};
CopyLoops copy_loops(DType source, DType destination, const Shape& extents, const Strides& source_strides,
                     const Strides& destination_strides);

}  // namespace low
