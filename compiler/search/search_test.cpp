#include "compiler/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "compiler/search/exhaustive.h"
#include "compiler/search/explain.h"
#include "compiler/search/test_graphs.h"

namespace low {
namespace {

using ::testing::HasSubstr;

Machine host() { return *find_machine("host"); }

SearchResult found(const Graph& graph, const Machine& machine, const SearchOptions& options = {}, int threads = 1) {
  ThreadPool pool(threads);
  Result<SearchResult> result = search(graph, machine, options, pool);
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  EXPECT_FALSE(result->finalists.empty());
  for (const Finalist& finalist : result->finalists) {
    const Result<void> verified = verify(finalist.plan, graph, machine);
    EXPECT_TRUE(verified) << verified.error().message;
    const Result<Plan> parsed = parse_plan(print(finalist.plan));
    EXPECT_TRUE(parsed && *parsed == finalist.plan);
  }
  return std::move(*result);
}

// transposes, reshapes and slices between a pointwise and two matmuls: layouts matter.
Graph views_graph() {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {13, 7}});
  const ValueId w = builder.input("w", {DType::f32, {13, 11}});
  const ValueId pointwise[] = {x};
  const ValueId p = builder.pointwise(test::activation(DType::f32, DType::f32), pointwise);
  const ValueId t = builder.transpose(p, {1, 0});  // [7,13]
  const ValueId first[] = {t, w};
  const ValueId y = builder.matmul({}, first, DType::f32);        // [7,11]
  const ValueId s = builder.slice(y, {0, 10}, {1, -1}, {7, 11});  // reversed columns
  const ValueId again[] = {s};
  builder.output("z", builder.pointwise(test::activation(DType::f32, DType::f16), again));
  builder.output("t", t);
  return test::finish(std::move(builder));
}

TEST(Search, BeamFindsWhatExhaustiveSearchFinds) {
  const Graph graph = views_graph();
  for (const double launch : {0.0, 100.0, 5000.0}) {
    for (const double across : {0.01, 1.0, 100.0}) {
      Machine machine = host();
      machine.launch_cycles = launch;
      machine.command_cycles = 1;
      machine.across_bytes_per_cycle = across;
      const auto exhaustive = search_exhaustively(graph, machine);
      ASSERT_TRUE(exhaustive) << exhaustive.error().message;
      const double best = exhaustive->cycles;
      const SearchResult result = found(graph, machine);
      EXPECT_LE(result.finalists[0].cycles, best * 1.02) << launch << " " << across;
      EXPECT_GE(result.finalists[0].cycles, best * 0.999999) << launch << " " << across;
    }
  }
}

TEST(Search, FinalistsAreOrderedDistinctAndDifferent) {
  for (const std::string_view name : {"host", "mi300x"}) {
    const Machine machine = *find_machine(name);
    const SearchResult result = found(test::mlp_graph(3, 1458, 1152, 4304), machine);
    ASSERT_EQ(result.finalists.size(), 4u);
    std::set<std::string> grids;
    for (size_t i = 0; i < 4; ++i) {
      const Finalist& finalist = result.finalists[i];
      if (i > 0) {
        EXPECT_GE(finalist.cycles, result.finalists[i - 1].cycles);
      }
      EXPECT_LE(finalist.cycles, 2 * result.finalists[0].cycles);
      std::string grid;
      const RegionPlan* region = &finalist.plan.region;
      for (const OpPlan& op : region->ops) {
        if (const auto* repeat = std::get_if<RepeatPlan>(&op)) region = &repeat->body[0];
      }
      for (const OpPlan& op : region->ops) {
        if (const auto* m = std::get_if<MatmulPlan>(&op)) {
          grid += std::to_string(m->grid_m) + "x" + std::to_string(m->grid_n) + " ";
        }
      }
      grids.insert(grid);
      EXPECT_GE(finalist.cycles + 1e-6, finalist.cost.total());
    }
    EXPECT_EQ(grids.size(), 4u);
    EXPECT_GT(result.candidates, 100);
  }
}

TEST(Search, OptionsBoundTheWork) {
  const Graph graph = test::mlp_graph(3, 1458, 1152, 4304);
  const SearchResult one = found(graph, host(), {.finalists = 1, .beam = 1, .candidates_per_op = 10});
  EXPECT_EQ(one.finalists.size(), 1u);
  EXPECT_LE(one.candidates, 3 * 10 + 10);
  const SearchResult zero = found(graph, host(), {.finalists = 0, .beam = -3, .candidates_per_op = 0});
  EXPECT_EQ(zero.finalists.size(), 1u);
  EXPECT_EQ(found(graph, host(), {.finalists = 9}).finalists.size(), 9u);
}

TEST(Search, DoesNotDependOnThreads) {
  for (const Graph& graph : {views_graph(), test::mlp_graph(2, 37, 24, 101)}) {
    const SearchResult one = found(graph, host(), {}, 1);
    for (int round = 0; round < 3; ++round) {
      const SearchResult four = found(graph, host(), {}, 4);
      ASSERT_EQ(one.finalists.size(), four.finalists.size());
      EXPECT_EQ(one.candidates, four.candidates);
      for (size_t i = 0; i < one.finalists.size(); ++i) {
        EXPECT_EQ(print(one.finalists[i].plan), print(four.finalists[i].plan));
        EXPECT_EQ(explain(host(), one.finalists[i]), explain(host(), four.finalists[i]));
        EXPECT_EQ(one.finalists[i].cycles, four.finalists[i].cycles);
      }
    }
  }
}

TEST(Search, OddSizes) {
  for (const std::string_view name : {"host", "mi300x", "rx9070xt"}) {
    const Machine machine = *find_machine(name);
    const int64_t sizes[][3] = {{1, 1, 1}, {13, 17, 19},  {0, 4, 4},     {4, 0, 4},
                                {4, 4, 0}, {1, 10007, 3}, {257, 255, 31}};
    for (const auto& [m, n, k] : sizes) {
      SCOPED_TRACE(std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k));
      const SearchResult result = found(test::matmul_graph(m, n, k, DType::f8e4m3fn), machine);
      EXPECT_EQ(result.finalists[0].cycles == 0, m * n == 0);
    }
    const SearchResult scalar = found(test::pointwise_graph(Shape()), machine);
    EXPECT_EQ(std::get<SplitPlan>(scalar.finalists[0].plan.region.ops[1]), (SplitPlan{0, 1}));
    found(test::pointwise_graph({0, 3}), machine);
    found(test::pointwise_graph({1, 1, 7}), machine);
  }
}

TEST(Search, LargeEqualPartsOnTheHost) {
  const SearchResult result = found(test::matmul_graph(2048, 2048, 512), host());
  const auto& plan = std::get<MatmulPlan>(result.finalists[0].plan.region.ops[2]);
  EXPECT_EQ(plan.grid_m * plan.grid_n, 16u);
  EXPECT_GE(plan.block_m * plan.block_n, 256 * 256);
}

// One row and few columns: more tiles than parts, if k is not cut.
TEST(Search, SplitsDeepProductsOverK) {
  const Graph graph = test::matmul_graph(1, 16, 32768);
  const Finalist best = found(graph, host()).finalists[0];
  const auto& plan = std::get<MatmulPlan>(best.plan.region.ops[2]);
  EXPECT_GT(plan.grid_k, 4u);
  EXPECT_EQ(best.peak_bytes, uint64_t{plan.grid_k} * 16 * 4);  // the partial sums
  // Two supersteps: what is long is shorter, what is short is not worth it.
  EXPECT_EQ(std::get<MatmulPlan>(found(test::matmul_graph(1, 16, 64), host()).finalists[0].plan.region.ops[2]).grid_k,
            1u);
}

TEST(Search, OutputsThatNobodyWritesAreCopied) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {64, 100}});
  const ValueId operands[] = {x};
  const ValueId y = builder.pointwise(test::activation(DType::f32, DType::f32), operands);
  builder.output("direct", y);  // op 2
  builder.output("again", y);   // op 3: a second place
  builder.output("input", x);   // op 4
  const Graph graph = test::finish(std::move(builder));
  const SearchResult result = found(graph, host());
  const Finalist& best = result.finalists[0];
  ASSERT_EQ(best.plan.region.outputs.size(), 3u);
  EXPECT_EQ(best.plan.region.outputs[0], SplitPlan{});
  EXPECT_GT(best.plan.region.outputs[1].parts, 1u);
  EXPECT_GT(best.plan.region.outputs[2].parts, 1u);
  EXPECT_GT(best.cost.exchange, 0);
  EXPECT_THAT(explain(host(), best), HasSubstr("output 4 (input)"));
  EXPECT_THAT(explain(host(), best), ::testing::Not(HasSubstr("output 2")));
  // The last output reads an input: it shares the superstep of the one before it.
  EXPECT_NEAR(best.cost.launch, 2 * host().launch_cycles + 3 * host().command_cycles, 1e-6);
}

TEST(Search, RepeatsCostTheirIterations) {
  const Machine machine = host();
  const double one = found(test::mlp_graph(1, 100, 64, 128), machine).finalists[0].cycles;
  EXPECT_NEAR(found(test::mlp_graph(3, 100, 64, 128), machine).finalists[0].cycles, 3 * one, 1e-6 * one);
  EXPECT_NEAR(found(test::mlp_graph(27, 100, 64, 128), machine).finalists[0].cycles, 27 * one, 1e-6 * one);
  EXPECT_EQ(found(test::mlp_graph(0, 100, 64, 128), machine).finalists[0].cycles, 0);
}

TEST(Search, PeakMemoryIsThatOfLiveIntermediates) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {13, 7}});
  const ValueId w = builder.input("w", {DType::f32, {13, 11}});
  const ValueId first[] = {x};
  const ValueId p = builder.pointwise(test::activation(DType::f32, DType::f32), first);  // 13 * 7 * 4 = 364 bytes
  const ValueId operands[] = {builder.transpose(p, {1, 0}), w};
  const ValueId y[] = {builder.matmul({}, operands, DType::f32)};  // 7 * 11 * 4 = 308 bytes
  builder.output("z",
                 builder.pointwise(test::activation(DType::f32, DType::f32), y));  // an output's place: not counted
  const Graph graph = test::finish(std::move(builder));
  Machine machine = host();
  machine.launch_cycles = 1e6;  // the transpose stays a view, so its operand lives on
  EXPECT_EQ(found(graph, machine).finalists[0].peak_bytes, 364u + 308u);
}

TEST(Search, CopiesPayWhereManyReadThem) {
  // A transpose that one or three pointwise operations read: a strided read each, or one. Each tile reads what it
  // copied itself, so that the copy takes no superstep of its own.
  const auto copies = [](std::span<const double> factors, double launch) {
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {300, 500}});
    const ValueId t = builder.transpose(x, {1, 0});
    for (const double factor : factors) {
      ExprBuilder expr(1);
      const uint16_t scaled = expr.binary(ExprOp::mul, expr.input(0, DType::f32), expr.constant(DType::f32, factor));
      const ValueId operands[] = {t};
      builder.output(std::to_string(factor), builder.pointwise(std::move(expr).finish(scaled), operands));
    }
    Machine machine = host();
    machine.launch_cycles = launch;
    const SearchResult result = found(test::finish(std::move(builder)), machine);
    return std::get<MovementPlan>(result.finalists[0].plan.region.ops[1]).copy;
  };
  for (const double launch : {0.0, 1e9}) {
    EXPECT_TRUE(copies(std::array{2.0, 3.0, 4.0}, launch));
    EXPECT_FALSE(copies(std::array{2.0}, launch));
  }
}

TEST(Search, Explanation) {
  const SearchResult result = found(test::mlp_graph(3, 1458, 1152, 4304), host());
  const std::string text = explain(host(), result.finalists[0]);
  for (const std::string_view part :
       {"repeat 5 (layers)", "3 times", "  pointwise 5 (quantize)", "(fc1)", "(fc2)", "grid 1x", "compute", "memory",
        "exchange", "launch", "padding", "total", " us"}) {
    EXPECT_THAT(text, HasSubstr(std::string(part)));
  }
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
}

TEST(Search, Refusals) {
  ThreadPool pool(1);
  const Graph graph = test::matmul_graph(8, 8, 8);
  Machine small = *find_machine("mi300x");
  small.global_memory_bytes = 3 * 8 * 8 * 4 - 1;
  const Result<SearchResult> memory = search(graph, small, {}, pool);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(memory.error().message, HasSubstr("needs 768 bytes of global memory; machine mi300x has 767"));
  Machine tiny = *find_machine("mi300x");
  tiny.scratch_bytes = 1;
  EXPECT_THAT(search(graph, tiny, {}, pool).error().message, HasSubstr("no block of it fits machine mi300x"));

  Graph nested = test::pointwise_graph({2});
  for (int depth = 0; depth < 9; ++depth) {
    GraphBuilder builder;
    Repeat repeat;
    repeat.count = 2;
    repeat.carried = 1;
    repeat.body = std::make_shared<const Graph>(std::move(nested));
    const ValueId operands[] = {builder.input("x", {DType::f32, {2}})};
    builder.output("y", builder.repeat(repeat, operands)[0]);
    nested = test::finish(std::move(builder));
  }
  const Result<SearchResult> deep = search(nested, host(), {}, pool);
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().kind, ErrorKind::unsupported);
}

}  // namespace
}  // namespace low
