// Space: which decisions there are for one operation on one machine, in a fixed order of enumeration, and which values
// may stay views. Shared by the search and by verify().
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/search/layout.h"
#include "compiler/search/plan.h"

namespace low {

// Axes of a matmul's result with the batch dimensions flattened, and k.
struct MatmulShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
};
MatmulShape matmul_shape(const Graph& graph, const Op& op);

// Numbers of parts, from 1 to min(limit, extent), that leave no part empty: for each size of a part the smallest number
// that reaches it, so primes and odd sizes have as many choices as powers of two. Splits whose last part leaves more
// than `waste` of the parts' total size idle are left out, unless they divide the limit. At least {1}.
std::vector<uint32_t> splits(int64_t extent, uint32_t limit, double waste = 0.25);

// Numbers of partial sums worth considering for a depth of k, none empty, each of 16 or more products: 1 first, all
// small ones, then ever fewer.
std::vector<uint32_t> partial_sums(int64_t k, uint32_t limit);

// Calls function(plan) for each way to cut a matmul's axes and its k (into `most_parts_of_k` at most) within the
// machine's tiles, in a fixed order; the plans' blocks are not set.
void for_each_grid(const Machine& machine, const MatmulShape& shape, uint32_t most_parts_of_k,
                   const std::function<void(const MatmulPlan&)>& function);
// Tiles in use.
inline uint64_t grid_size(const MatmulPlan& plan) {
  return uint64_t{plan.grid_batch} * plan.grid_m * plan.grid_n * plan.grid_k;
}

// At most `limit` candidates, grids that use many tiles first.
std::vector<MatmulPlan> matmul_space(const Machine& machine, const MatmulShape& shape, DType a, DType b, int64_t limit);

// Appends the splits of one axis, the most parallel first, as long as there are fewer than `limit` plans. One part
// stands for all axes, along axis 0.
void append_splits(const Machine& machine, uint32_t axis, int64_t extent, int64_t limit, std::vector<SplitPlan>& plans);
// At most `limit` ways to cut a result of this shape; {axis 0, parts 1} alone for rank 0 and for nothing.
std::vector<SplitPlan> split_space(const Machine& machine, const Shape& shape, int64_t limit);

// The shape along whose axes the result of `op` may be cut: that of the result, with extent 1 for joined axes.
Shape split_shape(const Graph& graph, const Op& op);

// An input or a constant: there is nothing to decide.
bool is_given(const Op& op);
// Computed in parts (see graph/ops/parts.h): planned by a SplitPlan.
bool is_split(const Op& op);
// reshape, transpose, slice, expand, concat, pad: planned by a MovementPlan.
bool is_movement(const Op& op);
// Where the result of movement `op` lies if it stays a view of an operand of this layout; nothing when it cannot
// (concat and pad never can).
std::optional<Layout> view_layout(const Graph& graph, const Op& op, const Layout& operand);

// Repeat reads invariant and iterated operands in row-major order: whether this operand of `op` has to lie so.
bool needs_row_major(const Op& op, uint32_t operand);

// Repeats may be nested this deep, as deep as a program's loops.
inline constexpr int max_repeat_depth = 8;

}  // namespace low
