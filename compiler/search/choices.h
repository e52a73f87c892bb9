// Choices: the decisions for one operation that are worth combining with those for others, with their costs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compiler/search/explain.h"
#include "compiler/search/layout.h"
#include "compiler/search/search.h"

namespace low {

// A plan of a whole region.
struct RegionChoice {
  RegionPlan plan;
  CostSum cost;             // of one run
  uint64_t peak_bytes = 0;  // of intermediates
  std::vector<ExplanationLine> lines;
};

struct Choice {
  OpPlan plan;
  SplitPlan output;  // of an `output`
  CostSum cost;
  uint64_t temporary_bytes = 0;              // alive only while the operation runs
  std::optional<Layout> view;                // the result is a view of operand 0 with this layout
  std::shared_ptr<const RegionChoice> body;  // of a repeat
};

// What one search shares: options in range, and the count of evaluated candidates.
struct SearchContext {
  const Machine& machine;
  SearchOptions options;
  ThreadPool& pool;
  int64_t candidates = 0;
};

// matmul, what is split along an axis, and movements, for operands of these layouts: the best choices, cheapest first,
// at most options.finalists of them (and for a movement the view before these, where there is one). They differ in more
// than block sizes where the operation has such alternatives.
std::vector<Choice> op_choices(SearchContext& context, const Graph& graph, const Op& op,
                               std::span<const Layout> operands);
// An output that has to be copied from a value of this type and layout.
std::vector<Choice> output_choices(SearchContext& context, const Type& type, const Layout& source);

}  // namespace low
