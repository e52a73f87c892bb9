// Choices for machines without global memory: the decisions for one operation that are worth combining with those for others.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/search/explain.h"
#include "compiler/search/tile_cost.h"

namespace low {

// A plan of a whole region.
struct TileRegionChoice {
  RegionPlan plan;
  CostSum cost;                     // of one run
  uint64_t working_bytes = 0;       // most at once on the busiest tile, without constants
  uint64_t parameter_bytes = 0;     // constants on the busiest tile
  std::vector<TileLayout> outputs;  // where each output lies
  std::vector<ExplanationLine> lines;
  std::string grids;  // of its matmuls: what tells finalists apart
  uint64_t need() const { return working_bytes + parameter_bytes; }
};

struct TileChoice {
  OpPlan plan;
  SplitPlan output;  // of an `output` that is copied
  TileCost cost;
  TileLayout layout;                             // of the result, or of an output
  bool view = false;                             // the result lies where operand 0 does
  std::vector<TileLayout> results;               // of a repeat, with the halves of carried values:
  std::vector<uint64_t> result_bytes;            // what each result keeps
  std::shared_ptr<const TileRegionChoice> body;  // of a repeat
  uint64_t need() const { return cost.working_bytes + cost.parameter_bytes; }
};

struct TileContext {
  const Machine& machine;
  SearchOptions options;
  ThreadPool& pool;
  int64_t candidates = 0;  // evaluated
};

// matmul, pointwise, movements: the fastest, at most options.finalists of different grids, and choices that need ever less memory, of
// those whose result has the layout `required`, if that is given. By time. Nothing for other operations.
std::vector<TileChoice> tile_op_choices(TileContext& context, const Graph& graph, const Op& op,
                                        std::span<const TileLayout> operands,
                                        const std::optional<TileLayout>& required);
// An output that has to be copied to tiles of its own (a carried value of a Repeat).
std::vector<TileChoice> tile_output_choices(TileContext& context, const Type& type, const TileLayout& source,
                                            const std::optional<TileLayout>& required);

}  // namespace low
