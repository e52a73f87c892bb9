// Exhaustive search: what the best of all plans in the search's space costs. For small graphs; the beam is judged by
// it.
//
// Every decision for every operation is combined with every one for those before it. Of partial plans that no later
// operation can tell apart (the same layouts of what is still read), one is left out if another one costs no more,
// whatever joins the superstep that may still be joined. Memory is not looked at: no plan that fits is better than what
// is found here.
#pragma once

#include <cstdint>
#include <limits>

#include "compiler/search/search.h"

namespace low {

struct ExhaustiveOptions {
  int64_t steps = 5'000'000;  // candidates evaluated and partial plans extended, at most
  // Partial plans that cost more are not gone on with: a plan's cost, to see whether there is a better one.
  double bound_cycles = std::numeric_limits<double>::infinity();
  // Each operation's and each partial plan's costs that differ by less than this part of them count as equal: far fewer
  // steps, for a result that may be above the least by as much for each operation.
  double tolerance = 0;
};

struct ExhaustiveResult {
  double cycles = 0;  // infinite: there is no plan within the bound
  int64_t steps = 0;
};

// The graph has been through run_passes. ErrorKind::unsupported where that takes more steps than allowed, and for
// operations that are not planned for the machine.
Result<ExhaustiveResult> search_exhaustively(const Graph& graph, const Machine& machine,
                                             const ExhaustiveOptions& options = {});

// Counts what an enumeration does.
class StepBudget {
 public:
  explicit StepBudget(int64_t limit, double tolerance) : limit_(limit), tolerance_(tolerance) {}
  // Before `count` more steps. ErrorKind::unsupported if they are too many.
  Result<void> take(size_t count);
  int64_t taken() const { return taken_; }
  double tolerance() const { return tolerance_; }

 private:
  int64_t limit_;
  double tolerance_;
  int64_t taken_ = 0;
};

// No space is larger, or it is refused.
inline constexpr int64_t max_exhaustive_space = 1'000'000;

}  // namespace low
