#include "compiler/search/search.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/search/distributed_memory.h"
#include "compiler/search/exhaustive.h"
#include "compiler/search/global_memory.h"
#include "compiler/search/region_search.h"

namespace low {
namespace {

// Inputs, outputs and constants, those of bodies included (their inputs and outputs are the repeat's).
double fixed_bytes(const Graph& graph, bool top) {
  double bytes = 0;
  const auto size = [&](ValueId value) {
    const Type& type = graph.type(value);
    return static_cast<double>(type.shape.elements()) * static_cast<double>(byte_size(type.dtype));
  };
  for (const Op& op : graph.ops()) {
    if (std::holds_alternative<Constant>(op.attributes)) bytes += size(graph.result(op));
    if (top && std::holds_alternative<Input>(op.attributes)) bytes += size(graph.result(op));
    if (top && std::holds_alternative<Output>(op.attributes)) bytes += size(graph.operands(op)[0]);
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) bytes += fixed_bytes(*repeat->body, false);
  }
  return bytes;
}

// All plans of a graph that its search gives.
Result<std::vector<RegionChoice>> search_graph(SearchContext& context, const Graph& graph, double bound) {
  std::unique_ptr<RegionMemory> memory;
  if (context.machine.global_memory) {
    memory = std::make_unique<GlobalMemory>(context, graph, std::make_shared<LayoutTable<Layout>>());
  } else {
    memory =
        std::make_unique<DistributedMemory>(context, graph, std::make_shared<LayoutTable<DistributedLayout>>(), true);
  }
  std::vector<LayoutNumber> inputs;
  for (const OpId input : graph.inputs()) inputs.push_back(memory->layout_of_input(graph.result(graph.op(input))));
  return RegionSearch(context, graph, std::move(memory), 0).run(inputs, {}, bound);
}

}  // namespace

Result<SearchResult> search(const Graph& graph, const Machine& machine, const SearchOptions& options,
                            ThreadPool& pool) {
  SearchContext context{machine, options, pool};
  context.options.finalists = std::clamp(options.finalists, 1, 1024);
  context.options.beam = std::clamp(options.beam, context.options.finalists, 65536);
  context.options.candidates_per_op = std::max<int64_t>(options.candidates_per_op, 1);
  LOW_TRY(std::vector<RegionChoice> regions, search_graph(context, graph, std::numeric_limits<double>::infinity()));
  SearchResult result;
  result.candidates = context.candidates;
  const std::string graph_digest = digest(graph, pool);
  // Memories of tiles were looked at by the search itself.
  const double fixed = machine.global_memory ? fixed_bytes(graph, true) : 0;
  const auto available = static_cast<double>(machine.global_memory ? machine.global_memory_bytes : 0);
  double smallest = 0;
  for (RegionChoice& region : regions) {
    const double need = fixed + static_cast<double>(region.need());
    if (available != 0 && need > available) {
      smallest = smallest == 0 ? need : std::min(smallest, need);
      continue;
    }
    Finalist finalist;
    finalist.plan = {machine.name, machine.tiles, graph_digest, std::move(region.plan)};
    finalist.cost = region.cost.items;
    finalist.cycles = region.cost.cycles;
    finalist.peak_bytes = region.need();
    finalist.parameter_bytes = region.parameter_bytes;
    finalist.lines = std::move(region.lines);
    result.finalists.push_back(std::move(finalist));
  }
  if (result.finalists.empty()) {
    return fail(ErrorKind::unsupported, fmt::format("the model needs {:.0f} bytes of global memory; machine {} has {}",
                                                    smallest, machine.name, machine.global_memory_bytes));
  }
  std::ranges::sort(result.finalists, [](const Finalist& a, const Finalist& b) {
    return a.cycles != b.cycles ? a.cycles < b.cycles : print(a.plan) < print(b.plan);
  });
  return result;
}

Result<void> StepBudget::take(size_t count) {
  if (count > static_cast<uint64_t>(limit_ - taken_)) {
    return fail(ErrorKind::unsupported, fmt::format("exhaustive search: more than {} steps", limit_));
  }
  taken_ += static_cast<int64_t>(count);
  return {};
}

Result<ExhaustiveResult> search_exhaustively(const Graph& graph, const Machine& machine,
                                             const ExhaustiveOptions& options) {
  StepBudget budget(std::max<int64_t>(options.steps, 0), options.tolerance);
  ThreadPool pool(1);
  SearchOptions all;
  all.candidates_per_op = max_exhaustive_space;
  SearchContext context{machine, all, pool, 0, &budget};
  LOW_TRY(const std::vector<RegionChoice> regions, search_graph(context, graph, options.bound_cycles));
  double best = std::numeric_limits<double>::infinity();
  for (const RegionChoice& region : regions) best = std::min(best, region.cost.cycles);
  return ExhaustiveResult{best, budget.taken()};
}

}  // namespace low
