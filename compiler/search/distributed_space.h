// Space for machines without global memory: which decisions there are for one operation, in a fixed order of
// enumeration, and which plans are sound. Shared by the search and by verify().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/search/plan.h"
#include "compiler/search/space.h"

namespace low {

// Rectangles of constants of at most this many elements are given to each tile that wants them; of a matmul's larger
// ones b each tile holds a share.
inline constexpr int64_t max_replicated_elements = 8192;

// Grids that use many tiles first; parts over k as well. At most `limit` candidates; block_k is the whole depth of a
// part (distributed_panels has the others).
std::vector<MatmulPlan> distributed_matmul_space(const Machine& machine, const MatmulShape& shape, int64_t limit);
// Depths of panels for a part over k of this depth: the whole, and fractions of it.
std::vector<int64_t> distributed_panels(int64_t depth);

// Along axis 0 and along the last axis. At most `limit`; {axis 0, parts 1} alone for rank 0 and for nothing.
std::vector<SplitPlan> distributed_split_space(const Machine& machine, const Shape& shape, int64_t limit);

// What a cut along this axis divides: the matrix's rows or its columns.
int64_t distributed_split_extent(const Shape& shape, uint32_t axis);

// Where a constant lies from which other tiles fetch parts: small ones whole on one tile, others along the longer axis
// of their matrix.
SplitPlan distributed_constant_split(const Machine& machine, const Shape& shape);

// What can be planned without global memory. After legalize_for_distributed_memory (graph/passes) that is everything:
// no pad, and whatever joins axes joins the last one alone, whose rows are never cut.
bool is_distributed_operation(const Graph& graph, const Op& op);
// Whether a part needs whole rows of its first operand: Parts::rows.
bool needs_whole_rows(const Op& op);
// A reshape that keeps the last extent: its result lies where its operand does.
bool is_distributed_view(const Graph& graph, const Op& op);

// Which of the first `kept` outputs (those of a Repeat's body, which stay on the tiles) are written by the operations
// that compute their values, or the values of which they are views. The first of several outputs of one value is.
struct OutputWriters {
  static constexpr uint32_t none = UINT32_MAX;
  Table<ValueId, uint32_t> output;  // by value: the output that its producer writes, or none
  std::vector<bool> written;        // by output
};
OutputWriters output_writers(const Graph& graph, uint32_t kept);

// What is wrong with a plan whose grid is within the tiles and the extents, or nothing.
std::optional<std::string> distributed_matmul_violation(const MatmulShape& shape, const MatmulPlan& plan);
std::optional<std::string> distributed_split_violation(const Shape& shape, const SplitPlan& plan);

}  // namespace low
