// What the search of a region asks of a machine's memory: where values can lie, which decisions there are for an
// operation and what they cost and need, and how a Repeat's body is entered and left. There is one for global memory
// (global_memory.h) and one for memories of tiles (distributed_memory.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/search/exhaustive.h"
#include "compiler/search/explain.h"
#include "compiler/search/layout_table.h"
#include "compiler/search/search.h"

namespace low {

// A plan of a whole region.
struct RegionChoice {
  RegionPlan plan;
  CostSum cost;                       // of one run
  uint64_t working_bytes = 0;         // most at once, without constants
  uint64_t parameter_bytes = 0;       // of constants, where they are counted
  std::vector<LayoutNumber> outputs;  // where each output lies
  std::vector<ExplanationLine> lines;
  uint64_t grids = 0;  // of its matmuls and attentions, hashed: what tells finalists apart
  uint64_t need() const { return working_bytes + parameter_bytes; }
};

// What a superstep does, its busiest tile alone: enough to tell what it costs with another one joined to it.
struct StepWork {
  Cost tile;
  double bytes = 0, distinct_bytes = 0;
};
// What such a superstep costs by itself.
Cost cost_of(const Machine& machine, const StepWork& work);
// Whether `a` joined to anything takes no longer than `b` joined to it, or longer by a part of `tolerance` at most.
bool no_worse(const StepWork& a, const StepWork& b, double tolerance);

// A decision for one operation.
struct Choice {
  struct Place {
    LayoutNumber layout = no_layout;
    uint64_t bytes = 0;
    bool operator==(const Place&) const = default;
  };
  OpPlan plan;
  SplitPlan output;  // of an `output` that is copied
  CostSum cost;
  uint64_t working_bytes = 0;    // most at once while the operation runs, its results included
  uint64_t parameter_bytes = 0;  // of constants, for the whole run
  // Of its supersteps the first, which may join others, and the last, which others may join, if they may.
  std::optional<StepWork> first, last;
  bool view = false;  // the result lies in the storage of operand 0
  // Of a beam: tried even if it is not among the first, since its superstep may be one with those before or behind it.
  bool shares = false;
  std::vector<Place> results;                // of an output: where it lies
  std::shared_ptr<const RegionChoice> body;  // of a repeat
};

// What one search shares: options in range, and the count of evaluated candidates.
struct SearchContext {
  const Machine& machine;
  SearchOptions options;
  ThreadPool& pool;
  int64_t candidates = 0;
  // All decisions are tried, whatever they need, and counted here: choices are then the cheapest for each layout.
  StepBudget* exhaustive = nullptr;
};

// Counts candidates for one operation. Searched exhaustively: ErrorKind::unsupported if they are too many.
Result<void> count_candidates(SearchContext& context, size_t count);

// What a choice has to fulfil besides.
struct Demand {
  LayoutNumber layout = no_layout;  // the result, or an output, lies so
  bool in_place = true;             // an output is written where it belongs by who computed its value
  bool operator==(const Demand&) const = default;
};

// Costs and bytes from before a Repeat's first iteration.
struct Entrance {
  CostSum cost;
  uint64_t working_bytes = 0, parameter_bytes = 0;
};

// Of one region.
class RegionMemory {
 public:
  virtual ~RegionMemory() = default;
  // Of the body of a repeat in this region.
  virtual std::unique_ptr<RegionMemory> of_body(const Graph& body) const = 0;

  // Bytes that a state may need; what is said when none fits.
  virtual uint64_t capacity() const { return UINT64_MAX; }
  // Where an input lies if nobody says otherwise, and a constant.
  virtual LayoutNumber layout_of_input(ValueId value) = 0;
  virtual LayoutNumber layout_of_constant(ValueId value) = 0;

  // For an operation that is no input, constant or repeat: cheapest first, a view before all. Errors name the
  // operation.
  virtual Result<std::vector<Choice>> choices(size_t op, std::span<const LayoutNumber> operands,
                                              const Demand& demand) = 0;
  // Whether costly operations alone keep alternatives, so that finalists differ in what matters.
  virtual bool keeps_few_alternatives() const = 0;
  // States that are kept, if so many values wait for a reader.
  virtual size_t beam_width(size_t waiting) const = 0;
  // Where every tile writes or reads only elements [t * chunk, (t + 1) * chunk) of a value, in row-major order, t being
  // its number: that chunk; else 0. `operand`: of an operation with this plan.
  virtual int64_t written_chunk(const Op& op, const OpPlan& plan) const = 0;
  virtual int64_t read_chunk(const Op& op, uint32_t operand, const OpPlan& plan) const = 0;
  // Whether an output may be written by who computes its value, or the value that this is a reshape of, depending on
  // what views are chosen.
  virtual bool places_outputs() const = 0;
  // The output, by number, whose layout the result of an operation decides; none: no output's.
  virtual uint32_t output_written_by(ValueId value) const = 0;
  // Whether the storage of a value, or what an output (by its operation) copies to, is counted elsewhere.
  virtual bool counted_elsewhere(ValueId value) const = 0;
  virtual bool counted_elsewhere(size_t output) const = 0;
  virtual std::string describe_output(size_t op, const Choice& choice) const = 0;

  // --- repeats

  // Whether what a body returns as a carried value has to lie where the body's input does.
  virtual bool carried_values_stay() const = 0;
  // Where the body's inputs lie, for operands that lie so.
  virtual std::vector<LayoutNumber> enter(const Op& op, std::span<const LayoutNumber> operands, Entrance& entrance) = 0;
  // All iterations of a body.
  virtual Choice repeated(const Op& op, std::span<const LayoutNumber> operands, const Entrance& entrance,
                          const RegionChoice& body) = 0;
  // The same for none.
  virtual Choice not_repeated(const Op& op, std::span<const LayoutNumber> operands) = 0;
};

}  // namespace low
