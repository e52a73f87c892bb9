// The caches change no TileGraph: random graphs and workloads with them off, cold, warm, full, with equal hashes, and
// with finalists that are expanded at the same time.
#include <gtest/gtest.h>

#include "compiler/frontend/frontend.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/low/low.h"
#include "compiler/search/search.h"
#include "compiler/workload/workload.h"
#include "reference/random_graph.h"

namespace low {
namespace {

Machine machine_named(std::string_view name, uint32_t tiles = 0) {
  auto machine = find_machine(name);
  LOW_CHECK(machine.has_value());
  if (tiles > 0) machine->tiles = tiles;
  return *machine;
}

Graph graph_of(const Machine& machine, const Graph& passed) {
  if (machine.global_memory) return passed;
  auto graph = legalize_for_distributed_memory(passed, {});
  LOW_CHECK(graph.has_value());
  return std::move(*graph);
}

Result<std::vector<Plan>> finalists(const Graph& graph, const Machine& machine, ThreadPool& pool) {
  LOW_TRY(SearchResult found, search(graph, machine, {}, pool));
  std::vector<Plan> plans;
  for (Finalist& finalist : found.finalists) plans.push_back(std::move(finalist.plan));
  return plans;
}

// Expands all plans, one after the other, with these caches; `what` names them.
void expect_graphs(const Graph& graph, const Machine& machine, std::span<const Plan> plans, ExpansionCaches& caches,
                   std::span<const TileGraph> expected, const char* what) {
  for (size_t i = 0; i < plans.size(); ++i) {
    const auto expanded = expand(graph, plans[i], machine, caches);
    ASSERT_TRUE(expanded.has_value()) << what << ": " << expanded.error().message;
    ASSERT_TRUE(*expanded == expected[i]) << what << ", finalist " << i;
  }
}

void expect_no_influence(const Graph& graph, const Machine& machine, std::span<const Plan> plans, ThreadPool& pool) {
  std::vector<TileGraph> expected;
  for (const Plan& plan : plans) {
    ExpansionCaches off({.enabled = false});
    auto expanded = expand(graph, plan, machine, off);
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    EXPECT_EQ(off.copy_plans.statistics().lookups() + off.copy_descriptors.statistics().lookups(), 0U);
    expected.push_back(std::move(*expanded));
  }
  ExpansionCaches shared;
  ASSERT_NO_FATAL_FAILURE(expect_graphs(graph, machine, plans, shared, expected, "cold"));
  const CacheStatistics cold = shared.copy_plans.statistics();
  ASSERT_NO_FATAL_FAILURE(expect_graphs(graph, machine, plans, shared, expected, "warm"));
  const CacheStatistics warm = shared.copy_plans.statistics();
  EXPECT_EQ(warm.misses, cold.misses) << "the second time, all copies are known";
  EXPECT_EQ(warm.lookups(), 2 * cold.lookups());
  ExpansionCaches full({.capacity = 3});
  ASSERT_NO_FATAL_FAILURE(expect_graphs(graph, machine, plans, full, expected, "at capacity"));
  EXPECT_LE(full.copy_plans.statistics().entries, 3U);
  EXPECT_LE(full.copy_descriptors.statistics().entries, 3U);
  ExpansionCaches colliding({.hash_mask = 0});
  ASSERT_NO_FATAL_FAILURE(expect_graphs(graph, machine, plans, colliding, expected, "colliding"));
  EXPECT_EQ(colliding.copy_plans.statistics().entries, cold.entries);

  ExpansionCaches concurrent;
  std::vector<std::optional<TileGraph>> graphs(2 * plans.size());  // each plan twice
  pool.parallel_for(static_cast<int64_t>(graphs.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    if (auto expanded = expand(graph, plans[index / 2], machine, concurrent)) graphs[index] = std::move(*expanded);
  });
  for (size_t i = 0; i < graphs.size(); ++i) {
    ASSERT_TRUE(graphs[i].has_value()) << "concurrent, finalist " << i / 2;
    ASSERT_TRUE(*graphs[i] == expected[i / 2]) << "concurrent, finalist " << i / 2;
  }
}

class RandomExpansions : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomExpansions, AreTheSameWithAnyCaches) {
  ThreadPool pool(4);
  for (uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const reference::RandomGraph random = reference::random_graph({.seed = seed,
                                                                   .operations = 3 + static_cast<int>(seed % 7),
                                                                   .narrow_floats = seed % 3 == 0,
                                                                   .attention = seed % 2 == 1});
    const auto passed = run_passes(random.graph);
    ASSERT_TRUE(passed.has_value()) << passed.error().message;
    for (const Machine& machine :
         {machine_named("ipu21", 1 + static_cast<uint32_t>(seed * 7 % 60)), machine_named("mi300x")}) {
      const Graph graph = graph_of(machine, *passed);
      const auto plans = finalists(graph, machine, pool);
      ASSERT_TRUE(plans.has_value()) << plans.error().message;
      ASSERT_NO_FATAL_FAILURE(expect_no_influence(graph, machine, *plans, pool));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomExpansions, ::testing::Range<uint64_t>(0, 6));

Graph workload_graph(const std::string& name, const WorkloadOptions& options = {}) {
  const auto model = make_workload(name, options);
  LOW_CHECK(model.has_value());
  const auto graph = import_onnx(std::as_bytes(std::span(*model)), name, {});
  LOW_CHECK(graph.has_value());
  auto passed = run_passes(*graph);
  LOW_CHECK(passed.has_value());
  return std::move(*passed);
}

TEST(Expansion, OfWorkloadsIsTheSameWithAnyCaches) {
  ThreadPool pool(4);
  for (const std::string& name : workload_names()) {
    if (!name.starts_with("tiny-")) continue;
    SCOPED_TRACE(name);
    const Graph passed = workload_graph(name);
    for (const char* machine_name : {"ipu21", "mi300x", "host"}) {
      const Machine machine = machine_named(machine_name);
      const Graph graph = graph_of(machine, passed);
      const auto plans = finalists(graph, machine, pool);
      ASSERT_TRUE(plans.has_value()) << machine_name << ": " << plans.error().message;
      ASSERT_NO_FATAL_FAILURE(expect_no_influence(graph, machine, *plans, pool)) << machine_name;
    }
  }
}

// A copy that differs from another one only in which allocations it connects, and where in them, is prepared once.
TEST(Expansion, PreparesTranslatedCopiesOnce) {
  // x [48, 8] -> two rows a tile -> a product that wants 8 rows of it, 6 parts of 4 shards each: one plan for all, but
  // that what lies on the tile itself differs.
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {48, 8}});
  ExprBuilder expr(1);
  const uint16_t in = expr.input(0, DType::f32);
  const ValueId doubled = builder.pointwise(std::move(expr).finish(expr.binary(ExprOp::add, in, in)), {{x}});
  const ValueId product = builder.matmul({.transpose_b = true}, {{doubled, doubled}}, DType::f32);
  builder.output("y", product);
  const auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const Machine machine = machine_named("ipu21", 64);
  Plan plan{.machine = machine.name, .tiles = machine.tiles, .graph_digest = digest(*graph), .region = {}};
  plan.region.ops.resize(graph->op_count());
  plan.region.ops[1] = SplitPlan{.axis = 0, .parts = 24};
  plan.region.ops[2] = MatmulPlan{.grid_m = 6, .grid_n = 6, .block_m = 8, .block_n = 8, .block_k = 8};
  plan.region.outputs.resize(1);
  const auto valid = verify(plan, *graph, machine);
  ASSERT_TRUE(valid.has_value()) << valid.error().message;
  ExpansionCaches caches;
  const auto expanded = expand(*graph, plan, machine, caches);
  ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
  const CacheStatistics statistics = caches.copy_plans.statistics();
  // Lookups: 36 of a, 36 of b (where a part wants the same rows twice, on the diagonal, it is one), the output's; the
  // rectangles of x come from one place each.
  EXPECT_EQ(statistics.lookups(), 36U + 36 - 6 + 1);
  // Entries: 4 remote shards, or one of the 4 on the tile (the first to the last); the output's 36 shards.
  EXPECT_EQ(statistics.entries, (1U + 4) + 1);
}

}  // namespace
}  // namespace low
