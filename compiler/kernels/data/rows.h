// How kernels over (outer axes, inner axes) go through their groups: for them, and for the compiler when it states how
// much scratch they need. A group is what differs in inner axes only.
//
//   rows: one group after the other, along the last inner axis; elements go through a buffer, and are combined in
//     sixteen partial results (element i of the buffer in partial i mod 16, in blocks) that are combined in a fixed
//     tree.
//   columns: groups that are neighbours along an outer axis at once, where x is contiguous there but not along the last
//     inner axis.
//
// Neither depends on a target's vectors, so that all targets give the same bits.
#pragma once

namespace low::device {

struct RowPlan {
  bool columns = false;
  int axis = 0;         // the outer axis along which results are written in blocks
  long long width = 1;  // groups of a block
  long long count = 1;  // elements of a group
  // rowwise: elements kept in scratch at once (rows: of a group; columns: of all groups of a block), or less than a
  // group has where that is too much.
  long long kept = 1;
};

inline constexpr int row_partials = 16;
inline constexpr long long max_kept_row = 1 << 20;
inline constexpr long long max_column_count = 4096;
inline constexpr long long piece_of_row = 4096;  // a multiple of row_partials

// `access` of x along all `rank` axes of `extents`: 0 broadcast, 1 unit, 2 strided.
template <typename Extent, typename Access>
constexpr RowPlan row_plan(int rank, int inner, const Extent* extents, const Access* access) {
  RowPlan plan;
  const int outer = rank - inner;
  int last = rank - 1;  // the innermost inner axis that has more than one element
  for (int axis = outer; axis < rank; ++axis) plan.count *= extents[axis];
  while (last > outer && extents[last] == 1) --last;
  for (int axis = 0; axis < outer; ++axis) {
    if (extents[axis] > 1) plan.axis = axis;
  }
  const bool contiguous = static_cast<int>(access[last]) != 2 || extents[last] == 1;
  int neighbours = -1;
  for (int axis = 0; axis < outer; ++axis) {
    if (static_cast<int>(access[axis]) == 1 && extents[axis] >= 8) neighbours = axis;
  }
  plan.columns = neighbours >= 0 && (!contiguous || plan.count == 1) && plan.count <= max_column_count;
  if (plan.columns) plan.axis = neighbours;
  const long long extent = extents[plan.axis];
  plan.width = extent <= 16 ? 16 : extent <= 32 ? 32 : 64;
  if (plan.columns) {
    plan.kept = plan.count * plan.width;
  } else {
    const bool whole = plan.count <= max_kept_row;
    plan.kept = whole ? (plan.count + row_partials - 1) / row_partials * row_partials : piece_of_row;
  }
  return plan;
}

}  // namespace low::device
