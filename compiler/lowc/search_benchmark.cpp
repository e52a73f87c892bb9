#include "compiler/lowc/search_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "compiler/lowc/json.h"
#include "compiler/lowc/support.h"
#include "compiler/lowc/text.h"
#include "compiler/search/exhaustive.h"

namespace low::lowc {
namespace {

struct Measurement {
  std::vector<double> milliseconds;  // of the search alone
  double median_milliseconds = 0;
  int64_t candidates = 0;
  double searched_cycles = 0;  // of the search's best plan, as it predicts them
  size_t chosen = 0;           // finalist
  double expanded_cycles = 0;  // of the chosen finalist, as low/cost counts them
  std::optional<ExhaustiveResult> exhaustive;
  std::string not_exhaustive;  // why, if so
};

Result<Measurement> measure(const CompileCommand& command, const Graph& model, const Machine& machine,
                            const CompileOptions& options, ThreadPool& pool) {
  LOW_TRY(const Graph graph, graph_for(machine, model, options.passes));
  Measurement result;
  for (int i = 0; i < command.runs + 1; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    LOW_TRY(const SearchResult found, search(graph, machine, options.search, pool));
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) result.milliseconds.push_back(time.count());  // the first one warms up
    result.candidates = found.candidates;
    result.searched_cycles = found.finalists[0].cycles;
  }
  std::vector<double> sorted = result.milliseconds;
  std::ranges::sort(sorted);
  result.median_milliseconds = sorted[sorted.size() / 2];
  LOW_TRY(const PlannedProgram planned, plan_program(graph, machine, options, pool));
  result.chosen = planned.chosen;
  result.expanded_cycles = planned.finalists[planned.chosen].cost.total.cycles;
  if (!command.exhaustive) return result;
  ExhaustiveOptions exhaustive;
  exhaustive.tolerance = 1e-3;
  exhaustive.bound_cycles = result.searched_cycles * 1.01;  // what the tolerance may add up to, and more
  auto best = search_exhaustively(graph, machine, exhaustive);
  if (best) {
    result.exhaustive = *best;
  } else {
    result.not_exhaustive = best.error().message;
  }
  return result;
}

// The search's best over the best there is: 1 is as good as it gets.
double ratio(const Measurement& measured) {
  const double best = measured.exhaustive->cycles;
  return best == measured.searched_cycles ? 1 : measured.searched_cycles / best;
}

void write_json(const Measurement& measured, JsonWriter& json) {
  json.key("milliseconds").begin_array();
  for (const double time : measured.milliseconds) json.value(time);
  json.end_array().member("median_milliseconds", measured.median_milliseconds);
  json.member("candidates", measured.candidates).member("searched_cycles", measured.searched_cycles);
  json.member("chosen", static_cast<uint64_t>(measured.chosen)).member("expanded_cycles", measured.expanded_cycles);
  if (measured.exhaustive) {
    json.member("exhaustive_cycles", measured.exhaustive->cycles)
        .member("exhaustive_steps", measured.exhaustive->steps);
    json.member("ratio", ratio(measured));
  }
  if (!measured.not_exhaustive.empty()) json.member("not_exhaustive", measured.not_exhaustive);
}

std::string describe(const std::string& machine, const Measurement& measured) {
  std::string text = fmt::format(
      "{}: median {:.3f} ms of {} searches, {} candidates; best plan {:.0f} cycles, chosen {} "
      "(expanded) {:.0f} cycles",
      machine, measured.median_milliseconds, measured.milliseconds.size(), measured.candidates,
      measured.searched_cycles, measured.chosen, measured.expanded_cycles);
  if (measured.exhaustive) {
    text += fmt::format("; best of all {:.0f} cycles in {} steps, ratio {:.4f}", measured.exhaustive->cycles,
                        measured.exhaustive->steps, ratio(measured));
  }
  if (!measured.not_exhaustive.empty()) text += "; " + one_line(measured.not_exhaustive);
  return text + "\n";
}

}  // namespace

Result<void> benchmark_search(const CompileCommand& command) {
  if (is_package(command.model.model)) return fail(ErrorKind::usage, "compile takes a model, not a package");
  if (!command.model.plan_files.empty())
    return fail(ErrorKind::usage, "--benchmark-search: a plan that is given with --plan needs no search");
  LOW_TRY(CompileOptions options, compile_options(command.model));
  options.passes.keep_single_repeats = command.keep_repeats;
  std::vector<Machine> machines;
  const bool one = !options.machine.empty() || !options.targets.empty() || options.tiles.has_value();
  if (one) {
    LOW_TRY(Machine machine, select_machine(options));
    machines.push_back(std::move(machine));
  } else {
    for (const std::string_view name : machine_names()) {
      LOW_TRY(Machine machine, find_machine(name));
      machines.push_back(std::move(machine));
    }
  }
  ThreadPool pool(command.model.threads);
  LOW_TRY(const LoadedModel model, load_model(command.model, pool));
  JsonWriter json;
  json.begin_object().member("version", 1).member("model", command.model.model).key("machines").begin_array();
  std::string text;
  for (const Machine& machine : machines) {
    LOW_TRY(const Graph graph, graph_for(machine, model.graph, options.passes));
    const auto measured = measure(command, model.graph, machine, options, pool);
    if (!measured && one) return in_context(command.model.model, measured.error());
    json.begin_object().member("machine", machine.name).member("tiles", uint64_t{machine.tiles});
    if (measured) {
      write_json(*measured, json);
      text += describe(machine.name, *measured);
    } else {
      json.member("not_planned", measured.error().message);
      text += fmt::format("{}: not planned: {}\n", machine.name, one_line(measured.error().message));
    }
    json.end_object();
  }
  json.end_array().end_object();
  write_stdout(command.json ? json.text() : text);
  return {};
}

}  // namespace low::lowc
