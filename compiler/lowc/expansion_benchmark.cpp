#include "compiler/lowc/expansion_benchmark.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "compiler/lowc/support.h"
#include "compiler/package/build_info.h"

namespace low::lowc {
namespace {

struct BothCaches {
  CacheStatistics copy_descriptors, copy_plans;
};
struct FinalistResult {
  std::vector<double> milliseconds;  // by run
  CostReport cost;
  uint64_t allocations = 0;
  BothCaches caches;  // what it adds to those of the finalists before it; the first one finds them empty
};
struct Mode {
  std::string_view name;
  bool cached = true;
  std::vector<FinalistResult> finalists{};
  BothCaches caches{};  // of one attempt
};

BothCaches statistics(const ExpansionCaches& caches) {
  return {.copy_descriptors = caches.copy_descriptors.statistics(), .copy_plans = caches.copy_plans.statistics()};
}
CacheStatistics added(const CacheStatistics& before, const CacheStatistics& after) {
  return {.entries = after.entries - before.entries,
          .hits = after.hits - before.hits,
          .misses = after.misses - before.misses};
}

// One selection attempt. The first one only warms the process up.
Result<void> attempt(const Graph& graph, const Machine& machine, const SearchResult& found, bool warms_up, Mode& mode) {
  ExpansionCaches caches({.enabled = mode.cached});
  mode.finalists.resize(found.finalists.size());
  mode.caches = {};
  for (size_t i = 0; i < found.finalists.size(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    LOW_TRY(const TileGraph expanded, expand_finalist(graph, found.finalists[i].plan, machine, caches));
    CostReport report = cost_report(expanded, machine);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    FinalistResult& finalist = mode.finalists[i];
    if (!warms_up) finalist.milliseconds.push_back(time.count());
    finalist.cost = std::move(report);
    finalist.allocations = expanded.allocations().size();
    const BothCaches after = statistics(caches);
    finalist.caches = {.copy_descriptors = added(mode.caches.copy_descriptors, after.copy_descriptors),
                       .copy_plans = added(mode.caches.copy_plans, after.copy_plans)};
    mode.caches = after;
  }
  return {};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Bytes that the process had resident at most: model, search and expansion.
uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "unknown";
}

void write_caches(const BothCaches& caches, JsonWriter& json) {
  json.key("caches").begin_object();
  write_cache("copy_descriptors", caches.copy_descriptors, json);
  write_cache("copy_plans", caches.copy_plans, json);
  json.end_object();
}

void write_mode(const Mode& mode, JsonWriter& json) {
  json.begin_object().member("mode", mode.name).key("finalists").begin_array();
  for (const FinalistResult& finalist : mode.finalists) {
    json.begin_object().key("milliseconds").begin_array();
    for (const double time : finalist.milliseconds) json.value(time);
    const Activity& activity = finalist.cost.in_graph;
    json.end_array().member("median_milliseconds", median(finalist.milliseconds));
    json.member("shards", finalist.allocations).member("runs", activity.runs).member("copies", activity.copies);
    json.member("transfers", activity.exchanges).member("recipients", activity.recipients);
    json.member("supersteps", activity.supersteps).member("cycles", finalist.cost.total.cycles);
    write_caches(finalist.caches, json);
    json.end_object();
  }
  json.end_array();
  write_caches(mode.caches, json);
  json.end_object();
}

std::string describe(const Mode& mode) {
  std::string text;
  for (size_t i = 0; i < mode.finalists.size(); ++i) {
    const FinalistResult& finalist = mode.finalists[i];
    const Activity& activity = finalist.cost.in_graph;
    text += fmt::format(
        "{} finalist {}: median {:.3f} ms of {}; {} shards, {} runs, {} copies, {} transfers to {} recipients, {} "
        "supersteps\n",
        mode.name, i, median(finalist.milliseconds), finalist.milliseconds.size(), finalist.allocations, activity.runs,
        activity.copies, activity.exchanges, activity.recipients, activity.supersteps);
  }
  const auto cache = [](std::string_view name, const CacheStatistics& of) {
    return fmt::format("  {}: {} entries, {} hits, {} misses\n", name, of.entries, of.hits, of.misses);
  };
  if (mode.cached)
    text += cache("copy descriptors", mode.caches.copy_descriptors) + cache("copy plans", mode.caches.copy_plans);
  return text;
}

}  // namespace

void write_cache(std::string_view name, const CacheStatistics& statistics, JsonWriter& json) {
  json.key(name).begin_object().member("entries", statistics.entries).member("hits", statistics.hits);
  json.member("misses", statistics.misses).end_object();
}

Result<void> benchmark_expansion(const CompileCommand& command) {
  if (is_package(command.model.model)) return fail(ErrorKind::usage, "compile takes a model, not a package");
  LOW_TRY(CompileOptions options, compile_options(command.model));
  options.passes.keep_single_repeats = command.keep_repeats;
  LOW_TRY(const Machine machine, select_machine(options));
  ThreadPool pool(command.model.threads);
  LOW_TRY(const LoadedModel model, load_model(command.model, pool));
  const auto in_model = [&](const Error& error) { return in_context(command.model.model, error); };
  const auto graph = graph_for(machine, model.graph, options.passes);
  if (!graph) return in_model(graph.error());
  const auto found = find_plans(*graph, machine, options, pool);
  if (!found) return in_model(found.error());

  std::vector<Mode> modes;
  if (command.benchmark_expansion) modes.push_back({.name = "cached", .cached = true});
  if (command.benchmark_expansion_uncached) modes.push_back({.name = "uncached", .cached = false});
  for (int run = 0; run < command.runs + 1; ++run) {
    // Who comes first changes from run to run.
    for (size_t i = 0; i < modes.size(); ++i) {
      Mode& mode = modes[(i + static_cast<size_t>(run)) % modes.size()];
      if (const auto timed = attempt(*graph, machine, *found, run == 0, mode); !timed) return in_model(timed.error());
    }
  }
  if (!command.json) {
    for (const Mode& mode : modes) write_stdout(describe(mode));
    return {};
  }
  JsonWriter json;
  json.begin_object().member("version", 1).member("model", command.model.model).member("machine", machine.name);
  json.key("modes").begin_array();
  for (const Mode& mode : modes) write_mode(mode, json);
  json.end_array().key("environment").begin_object();
  json.member("processor", processor()).member("threads", uint64_t{std::thread::hardware_concurrency()});
  json.member("lowc", build_version()).member("peak_resident_bytes", peak_resident_bytes());
  write_stdout(json.end_object().end_object().text());
  return {};
}

}  // namespace low::lowc
