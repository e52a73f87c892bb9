#include "compiler/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/gpu_kernels.h"
#include "compiler/codegen/merge_kernels.h"
#include "compiler/codegen/targets.h"
#include "compiler/kernels/families/gemm.h"
#include "compiler/routines/routines.h"
#include "runtime/base/within_memory.h"

namespace low {

void StageTimer::begin(std::string_view stage) {
  end();
  stage_ = stage;
  begin_ = std::chrono::steady_clock::now();
}

void StageTimer::end() {
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin_;
  if (!stage_.empty() && options_.finished) options_.finished(stage_, time.count());
  stage_ = {};
}

Result<Machine> select_machine(const CompileOptions& options) {
  const std::string target = options.targets.empty() ? "host" : options.targets.front();
  auto machine = options.machine.empty() ? machine_for_target(target) : find_machine(options.machine);
  if (!machine) return machine;
  for (const std::string& other : options.targets) {
    if (other != machine->name && !runs(*machine, other))
      return fail(ErrorKind::usage, fmt::format("target {} does not run on machine {}; its targets are: {}", other,
                                                machine->name, fmt::join(machine->targets, ", ")));
  }
  if (options.tiles) return with_tiles(*machine, *options.tiles);
  return machine;
}

Result<std::vector<CompileOptions>> by_machine(const CompileOptions& options) {
  if (!options.machine.empty() || options.targets.empty()) return std::vector{options};
  std::vector<CompileOptions> parts;
  std::vector<Machine> machines;
  for (const std::string& target : options.targets) {
    LOW_TRY(const Machine machine, machine_for_target(target));
    const auto known = std::ranges::find(machines, machine.name, &Machine::name);
    const auto at = static_cast<size_t>(known - machines.begin());
    if (known == machines.end()) {
      machines.push_back(machine);
      parts.push_back(options);
      parts.back().targets.clear();
    }
    parts[at].targets.push_back(target);
  }
  if (std::ranges::any_of(machines, &Machine::logical_tiles))
    for (size_t i = 0; i < parts.size(); ++i)
      if (!machines[i].logical_tiles) parts[i].tiles.reset();
  return parts;
}

Result<std::vector<std::string>> select_targets(const CompileOptions& options, const Machine& machine) {
  std::vector<std::string> targets;
  for (const std::string& target : options.targets)
    if (target != machine.name) targets.push_back(target);
  if (targets.empty()) targets = machine.targets;
  for (size_t i = 0; i < targets.size(); ++i)
    if (const std::string_view base = base_target(targets[i]); !base.empty()) targets.emplace_back(base);
  std::ranges::sort(targets);
  const auto repeated = std::ranges::unique(targets);
  targets.erase(repeated.begin(), repeated.end());
  if (targets.empty())
    return fail(
        ErrorKind::unsupported,
        fmt::format("machine {} has no code generation: it plans and interprets, but no package can be written for it",
                    machine.name));
  for (const std::string& target : targets)
    if (std::ranges::find(codegen_targets(), target) == codegen_targets().end())
      return fail(ErrorKind::unsupported,
                  fmt::format("code generation for target {} is not available in this version; available: {}", target,
                              fmt::join(codegen_targets(), ", ")));
  return targets;
}

namespace {

std::optional<ProductForms> product_forms(const Machine& machine) {
  if (!machine.global_memory || gemm_configurations(machine).packs) return std::nullopt;
  ProductForms forms;
  for (const DType format : {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz})
    if (matmul_rate(machine, format, format).a == format) forms.fp8.push_back(format);
  for (const std::string& target : machine.targets)
    if (const CodegenTarget* known = find_target(target); known != nullptr && known->chip != nullptr)
      forms.matrices = matrix_dtypes(*known->chip);
  return forms;
}

}  // namespace

Result<Graph> graph_for(const Machine& machine, const Graph& model, const PassOptions& options) {
  return within_memory("passes", [&]() -> Result<Graph> {
    PassOptions of_machine = options;
    of_machine.products = product_forms(machine);
    LOW_TRY(Graph graph, run_passes(model, of_machine));
    if (machine.global_memory) return graph;
    return legalize_for_distributed_memory(graph, options);
  });
}

Result<SearchResult> find_plans(const Graph& graph, const Machine& machine, const CompileOptions& options,
                                ThreadPool& pool) {
  if (options.plans.empty())
    return within_memory("search", [&] { return search(graph, machine, options.search, pool); });
  SearchResult result;
  for (const CompileOptions::GivenPlan& given : options.plans) {
    auto plans = parse_plans(given.text);
    if (!plans) return in_context(given.name, plans.error());
    for (Plan& plan : *plans) {
      if (auto fits = verify(plan, graph, machine); !fits) return in_context(given.name, fits.error());
      if (result.finalists.size() == max_given_plans)
        return in_context(given.name, {ErrorKind::usage, fmt::format("more than {} plans", max_given_plans)});
      result.finalists.push_back({.plan = std::move(plan), .cost = {}, .lines = {}, .given = true});
    }
  }
  return result;
}

Result<TileGraph> expand_finalist(const Graph& graph, const Plan& plan, const Machine& machine, ExpansionCaches& caches,
                                  const SimplifyOptions& options, const ExpansionLimits& limits) {
  return within_memory("expand", [&]() -> Result<TileGraph> {
    LOW_TRY(TileGraph expanded, expand(graph, plan, machine, caches, limits));
    return simplify_tile_graph(std::move(expanded), options);
  });
}

namespace {

Result<PlannedProgram> plan_within_memory(const Graph& graph, const Machine& machine, const CompileOptions& options,
                                          ThreadPool& pool) {
  StageTimer stages(options);
  stages.begin("search");
  LOW_TRY(SearchResult found, find_plans(graph, machine, options, pool));
  stages.begin("expand");
  PlannedProgram planned{.machine = machine, .candidates = found.candidates};
  planned.finalists.resize(found.finalists.size());
  std::vector<std::optional<Error>> errors(found.finalists.size());
  ExpansionCaches caches(options.expansion_caches);
  pool.parallel_for(static_cast<int64_t>(found.finalists.size()), [&](int64_t i) {
    ExpandedFinalist& slot = planned.finalists[static_cast<size_t>(i)];
    slot.finalist = std::move(found.finalists[static_cast<size_t>(i)]);
    if (auto expanded = expand_finalist(graph, slot.finalist.plan, machine, caches, {}, options.expansion_limits)) {
      slot.cost = cost_report(*expanded, machine);
      slot.graph = std::move(*expanded);
    } else {
      slot.rejected = expanded.error().message;
      errors[static_cast<size_t>(i)] = expanded.error();
    }
  });

  planned.copy_descriptors = caches.copy_descriptors.statistics();
  planned.copy_plans = caches.copy_plans.statistics();
  // Cheapest first; the search's order decides ties.
  std::vector<size_t> order;
  for (size_t i = 0; i < planned.finalists.size(); ++i)
    if (planned.finalists[i].graph) order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(planned.finalists[i].cost.seconds, i); });
  std::optional<Error> last_error;
  for (const std::optional<Error>& error : errors)
    if (error) last_error = error;
  for (const size_t i : order) {
    ExpandedFinalist& finalist = planned.finalists[i];
    stages.begin("place");
    auto placement = within_memory("placement", [&] { return place(*finalist.graph, machine); });
    if (!placement && !machine.global_memory) {
      // Supersteps that were joined keep more alive at once than the search counted on.
      LOW_TRY(TileGraph apart, expand_finalist(graph, finalist.finalist.plan, machine, caches,
                                               {.join_supersteps = false}, options.expansion_limits));
      if (auto fits = within_memory("placement", [&] { return place(apart, machine); })) {
        finalist.cost = cost_report(apart, machine);
        finalist.graph = std::move(apart);
        placement = std::move(fits);
      }
    }
    if (!placement) {
      finalist.rejected = placement.error().message;
      last_error = placement.error();
      continue;
    }
    stages.begin("schedule");
    LOW_TRY(planned.schedule,
            within_memory("schedule", [&] { return schedule_exchange(*finalist.graph, *placement, machine); }));
    planned.placement = std::move(*placement);
    planned.graph = *finalist.graph;
    planned.chosen = i;
    return planned;
  }
  return fail(last_error->kind,
              fmt::format("none of {} plans can be built: {}", planned.finalists.size(), last_error->message));
}

}  // namespace

Result<PlannedProgram> plan_program(const Graph& graph, const Machine& machine, const CompileOptions& options,
                                    ThreadPool& pool) {
  return within_memory("planning", [&] { return plan_within_memory(graph, machine, options, pool); });
}

Result<Compilation> lower_graph(const Graph& model, const CompileOptions& options, ThreadPool& pool) {
  LOW_TRY(const Machine machine, select_machine(options));
  LOW_TRY_VOID(select_targets(options, machine));
  StageTimer stages(options);
  stages.begin("passes");
  LOW_TRY(Graph graph, graph_for(machine, model, options.passes));
  stages.end();
  LOW_TRY(PlannedProgram planned, plan_program(graph, machine, options, pool));
  stages.begin("lower");
  return within_memory("lower", [&]() -> Result<Compilation> {
    const std::span<const ConstantBox> constants = planned.graph.constants();
    pool.parallel_for(static_cast<int64_t>(constants.size()),
                      [&](int64_t i) { constants[static_cast<size_t>(i)].sha256(); });
    KernelSet kernels = collect_kernels(planned.graph, planned.schedule);
    LOW_TRY(Program program, lower_program(planned.graph, planned.placement, planned.schedule, kernels, machine));
    return Compilation{.graph = std::move(graph),
                       .planned = std::move(planned),
                       .kernels = std::move(kernels),
                       .source = {},
                       .program = std::move(program),
                       .objects = {}};
  });
}

namespace {

Result<void> generate_code(std::span<Compilation> compilations, const CompileOptions& options, ThreadPool& pool) {
  LOW_TRY(const std::vector<std::string> targets, select_targets(options, compilations.front().planned.machine));
  std::vector<const KernelSet*> sets;
  for (const Compilation& compilation : compilations) sets.push_back(&compilation.kernels);
  const MergedKernels merged = merge_kernels(sets);
  const std::string source = emit_source(merged.kernels, targets.front());
  ToolchainOptions toolchain = options.toolchain;
  toolchain.routines = built_routines();
  LOW_TRY(const std::vector<CodeObject> objects, compile_kernels(merged.kernels, source, targets, toolchain, pool));
  for (size_t i = 0; i < compilations.size(); ++i) {
    renumber_kernels(compilations[i].program, merged.numbers[i], merged.kernels.entries.size());
    compilations[i].kernels = merged.kernels;
    compilations[i].source = source;
    compilations[i].objects = objects;
  }
  return {};
}

}  // namespace

Result<void> compile_together(std::span<Compilation> compilations, const CompileOptions& options, ThreadPool& pool) {
  if (compilations.empty()) return {};
  StageTimer stages(options);
  stages.begin("codegen");
  return generate_code(compilations, options, pool);
}

Result<std::vector<Compilation>> compile_graph_for(std::span<const CompileOptions> machines, const Graph& model,
                                                   ThreadPool& pool) {
  std::vector<Compilation> compilations;
  for (const CompileOptions& options : machines) {
    LOW_TRY(compilations.emplace_back(), lower_graph(model, options, pool));
  }
  if (compilations.empty()) return compilations;
  StageTimer stages(machines.front());
  stages.begin("codegen");
  std::vector<Result<void>> results(machines.size());
  const auto generate = [&](size_t i) {
    results[i] = within_memory("codegen", [&] { return generate_code({&compilations[i], 1}, machines[i], pool); });
  };
  if (machines.size() == 1) {
    generate(0);  // whose targets then share the pool
  } else {
    pool.parallel_for(static_cast<int64_t>(machines.size()), [&](int64_t i) { generate(static_cast<size_t>(i)); });
  }
  for (const Result<void>& result : results) LOW_TRY_VOID(result);
  return compilations;
}

Result<Compilation> compile_graph(const Graph& model, const CompileOptions& options, ThreadPool& pool) {
  LOW_TRY(std::vector<Compilation> compilations, compile_graph_for({&options, 1}, model, pool));
  return std::move(compilations.front());
}

}  // namespace low
