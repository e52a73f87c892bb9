// Exhaustive search: what the best of all plans in the search's space costs. For small graphs; the beam is judged by
// it.
//
// Every decision for every operation is combined with every one for those before it. Partial plans that no later
// operation can tell apart (the same layouts of what is still read) are counted once, with the least cost among them,
// which loses none but for what a superstep that they share would cost. Memory is not looked at: no plan that fits is
// better than what is found here.
#pragma once

#include <cstdint>
#include <limits>

#include "compiler/search/search.h"

namespace low {

struct ExhaustiveOptions {
  int64_t steps = 5'000'000;  // candidates evaluated and partial plans extended, at most
  // Partial plans that cost more are not gone on with: a plan's cost, to see whether there is a better one.
  double bound_cycles = std::numeric_limits<double>::infinity();
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
  explicit StepBudget(int64_t limit) : limit_(limit) {}
  // Before `count` more steps. ErrorKind::unsupported if they are too many.
  Result<void> take(size_t count);
  int64_t taken() const { return taken_; }

 private:
  int64_t limit_;
  int64_t taken_ = 0;
};

// No space is larger, or it is refused.
inline constexpr int64_t max_exhaustive_space = 1'000'000;

}  // namespace low
