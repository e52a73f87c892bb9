// Cost of one operation's decision on a machine without global memory: its supersteps, and what they need of the
// busiest tile's memory.
//
// A superstep is an exchange and then compute. The exchange takes as long as the tile that receives most needs (bytes
// at the exchange's rate, and a fixed cost for each piece), or the tile that sends most (what several tiles want counts
// once). What lies on the tile already and comes with pieces from elsewhere is copied at the tile's own rate.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/search/attention.h"
#include "compiler/search/distributed_layout.h"
#include "compiler/search/gather_axes.h"
#include "compiler/search/op_cost.h"
#include "compiler/search/search.h"
#include "compiler/search/space.h"

namespace low {

struct DistributedCost {
  CostSum cost;
  uint64_t working_bytes =
      0;  // most at once while the operation runs: gathered operands, partial sums, and the result's shard
  uint64_t result_bytes = 0;     // the result's shard
  uint64_t parameter_bytes = 0;  // constants that a tile is given, for the whole run
};

// What a matmul's cost depends on, apart from its plan. Layouts are the operands'.
struct DistributedMatmul : MatmulFacts {
  struct Operand {
    DistributedLayout layout;
    int64_t element_bytes = 4;
    int64_t matrices = 1;              // of the operand: 1, or as many as the result's batch
    bool transposed = false;           // a and b: how they are stored
    bool rows = true, columns = true;  // extras: whether they vary along m and n
  };
  Operand left, right;
  std::vector<Operand> extras;
};
DistributedMatmul distributed_matmul(const Graph& graph, const Op& op, std::span<const DistributedLayout> operands);
DistributedCost distributed_matmul_cost(const Machine& machine, const DistributedMatmul& work, const MatmulPlan& plan);

// What attention's cost depends on, apart from its plan. Layouts are the operands'.
struct DistributedAttention {
  struct Operand {
    DistributedLayout layout;
    int64_t element_bytes = 4;
  };
  AttentionWork work;
  Operand q, k, v;
  struct Mask : Operand {
    bool by_row = false, by_key = false;
    int64_t heads = 1;  // rows of its matrix for a row of q, at most: those of all heads of a part
  };
  std::optional<Mask> mask;
  std::vector<Operand> extras;
};
DistributedAttention distributed_attention(const Graph& graph, const Op& op,
                                           std::span<const DistributedLayout> operands);
DistributedCost distributed_attention_cost(const Machine& machine, const DistributedAttention& work,
                                           const AttentionPlan& plan);

// What the cost of an operation that is computed in parts, or of a movement, depends on, apart from its split.
struct DistributedSplit {
  enum class Operand : uint8_t {
    same,     // broadcasts: an element is read by those of the result in the same row and column
    rows,     // whole rows are read for any element of the same row
    moved,    // a movement: any of its elements may be wanted anywhere
    data,     // of a gather: all that an index may name
    indices,  // of a gather
    whole,    // by every part
    columns,  // whole columns are read for any element of the same column
  };
  // How a moved operand's rectangles become the result's.
  enum class Pieces : uint8_t {
    follow,    // neighbours stay neighbours: from few tiles
    crossing,  // from any tile, a box each
    ragged,    // row by row
  };
  struct Source {
    DistributedLayout layout;
    int64_t element_bytes = 4;
    MatrixExtents extents;
    Operand kind = Operand::same;
    Pieces pieces = Pieces::follow;
    double share = 1;  // moved: of the result's elements
  };
  Shape shape;
  int64_t result_bytes = 4;
  int64_t expression_nodes = 0;
  int64_t updates = 0;           // as in SplitWork
  bool copies = false;           // no kernel runs: pieces go to their places
  uint64_t parameter_bytes = 0;  // of constants that are moved
  std::optional<GatherShapes> gather;
  std::vector<Source> sources;
};
// Of an operation that is computed in parts, and joins no axis but the last.
DistributedSplit distributed_split(const Graph& graph, const Op& op, std::span<const DistributedLayout> operands);
// reshape, transpose, slice, expand, concat.
DistributedSplit distributed_movement(const Machine& machine, const Graph& graph, const Op& op,
                                      std::span<const DistributedLayout> operands);
// Moves a value to another layout.
DistributedSplit distributed_copy(const Type& type, const DistributedLayout& source);
DistributedCost distributed_split_cost(const Machine& machine, const DistributedSplit& work, const SplitPlan& plan);
// The same for any layout of the result (the initial values of a Repeat).
DistributedCost distributed_copy_cost(const Machine& machine, const Type& type, const DistributedLayout& source,
                                      const DistributedLayout& to);
// Moves a value out of the tiles.
DistributedCost distributed_output_cost(const Machine& machine, const Type& type, const DistributedLayout& source);

}  // namespace low
