// The search of a region: a beam over its operations, in order.
//
// A state is a prefix of decisions. States differ, for what is still to come, in where live values lie and in the
// memory that is left; among those that agree in the former, a state is dropped when as many as there are finalists are
// both faster and smaller. States that do not fit are dropped at once. Operations that do not read what the last
// superstep wrote share it, as they do when they are expanded. Searched exhaustively, of states
// that agree those are kept that no other one dominates, whatever they need.
//
// Where a carried value of a Repeat has to stay where it is, a body is searched twice: freely, with the carried values
// where they come from; then once for each placement of the carried values that this found best, as given for both
// ends.
#pragma once

#include <boost/container/small_vector.hpp>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/search/region_memory.h"

namespace low {

class RegionSearch {
 public:
  RegionSearch(SearchContext& context, const Graph& graph, std::unique_ptr<RegionMemory> memory, int depth);

  // `inputs`, by number, and what outputs are required to lie like; no_layout, or nothing: as they are. Plans that cost
  // more than `bound` cycles are not gone on with, which may leave none; only searched exhaustively.
  Result<std::vector<RegionChoice>> run(const std::vector<LayoutNumber>& inputs,
                                        const std::vector<LayoutNumber>& required,
                                        double bound = std::numeric_limits<double>::infinity());

 private:
  // A value that a later operation reads, or whose storage a live view reads.
  struct Live {
    ValueId value, root;    // root: the value in whose storage it lies
    uint32_t last_use = 0;  // index of an operation
    LayoutNumber layout = no_layout;
    bool dense = true;    // the root itself, or reshapes of it: all of its elements, in order
    bool placed = false;  // an output decided where it is written
    uint64_t bytes = 0;   // of its own storage: 0 for views, and for what is counted elsewhere
  };
  // Where values lie. Decisions that differ in their cost alone lead to the same one.
  struct Views {
    boost::container::small_vector<Live, 4> live;  // without inputs and constants
    boost::container::small_vector<LayoutNumber, 4> outputs;
    uint64_t live_bytes = 0;
    uint64_t hash = 0;  // the same for those that same_views() does not tell apart
  };
  struct State {
    int32_t node = -1;  // of the last decision
    CostSum cost;
    uint64_t working_bytes = 0, parameter_bytes = 0;
    std::shared_ptr<const Views> views;
    // What the last superstep does, if it may be joined, and what that costs; what it wrote, by value, and its
    // written_chunk.
    std::optional<StepWork> open;
    Cost open_cost;
    boost::container::small_vector<std::pair<ValueId, int64_t>, 4> fresh;
    uint64_t grids = 0;  // of its matmuls and attentions, hashed: what tells finalists apart
    uint64_t need() const { return working_bytes + parameter_bytes; }
    // Without the open superstep, whose cost changes when others join it.
    double closed_cycles() const { return cost.cycles - open_cost.total(); }
  };
  struct Node {
    int32_t parent = -1;
    const Choice* choice = nullptr;
  };
  struct CacheEntry {
    std::vector<LayoutNumber> operands;
    Demand demand;
    std::vector<Choice> choices;
  };

  bool exhaustive() const { return context_.exhaustive != nullptr; }
  Result<void> find_alternatives();
  uint32_t output_index(size_t op) const;
  static const Live* find(const Views& views, ValueId value);
  static ValueId placed_by(const Views& views, ValueId value);
  LayoutNumber layout_in(const Views& views, ValueId value) const;
  bool same_views(const State& a, const State& b) const;
  static uint64_t hash_of_views(const State& state);
  std::vector<size_t> first_with_same_views(std::span<const State> states) const;

  Demand demand_of(const Views& views, size_t i) const;
  Result<const std::vector<Choice>*> choices_for(size_t i, std::vector<LayoutNumber> operands, const Demand& demand,
                                                 double bound);
  Result<std::vector<Choice>> repeat_choices(const Op& op, std::span<const LayoutNumber> operands, double bound);
  Result<std::vector<RegionChoice>> closed_loops(RegionSearch& body, const Op& op,
                                                 std::span<const LayoutNumber> operands, const Entrance& entrance,
                                                 std::vector<LayoutNumber> inputs, std::span<const RegionChoice> found,
                                                 double bound);
  RegionSearch& search_of(const Repeat& repeat);

  Result<void> extend(const State& state, size_t i, double bound, std::vector<State>& next, uint64_t& least);
  // What a decision makes of where values lie.
  std::shared_ptr<const Views> views_after(const Views& views, size_t i, const Choice& choice) const;
  State apply(const State& state, size_t i, const Choice& choice, std::shared_ptr<const Views> views) const;
  bool waits(const State& state, size_t i, const Choice& choice) const;
  void add_supersteps(State& state, size_t i, const Choice& choice) const;
  std::vector<State> prune(std::vector<State> states) const;
  std::vector<State> undominated(std::vector<State> states) const;
  // The fastest of different grids, then whatever is next; one of them needs least memory.
  std::vector<size_t> finalists_of(std::span<const RegionChoice> all) const;
  // The region's plan; its explanation is for finalists.
  RegionChoice collect(const State& state) const;
  std::vector<const Choice*> choices_of(const State& state) const;
  void explain(const State& state, RegionChoice& region) const;

  SearchContext& context_;
  const Graph& graph_;
  const std::unique_ptr<RegionMemory> memory_;
  const int depth_;
  std::vector<std::deque<CacheEntry>> cache_;  // for each operation; entries keep their place
  std::vector<size_t> alternatives_;           // for each operation: how many choices, but for a view, are combined
  Table<ValueId, uint32_t> last_use_;
  std::vector<std::pair<const Graph*, std::unique_ptr<RegionSearch>>> bodies_;  // in the order of first use
  // Of the current run:
  Table<ValueId, LayoutNumber> fixed_;  // of inputs and constants
  std::vector<LayoutNumber> required_;  // by output
  std::vector<Node> nodes_;
};

}  // namespace low
