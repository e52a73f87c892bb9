// Choices for machines without global memory: the decisions for one operation that are worth combining with those for
// others.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/search/distributed_cost.h"
#include "compiler/search/explain.h"

namespace low {

// A plan of a whole region.
struct DistributedRegionChoice {
  RegionPlan plan;
  CostSum cost;                            // of one run
  uint64_t working_bytes = 0;              // most at once on the busiest tile, without constants
  uint64_t parameter_bytes = 0;            // constants on the busiest tile
  std::vector<DistributedLayout> outputs;  // where each output lies
  std::vector<ExplanationLine> lines;
  std::string grids;  // of its matmuls: what tells finalists apart
  uint64_t need() const { return working_bytes + parameter_bytes; }
};

struct DistributedChoice {
  OpPlan plan;
  SplitPlan output;  // of an `output` that is copied
  DistributedCost cost;
  DistributedLayout layout;  // of the result, or of an output
  bool view = false;         // the result lies where operand 0 does
  // Of a repeat: where each result lies, what it keeps (both halves of a carried value), and the body's plan.
  std::vector<DistributedLayout> results;
  std::vector<uint64_t> result_bytes;
  std::shared_ptr<const DistributedRegionChoice> body;
  uint64_t need() const { return cost.working_bytes + cost.parameter_bytes; }
};

struct DistributedContext {
  const Machine& machine;
  SearchOptions options;
  ThreadPool& pool;
  int64_t candidates = 0;  // evaluated
};

// For one operation, but no repeat and no output: the fastest choices, at most options.finalists of different grids,
// and choices that need ever less memory. With `required`, only those whose result has that layout. In order of time.
std::vector<DistributedChoice> distributed_op_choices(DistributedContext& context, const Graph& graph, const Op& op,
                                                      std::span<const DistributedLayout> operands,
                                                      const std::optional<DistributedLayout>& required);
// An output that has to be copied to tiles of its own (a carried value of a Repeat).
std::vector<DistributedChoice> distributed_output_choices(DistributedContext& context, const Type& type,
                                                          const DistributedLayout& source,
                                                          const std::optional<DistributedLayout>& required);

}  // namespace low
