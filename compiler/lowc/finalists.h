// The finalists of a search side by side: what each costs, moves and holds, what each decides, and why one of them was
// taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/lowc/json.h"
#include "runtime/base/thread_pool.h"

namespace low::lowc {

// One operation, and what each finalist decides for it; operations of which there is nothing to decide are left out.
struct DecisionRow {
  int depth = 0;  // in repeats
  std::string operation;
  std::vector<std::string> choices;  // by finalist
};
std::vector<DecisionRow> decisions(const Graph& graph, const PlannedProgram& planned);

// What a finalist needs where memory is scarce: the busiest tile's own, or global memory (arena and parameters).
struct PeakMemory {
  bool known = false;  // not of a finalist that could not be expanded or placed
  uint64_t bytes = 0;
  uint64_t capacity_bytes = 0;  // 0: not limited
  std::string rejected;         // why it cannot be placed
};
// Places all finalists, for comparison: planning itself stops at the cheapest that fits.
std::vector<PeakMemory> peak_memory(const PlannedProgram& planned, ThreadPool& pool);

// `graph` has been through the passes; `peaks` is by finalist.
std::string explain_finalists(const Graph& graph, const PlannedProgram& planned, const std::vector<PeakMemory>& peaks);
// Appends "finalists": […] to an object.
void write_finalists(const Graph& graph, const PlannedProgram& planned, const std::vector<PeakMemory>& peaks,
                     JsonWriter& json);

}  // namespace low::lowc
