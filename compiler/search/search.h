// Search: graph + machine -> plans worth expanding (finalists), best first.
#pragma once

#include <string>
#include <vector>

#include "compiler/kernels/cost.h"
#include "compiler/search/plan.h"
#include "runtime/base/thread_pool.h"

namespace low {

struct SearchOptions {
  std::optional<AttentionAlgorithm> attention = std::nullopt;  // the only algorithm to plan with
  int finalists = 4;
  // States kept after each operation; without global memory up to four times as many while several values wait to be
  // read together.
  int beam = 16;
  int64_t candidates_per_op =
      4096;  // evaluated at most, in enumeration order; a budget counts candidates, never seconds
};

// One operation. Costs are those of all iterations of the repeats around it, so that a body's lines add up to its
// repeat's.
struct ExplanationLine {
  int depth = 0;         // in repeats
  std::string name;      // of the operation
  std::string decision;  // in words
  CostSum cost;
};

struct Finalist {
  Plan plan;
  Cost cost;          // predicted: items summed over all supersteps
  double cycles = 0;  // predicted: the sum of all supersteps' totals
  // Predicted: intermediates alive at once, without inputs, outputs and constants; without global memory what the
  // busiest tile needs, constants included.
  uint64_t peak_bytes = 0;
  uint64_t parameter_bytes = 0;        // of these, constants
  std::vector<ExplanationLine> lines;  // see explain()
  bool given = false;                  // from a plan file: nothing is predicted
};
struct SearchResult {
  std::vector<Finalist> finalists;  // at least one; distinct plans; ordered by predicted cycles, then by printed plan
  int64_t candidates = 0;           // evaluated
};

// The graph has been through run_passes. The result does not depend on the pool's number of threads.
// ErrorKind::unsupported when no plan fits the machine.
Result<SearchResult> search(const Graph& graph, const Machine& machine, const SearchOptions& options, ThreadPool& pool);

}  // namespace low
