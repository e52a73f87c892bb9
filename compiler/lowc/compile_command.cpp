#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/graph/passes/passes.h"
#include "compiler/lowc/expansion_benchmark.h"
#include "compiler/lowc/finalists.h"
#include "compiler/lowc/json.h"
#include "compiler/lowc/search_benchmark.h"
#include "compiler/lowc/support.h"
#include "runtime/host/processor.h"
#include "runtime/tensor/tensor_file.h"

namespace low::lowc {
namespace {

// The stages that --print shows, in pipeline order.
constexpr std::array<std::string_view, 10> printed_stages = {"import", "graph",     "plan",     "finalists", "tiles",
                                                             "cost",   "placement", "schedule", "source",    "program"};

// How long a run is predicted to take: of a machine of logical tiles, on so many threads of this processor.
struct Prediction {
  double milliseconds = 0;
  int threads = 0;  // 0: the machine has tiles of its own
};

Prediction predict(const PlannedProgram& planned, int threads) {
  if (!planned.machine.logical_tiles)
    return {.milliseconds = planned.finalists[planned.chosen].cost.seconds * 1e3, .threads = 0};
  const Processor processor{.threads = static_cast<uint32_t>(threads),
                            .f32_flop_per_cycle = host_f32_flop_per_cycle(),
                            .bf16_flop_per_cycle = host_bf16_flop_per_cycle(),
                            .int8_flop_per_cycle = host_int8_flop_per_cycle(),
                            .clock_hz = host_clock_hz};
  return {.milliseconds = cost_report(planned.graph, on_processor(planned.machine, processor)).seconds * 1e3,
          .threads = threads};
}

std::string report_json(const CompileCommand& command, const Graph& graph, const PlannedProgram& planned,
                        uint64_t package_bytes, ThreadPool& pool) {
  JsonWriter json;
  json.begin_object().member("version", 1).member("model", command.model.model).member("machine", planned.machine.name);
  json.member("candidates", planned.candidates).member("chosen", static_cast<uint64_t>(planned.chosen));
  write_finalists(graph, planned, peak_memory(planned, pool), json);
  json.key("caches").begin_object();
  write_cache("copy_descriptors", planned.copy_descriptors, json);
  write_cache("copy_plans", planned.copy_plans, json);
  json.end_object().member("arena_bytes", planned.placement.arena_bytes);
  json.member("parameter_bytes", planned.placement.parameter_bytes);
  const Prediction prediction = predict(planned, pool.threads());
  json.key("predicted").begin_object().member("milliseconds", prediction.milliseconds);
  if (prediction.threads > 0) json.member("threads", prediction.threads);
  json.end_object();
  if (!command.output.empty()) json.member("output", command.output).member("package_bytes", package_bytes);
  return json.end_object().text();
}

// The text of a stage before code generation.
Result<std::string> print_planned(const std::string& stage, const PlannedProgram& planned,
                                  const CompileOptions& options) {
  if (stage == "plan") return print(planned.plan());
  if (stage == "finalists") {
    std::string text;
    for (const ExpandedFinalist& finalist : planned.finalists) text += print(finalist.finalist.plan);
    return text;
  }
  if (stage == "tiles") return print(planned.graph);
  if (stage == "cost") return to_string(cost_report(planned.graph, planned.machine), planned.machine);
  if (stage == "placement") return print(planned.placement, planned.graph);
  if (stage == "schedule") return print(planned.schedule, planned.graph);
  const KernelSet kernels = collect_kernels(planned.graph, planned.schedule);
  if (stage == "source") {
    LOW_TRY(const std::vector<std::string> targets, select_targets(options, planned.machine));
    return emit_source(kernels, targets.front());
  }
  LOW_TRY(const Program program,
          lower_program(planned.graph, planned.placement, planned.schedule, kernels, planned.machine));
  return print(program);
}

// What the command prints of one machine, whose compilation is there where the package was written.
Result<void> show(const CompileCommand& command, const Graph& model, const CompileOptions& options,
                  const Compilation* compilation, uint64_t package_bytes, ThreadPool& pool) {
  LOW_TRY(const Machine machine, select_machine(options));
  std::optional<PlannedProgram> planned_only;
  std::optional<Graph> passed;
  if (!compilation) {
    StageTimer timer(options);
    timer.begin("passes");
    LOW_TRY(passed, graph_for(machine, model, options.passes));
  }
  const Graph& graph = compilation ? compilation->graph : *passed;
  if (command.print == "graph") {
    write_stdout(print(graph));
    return {};
  }
  if (!compilation) {
    auto found = plan_program(graph, machine, options, pool);
    if (!found) return in_context(command.model.model, found.error());
    planned_only = std::move(*found);
  }
  const PlannedProgram& planned = compilation ? compilation->planned : *planned_only;
  if (!command.print.empty()) {
    LOW_TRY(const std::string text, print_planned(command.print, planned, options));
    write_stdout(text);
    return {};
  }
  if (command.explain) write_stdout(explain_finalists(graph, planned, peak_memory(planned, pool)));
  if (command.json) {
    write_stdout(report_json(command, graph, planned, package_bytes, pool));
  } else if (!command.explain) {
    const Activity& activity = planned.finalists[planned.chosen].cost.in_graph;
    const Prediction prediction = predict(planned, pool.threads());
    const std::string threads = prediction.threads == 0 ? "" : fmt::format(" on {} threads", prediction.threads);
    write_stdout(fmt::format(
        "{}: {} supersteps, {} kernel runs, {} copies on {} tiles of {}; arena {} bytes, parameters {} "
        "bytes; predicted {:.3f} ms{}\n",
        command.model.model, activity.supersteps, activity.runs, activity.copies, machine.tiles, machine.name,
        planned.placement.arena_bytes, planned.placement.parameter_bytes, prediction.milliseconds, threads));
  }
  return {};
}

Result<void> run(const CompileCommand& command) {
  if (!command.print.empty() && std::ranges::find(printed_stages, command.print) == printed_stages.end())
    return fail(ErrorKind::usage, fmt::format("--print: there is no stage \"{}\"; the stages are: {}", command.print,
                                              fmt::join(printed_stages, ", ")));
  if (is_package(command.model.model)) return fail(ErrorKind::usage, "compile takes a model, not a package");
  LOW_TRY(CompileOptions options, compile_options(command.model));
  options.passes.keep_single_repeats = command.keep_repeats;
  LOW_TRY(const std::vector<CompileOptions> machines, by_machine(options));
  for (const CompileOptions& one : machines) {
    LOW_TRY(const Machine machine, select_machine(one));
    if (command.output.empty()) continue;
    LOW_TRY_VOID(select_targets(one, machine));
  }
  ThreadPool pool(command.model.threads);
  LOW_TRY(const LoadedModel model, load_model(command.model, pool));
  if (command.print == "import") write_stdout(print(model.graph));
  uint64_t package_bytes = 0;
  std::vector<Compilation> compilations;
  if (!command.output.empty()) {
    auto compiled = compile_graph_for(machines, model.graph, pool);
    if (!compiled) return in_context(command.model.model, compiled.error());
    compilations = std::move(*compiled);
    StageTimer timer(options);
    timer.begin("write");
    LOW_TRY(package_bytes, write_package(compilations, model.provenance, command.output, pool));
  }
  if (command.print == "import") return {};
  for (size_t i = 0; i < machines.size(); ++i) {
    LOW_TRY_VOID(show(command, model.graph, machines[i], compilations.empty() ? nullptr : &compilations[i],
                      package_bytes, pool));
  }
  if (!command.output.empty() && command.print.empty() && !command.explain && !command.json)
    write_stdout(fmt::format("{}: {} bytes\n", command.output, package_bytes));
  return {};
}

}  // namespace

int compile_command(const CompileCommand& command) {
  const bool expansion = command.benchmark_expansion || command.benchmark_expansion_uncached;
  if (auto result = command.benchmark_search ? benchmark_search(command)
                    : expansion              ? benchmark_expansion(command)
                                             : run(command);
      !result)
    return report(result.error());
  return 0;
}

}  // namespace low::lowc
