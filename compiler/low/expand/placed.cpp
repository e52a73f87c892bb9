#include "compiler/low/expand/placed.h"

#include <algorithm>

namespace low {

CollapsedBox collapse(const Shape& extents, std::span<const Strides> strides) {
  CollapsedBox box;
  box.strides.resize(strides.size());
  for (int axis = 0; axis < extents.rank(); ++axis) {
    if (extents[axis] == 1) continue;
    const int last = box.extents.rank() - 1;
    bool joins = last >= 0;
    for (size_t i = 0; joins && i < strides.size(); ++i)
      joins = box.strides[i][last] == strides[i][axis] * extents[axis];
    if (joins) {
      box.extents[last] *= extents[axis];
      for (size_t i = 0; i < strides.size(); ++i) box.strides[i][last] = strides[i][axis];
    } else {
      box.extents.append(extents[axis]);
      for (size_t i = 0; i < strides.size(); ++i) box.strides[i].append(strides[i][axis]);
    }
  }
  if (box.extents.rank() == 0) {
    box.extents.append(1);
    for (Strides& s : box.strides) s.append(0);
  }
  return box;
}

Expr converted(DType from, DType to) {
  ExprBuilder expr(1);
  const uint16_t input = expr.input(0, from);
  return std::move(expr).finish(expr.convert(input, to));
}

ContractId configured(TileGraphBuilder& builder, KernelContract& contract, const Shape& extents) {
  configure(contract, extents);
  return builder.contract(contract);
}

Access access_of(int64_t extent, int64_t stride) {
  if (extent == 1 || stride == 0) return Access::broadcast;
  return stride == 1 ? Access::unit : Access::strided;
}

std::vector<Access> access_list(const Shape& extents, const Strides& strides) {
  std::vector<Access> list;
  for (int axis = 0; axis < extents.rank(); ++axis) list.push_back(access_of(extents[axis], strides[axis]));
  return list;
}

CopyLoops copy_loops(DType source, DType destination, const Shape& extents, const Strides& source_strides,
                     const Strides& destination_strides) {
  const Strides strides[2] = {source_strides, destination_strides};
  CopyLoops loops{.descriptor = {.source = source,
                                 .destination = destination,
                                 .overflow = Overflow::propagate,
                                 .counts = {},
                                 .source_strides = {},
                                 .destination_strides = {},
                                 .chunk = 1},
                  .box = collapse(extents, strides)};
  const CollapsedBox& box = loops.box;
  int rank = box.extents.rank();
  const int last = rank - 1;
  if (box.extents[last] == 1) {
    rank = 0;  // one element
  } else if (box.strides[0][last] == 1 && box.strides[1][last] == 1) {
    loops.descriptor.chunk = box.extents[last];
    rank = last;
  }
  for (int axis = 0; axis < rank; ++axis) {
    loops.descriptor.counts.append(box.extents[axis]);
    loops.descriptor.source_strides.append(box.strides[0][axis]);
    loops.descriptor.destination_strides.append(box.strides[1][axis]);
  }
  return loops;
}

}  // namespace low
