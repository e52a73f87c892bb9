// The spine: ONNX model -> package. The only file that knows every stage.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/codegen.h"
#include "compiler/exchange/exchange.h"
#include "compiler/frontend/frontend.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/low/low.h"
#include "compiler/placement/placement.h"
#include "compiler/search/search.h"

namespace low {

struct CompileOptions {
  FrontendOptions frontend;
  PassOptions passes;
  std::vector<std::string> targets;  // "host" stands for all x86-64 ones; empty: host, or the machine's own
  std::string machine;               // empty: the one that the targets imply
  std::optional<uint32_t> tiles;     // logical tiles of the host
  SearchOptions search;
  struct GivenPlan {
    std::string text;  // of one plan or of several
    std::string name;  // its file, for messages
  };
  std::vector<GivenPlan> plans;   // finalists to replay instead of a search
  CacheOptions expansion_caches;  // change no result
  ExpansionLimits expansion_limits;
  ToolchainOptions toolchain;
  // Told each stage's name and time when it ends; may be empty.
  std::function<void(std::string_view stage, double milliseconds)> finished;
};

// Reports stages to `options.finished`: one ends where the next one begins, the last one with the timer.
class StageTimer {
 public:
  explicit StageTimer(const CompileOptions& options) : options_(options) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() { end(); }
  void begin(std::string_view stage);  // import, passes, search, expand, place, schedule, lower, codegen, write
  void end();

 private:
  const CompileOptions& options_;
  std::string_view stage_;
  std::chrono::steady_clock::time_point begin_;
};

// One expanded finalist, judged by what it really does.
struct ExpandedFinalist {
  Finalist finalist;
  std::optional<TileGraph> graph;  // none if it could not be expanded or placed
  CostReport cost;
  std::string rejected;  // why, if so
};

// Everything between the graph and the code, for one machine.
struct PlannedProgram {
  Machine machine;
  int64_t candidates = 0;
  std::vector<ExpandedFinalist> finalists;
  size_t chosen = 0;                             // index into finalists
  CacheStatistics copy_descriptors, copy_plans;  // of the selection attempt
  TileGraph graph;                               // of the chosen one
  Placement placement;
  Schedule schedule;

  const Plan& plan() const { return finalists[chosen].finalist.plan; }
};

// The graph that is planned, searched, digested and expanded for the machine: run_passes, on GPUs with legalize_products, and
// without global memory legalize_for_distributed_memory.
Result<Graph> graph_for(const Machine& machine, const Graph& model, const PassOptions& options);

// More are refused: all of them are expanded.
inline constexpr size_t max_given_plans = 64;

// The plans to expand: given ones, verified, or those that the search finds.
Result<SearchResult> find_plans(const Graph& graph, const Machine& machine, const CompileOptions& options,
                                ThreadPool& pool);
// expand and simplify, as part of the selection attempt to which the caches belong.
Result<TileGraph> expand_finalist(const Graph& graph, const Plan& plan, const Machine& machine, ExpansionCaches& caches,
                                  const SimplifyOptions& options = {}, const ExpansionLimits& limits = {});

// search (or the given plans), expand, simplify and cost each finalist; place and schedule the cheapest that fits.
Result<PlannedProgram> plan_program(const Graph& graph, const Machine& machine, const CompileOptions& options,
                                    ThreadPool& pool);

// The machine that the options name or imply, with its tiles.
Result<Machine> select_machine(const CompileOptions& options);
// The same options for each machine that the targets imply, in the order in which they name them, each with its own
// targets; the number of tiles goes to logical ones. One set of options where a machine is named or no target is.
Result<std::vector<CompileOptions>> by_machine(const CompileOptions& options);
// The targets to compile for on that machine. ErrorKind::unsupported when the machine has no code generation.
Result<std::vector<std::string>> select_targets(const CompileOptions& options, const Machine& machine);

struct Compilation {
  Graph graph;  // graph_for the machine
  PlannedProgram planned;
  KernelSet kernels;
  std::string source;
  Program program;
  std::vector<CodeObject> objects;
};

// Passes, planning, code. `model` is what the frontend made.
Result<Compilation> compile_graph(const Graph& model, const CompileOptions& options, ThreadPool& pool);
// For each machine of by_machine: what one package holds.
Result<std::vector<Compilation>> compile_graph_for(std::span<const CompileOptions> machines, const Graph& model,
                                                   ThreadPool& pool);

// The two halves of compile_graph. The first does all that needs no clang: the source and the objects are empty after
// it.
Result<Compilation> lower_graph(const Graph& model, const CompileOptions& options, ThreadPool& pool);
// The second compiles the kernels of any number of them at once, for one machine: much less work for small models than
// one after the other. All then have the same kernels, source and objects, and each program knows its own among them;
// each makes a whole package. After an error they are as they were.
Result<void> compile_together(std::span<Compilation> compilations, const CompileOptions& options, ThreadPool& pool);

}  // namespace low
