// low: plan -> TileGraph, and what is said of a TileGraph.
#pragma once

#include "compiler/low/expansion_caches.h"
#include "compiler/low/expansion_limits.h"
#include "compiler/low/tile_graph.h"
#include "compiler/search/search.h"

namespace low {

// Graph + plan -> TileGraph. The plan has been verified against the graph. A Repeat's body is expanded once. Finalists
// of one selection attempt share `caches`, from any thread; the result is the same with any caches, on or off.
// ErrorKind::unsupported, naming an operation, where it would make more than the limits say.
Result<TileGraph> expand(const Graph& graph, const Plan& plan, const Machine& machine, ExpansionCaches& caches,
                         const ExpansionLimits& limits = {});
Result<TileGraph> expand(const Graph& graph, const Plan& plan, const Machine& machine);

// Before: one or more supersteps for each operation, and whole-buffer copies where a value changes its place. After:
// copies that only bring an input to its place or a result out of it are gone, with the allocations that nothing uses
// then, and neighbouring supersteps without a dependency between tiles are one. Same results, element by element.
struct SimplifyOptions {
  bool join_supersteps = true;  // what lives in different supersteps may share memory; what lives in one may not
};
Result<TileGraph> simplify_tile_graph(TileGraph graph, const SimplifyOptions& options = {});

// How much of everything there is. Numbers too large for 64 bits are the largest.
struct Activity {
  uint64_t supersteps = 0, runs = 0, copies = 0, exchanges = 0, recipients = 0;
  uint64_t sent_bytes = 0;       // by exchanges' sources: what several recipients get counts once
  uint64_t delivered_bytes = 0;  // to exchanges' recipients: counts for each
  uint64_t copied_bytes = 0;     // by local copies, as they lie at the destination
};

struct CostReport {
  CostSum total;                     // whole run, repeats counted
  std::vector<Cost> supersteps;      // one execution of each, by SuperstepId
  std::vector<uint64_t> executions;  // of each superstep in a run
  double seconds = 0;                // total at the machine's clock
  double flop = 0;                   // matrix operations (a multiply-add counts two), repeats counted
  Activity in_graph;                 // a Repeat's body once
  Activity in_run;                   // repeats counted
};
// Analytical: the same functions as the search's, applied to what the graph really does.
CostReport cost_report(const TileGraph& graph, const Machine& machine);  // or on_processor(machine, …)
std::string to_string(const CostReport& report, const Machine& machine);

// A superstep's exchanges without global memory, by tile.
std::vector<TileExchange> tile_exchanges(const TileGraph& graph, const Superstep& step);
// What a copy does.
KernelWork copy_work(const CopyDescriptor& descriptor);
// What it costs the destination's tile when it is for an exchange, with global memory.
Cost pull_cost(const Machine& machine, const KernelWork& copy);

}  // namespace low
