// Plan: all decisions for one graph on one machine. Small and printable.
//
// A plan has one OpPlan for each operation of the graph, in the graph's order; `repeat` holds the plan of its body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/kernels/families/attention.h"
#include "compiler/machine/machine.h"

// On machines without global memory the same plans mean this, for values seen as matrices [rows, columns] (columns is
// the last axis, rows all others together; rank 0 is [1, 1]):
//  - Matmul: part (b, i, j, p) runs on tile ((b * grid_m + i) * grid_n + j) * grid_k + p; the product of the grids is
//    at most the number of tiles. One kernel run for each batch of a part (block_m and block_n are the part's extents);
//    the result of a part stays on its tile. Operands are gathered. block_k < k: the operands arrive in panels of that
//    depth, one superstep each, sums are kept in f32. grid_k > 1: part p sums its share of k, and the partial sums are
//    reduced in another superstep, tile p of a part finishing its share of rows.
//  - Attention: as with global memory; each tile gathers its rows of q, and k and v of its heads. key_parts > 0: k and
//    v are put together first, in a superstep of their own, in so many parts of their rows for each batch and head of
//    keys, of which part (b, i, h) lies on tile (b * key_parts + i) * heads of keys + h; all tiles gather them from
//    there, in fewer pieces.
//  - SplitPlan: the axis is 0, which cuts the matrix's rows (into at most as many parts as there are), or the last one,
//    which cuts columns (rank 1: columns). Part i stays on tile i.
//  - Only a reshape that keeps the last extent can be a view; every other movement is a copy.
//  - reduce, rowwise and cumulative are along the last axis, and there is no pad: legalize_for_distributed_memory sees
//    to both. Each part of a gather pulls what its indices may name: with columns cut, those columns of the whole
//    table.
namespace low {

// input, constant, output, and movements that stay views: nothing to decide.
struct NoPlan {
  bool operator==(const NoPlan&) const = default;
};

// The result [batch, m, n] (batch dimensions flattened) is cut into grid_batch x grid_m x grid_n parts, and k into
// grid_k partial sums; part (b, i, j, p) runs on tile ((b * grid_m + i) * grid_n + j) * grid_k + p, modulo the number
// of tiles. Share p of k are its columns [p * ceil(k / grid_k), …), never none. With global memory, partial sums are
// written as [grid_k, batch, m, n], and a second superstep, in which the tiles share the result's rows, adds them up
// and applies the epilogue. Along m, part i covers rows [i * ceil(m / grid_m), …), likewise n and batch. A tile walks
// its part in blocks: one kernel run for each block (the last of a row or column may be smaller), over all of the
// tile's k. block_k is the depth in which a kernel stages operands; it divides no result.
struct MatmulPlan {
  uint32_t grid_batch = 1, grid_m = 1, grid_n = 1, grid_k = 1;
  int64_t block_m = 1, block_n = 1, block_k = 1;
  bool operator==(const MatmulPlan&) const = default;
};
inline bool same_grid(const MatmulPlan& a, const MatmulPlan& b) {
  return a.grid_batch == b.grid_batch && a.grid_m == b.grid_m && a.grid_n == b.grid_n && a.grid_k == b.grid_k;
}

// The result's row-major index space is cut along `axis` into `parts` (part i covers [i * ceil(extent / parts), …) on
// tile i). Used by pointwise, and by movements that are materialized; and by reduce, rowwise, cumulative and gather,
// along an axis that is not reduced, normalized or summed along (one part where there is none).
struct SplitPlan {
  uint32_t axis = 0;
  uint32_t parts = 1;
  bool operator==(const SplitPlan&) const = default;
};

// reshape, transpose, slice, expand: `view` leaves the data where it is, `copy` writes it anew in row-major order.
// A reshape whose operand's strides do not allow a view must be `copy`, and so must concat and pad.
struct MovementPlan {
  bool copy = false;
  SplitPlan split;  // of the copy
  bool operator==(const MovementPlan&) const = default;
};

// The result [batch, m, q_heads * dv] is cut into grid_batch x grid_m x grid_heads parts, the heads of q along its last
// axis; part (b, i, h) runs on tile (b * grid_m + i) * grid_heads + h, modulo the number of tiles. An axis's part i
// covers [i * ceil(extent / grid), …). A tile walks its part by batch, head and block of block_m rows: one kernel run
// each (materialized: three, through one block of scores that the tile keeps), over all keys. Without global memory
// block_m is the whole part, and with block_n < n flash attention's keys and values arrive in panels of block_n keys,
// one superstep each, rows keeping their state in between; else block_n is n.
struct AttentionPlan {
  AttentionAlgorithm algorithm = AttentionAlgorithm::flash;
  uint32_t grid_batch = 1, grid_m = 1, grid_heads = 1;
  int64_t block_m = 1, block_n = 1;
  uint32_t key_parts = 0;  // 0: keys and values are gathered from where they lie
  bool operator==(const AttentionPlan&) const = default;
};

std::string_view name(AttentionAlgorithm algorithm);
std::optional<AttentionAlgorithm> attention_algorithm(std::string_view word);

struct RegionPlan;
struct RepeatPlan {
  std::vector<RegionPlan> body;  // exactly one
  bool operator==(const RepeatPlan&) const;
};

using OpPlan = std::variant<NoPlan, MatmulPlan, SplitPlan, MovementPlan, RepeatPlan, AttentionPlan>;

struct RegionPlan {
  std::vector<OpPlan> ops;
  // How a value that leaves the region gets to its place (graph outputs, next carried and collected values): one split
  // for each `output`, in order. Unused where the producer writes the place itself, which it does if the value, or the
  // one of which it is a reshape that stays a view, is produced in the region, and no earlier output has decided where
  // it is written.
  std::vector<SplitPlan> outputs;
  bool operator==(const RegionPlan&) const = default;
};
inline bool RepeatPlan::operator==(const RepeatPlan& other) const { return body == other.body; }

struct Plan {
  std::string machine;
  uint32_t tiles = 0;
  std::string graph_digest;  // digest(graph) of the graph it was made for
  RegionPlan region;
  bool operator==(const Plan&) const = default;
};

// Text: "low-plan 2", machine, tiles, graph, then one line an operation, regions indented.
std::string print(const Plan& plan);
Result<Plan> parse_plan(std::string_view text);
// Plans one after another, at least one. A message about one that is not the first says which.
Result<std::vector<Plan>> parse_plans(std::string_view text);
// A plan from elsewhere (--plan): right graph and machine, right kinds, grids within the tiles, blocks and axes in
// range, views only where strides allow. ErrorKind::invalid naming the operation.
Result<void> verify(const Plan& plan, const Graph& graph, const Machine& machine);

}  // namespace low
