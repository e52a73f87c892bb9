// Decisions for attention: their text, their limits, which ones are tried, what they cost, and the search beside all
// plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "compiler/frontend/frontend.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/search/attention.h"
#include "compiler/search/exhaustive.h"
#include "compiler/search/test_graphs.h"
#include "compiler/workload/workload.h"

namespace low {
namespace {

using ::testing::HasSubstr;

// 6 batches of 10 rows and 4 heads over 3 batches of 20 keys and 2 heads; d = 4, dv = 3.
Graph attention_graph(const Attention& attributes) {
  GraphBuilder builder;
  Attention grouped = attributes;
  grouped.q_heads = 4;
  grouped.kv_heads = 2;
  const ValueId operands[] = {builder.input("q", {DType::f32, {6, 10, 16}}),
                              builder.input("k", {DType::f32, {3, 20, 8}}),
                              builder.input("v", {DType::f32, {3, 20, 6}})};
  builder.output("y", builder.attention(grouped, operands, DType::f32, "mix"));
  return test::finish(std::move(builder));
}

Plan plan_with(const Graph& graph, const Machine& machine, const AttentionPlan& attention) {
  Plan plan{.machine = machine.name, .tiles = machine.tiles, .graph_digest = digest(graph), .region = {}};
  plan.region.ops = {NoPlan{}, NoPlan{}, NoPlan{}, attention, NoPlan{}};
  plan.region.outputs = {SplitPlan{}};
  return plan;
}

TEST(AttentionPlanText, RoundTrip) {
  const Machine machine = *find_machine("host");
  const Graph graph = attention_graph({});
  for (const AttentionPlan& attention : {AttentionPlan{}, AttentionPlan{AttentionAlgorithm::flash, 2, 3, 4, 5, 67},
                                         AttentionPlan{AttentionAlgorithm::flash, 2, 3, 4, 5, 67, 8},
                                         AttentionPlan{AttentionAlgorithm::materialized, UINT32_MAX, UINT32_MAX,
                                                       UINT32_MAX, INT64_MAX, INT64_MAX, UINT32_MAX}}) {
    const Plan plan = plan_with(graph, machine, attention);
    const std::string text = print(plan);
    const Result<Plan> parsed = parse_plan(text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, plan);
    EXPECT_EQ(print(*parsed), text);
  }
  EXPECT_THAT(print(plan_with(graph, machine, {AttentionAlgorithm::flash, 2, 3, 4, 5, 67})),
              HasSubstr("\nattention flash grid 2 3 4 block 5 67\n"));
  EXPECT_THAT(print(plan_with(graph, machine, {AttentionAlgorithm::materialized, 1, 1, 1, 1, 1})),
              HasSubstr("\nattention materialized grid 1 1 1 block 1 1\n"));
  EXPECT_THAT(print(plan_with(graph, machine, {AttentionAlgorithm::flash, 2, 3, 4, 5, 67, 8})),
              HasSubstr("\nattention flash grid 2 3 4 block 5 67 keys 8\n"));
}

TEST(AttentionPlanText, Errors) {
  const std::string head = "low-plan 2\nmachine host\ntiles 16\ngraph " + std::string(64, '0') + "\n";
  const struct {
    std::string_view line, message;
  } cases[] = {
      {"attention", "line 5: 'attention' has 1 words; expected are 9"},
      {"attention flash grid 1 1 1 block 1", "line 5: 'attention' has 8 words; expected are 9"},
      {"attention flash grid 1 1 1 block 1 1 1", "line 5: 'attention' has 10 words; expected are 11"},
      {"attention flash grid 1 1 1 block 1 1 parts 4", "line 5: 'parts' where 'keys' is expected"},
      {"attention flash grid 1 1 1 block 1 1 keys 0", "keys in 0 parts"},
      {"attention flush grid 1 1 1 block 1 1", "line 5: 'flush' where 'flash' or 'materialized' is expected"},
      {"attention flash grids 1 1 1 block 1 1", "line 5: 'grids' where 'grid' is expected"},
      {"attention flash grid 1 1 1 blocks 1 1", "line 5: 'blocks' where 'block' is expected"},
      {"attention flash grid 4294967296 1 1 block 1 1", "'4294967296' is not a number from 0 to 4294967295"},
      {"attention flash grid 1 -1 1 block 1 1", "'-1' is not a number"},
      {"attention flash grid 1 1 x block 1 1", "'x' is not a number"},
      {"attention flash grid 1 1 1 block 9223372036854775808 1", "is not a number"},
      {"attention flash grid 1 1 1 block 1 01", "leading zeros"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    const Result<Plan> plan = parse_plan(head + std::string(c.line) + "\n");
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().kind, ErrorKind::invalid);
    EXPECT_THAT(plan.error().message, HasSubstr(c.message));
  }
}

struct BadPlan {
  std::function<void(AttentionPlan&)> damage;
  std::string_view message;
};

void expect_refused(const Graph& graph, const Machine& machine, const AttentionPlan& good,
                    std::span<const BadPlan> cases) {
  const Result<void> accepted = verify(plan_with(graph, machine, good), graph, machine);
  ASSERT_TRUE(accepted) << accepted.error().message;
  for (const BadPlan& c : cases) {
    SCOPED_TRACE(c.message);
    AttentionPlan bad = good;
    c.damage(bad);
    const Result<void> result = verify(plan_with(graph, machine, bad), graph, machine);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::invalid);
    EXPECT_THAT(result.error().message, HasSubstr("attention 3 (mix): "));
    EXPECT_THAT(result.error().message, HasSubstr(c.message));
  }
}

std::vector<BadPlan> bad_on_all_machines() {
  return {
      {[](AttentionPlan& p) { p.grid_batch = 0; }, "a grid of 0 along batch of extent 6"},
      {[](AttentionPlan& p) { p.grid_batch = 7; }, "a grid of 7 along batch of extent 6"},
      {[](AttentionPlan& p) { p.grid_m = 0; }, "a grid of 0 along m of extent 10"},
      {[](AttentionPlan& p) { p.grid_m = 11; }, "a grid of 11 along m of extent 10"},
      {[](AttentionPlan& p) { p.grid_m = UINT32_MAX; }, "a grid of 4294967295 along m"},
      {[](AttentionPlan& p) { p.grid_heads = 0; }, "a grid of 0 along heads of extent 4"},
      {[](AttentionPlan& p) { p.grid_heads = 5; }, "a grid of 5 along heads of extent 4"},
      {[](AttentionPlan& p) { p.grid_batch = 6, p.grid_heads = 4; }, "parts on 16 tiles"},
      {[](AttentionPlan& p) { p.block_m = 0; }, "a block of 0 rows of a part of 5"},
      {[](AttentionPlan& p) { p.block_m = -1; }, "a block of -1 rows"},
      {[](AttentionPlan& p) { p.block_m = 6; }, "a block of 6 rows of a part of 5"},
      {[](AttentionPlan& p) { p.block_m = INT64_MAX; }, "a block of 9223372036854775807 rows"},
      {[](AttentionPlan& p) { p.block_n = 0; }, "panels of 0 keys of 20"},
      {[](AttentionPlan& p) { p.block_n = INT64_MIN; }, "panels of -9223372036854775808 keys"},
      {[](AttentionPlan& p) { p.block_n = 21; }, "panels of 21 keys of 20"},
  };
}

TEST(AttentionPlanVerify, WithGlobalMemory) {
  const Graph graph = attention_graph({});
  const Machine host = *find_machine("host");
  ASSERT_EQ(host.tiles, 16U);
  const AttentionPlan good{AttentionAlgorithm::flash, 3, 2, 2, 5, 20};
  expect_refused(graph, host, good, bad_on_all_machines());
  const BadPlan panels[] = {
      {[](AttentionPlan& p) { p.block_n = 10; }, "panels of 10 keys; expected are all 20 at once"},
      {[](AttentionPlan& p) { p.key_parts = 2; }, "keys in 2 parts, with global memory"},
      {[](AttentionPlan& p) { p.block_n = 10, p.algorithm = AttentionAlgorithm::materialized; },
       "panels of 10 keys; expected are all 20 at once"}};
  expect_refused(graph, host, good, panels);
  // Blocks of a part's rows, of which the last one is smaller.
  for (const int64_t rows : {1, 2, 4, 5}) {
    for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized})
      EXPECT_TRUE(verify(plan_with(graph, host, {algorithm, 3, 2, 2, rows, 20}), graph, host)) << rows;
  }
  Plan other = plan_with(graph, host, good);
  other.region.ops[3] = SplitPlan{};
  EXPECT_THAT(verify(other, graph, host).error().message, HasSubstr("decision 'split' where 'attention' is expected"));
}

TEST(AttentionPlanVerify, WithoutGlobalMemory) {
  const Graph graph = attention_graph({});
  Machine machine = *find_machine("ipu21");
  machine.tiles = 16;
  const AttentionPlan good{AttentionAlgorithm::flash, 3, 2, 2, 5, 7};
  expect_refused(graph, machine, good, bad_on_all_machines());
  const BadPlan cases[] = {
      {[](AttentionPlan& p) { p.block_m = 4; }, "a block of 4 rows of a part of 5"},
      {[](AttentionPlan& p) { p.algorithm = AttentionAlgorithm::materialized; },
       "panels of 7 keys; expected are all 20 at once"},
      {[](AttentionPlan& p) { p.key_parts = 21; }, "keys in 21 parts of 20, some of which are empty"},
      {[](AttentionPlan& p) { p.key_parts = 9; }, "keys in 9 parts of 20, some of which are empty"},
      {[](AttentionPlan& p) { p.key_parts = UINT32_MAX; }, "keys in 4294967295 parts of 20"},
      {[](AttentionPlan& p) { p.key_parts = 10; }, "heads on 16 tiles"}};
  expect_refused(graph, machine, good, cases);
  for (const int64_t keys : {1, 19, 20})
    EXPECT_TRUE(verify(plan_with(graph, machine, {AttentionAlgorithm::flash, 3, 2, 2, 5, keys}), graph, machine));
}

TEST(AttentionPlanVerify, WhatMaterializedScoresCannotCompute) {
  const Machine host = *find_machine("host");
  AttentionExtents extents{.m = 1 << 14, .n = 1 << 12, .causal = true};
  EXPECT_TRUE(can_compute(extents, AttentionAlgorithm::materialized));  // 2^26 elements of a causal mask
  ++extents.n;
  EXPECT_FALSE(can_compute(extents, AttentionAlgorithm::materialized));
  EXPECT_TRUE(can_compute(extents, AttentionAlgorithm::flash));
  extents.causal = false;
  EXPECT_TRUE(can_compute(extents, AttentionAlgorithm::materialized));
}

TEST(AttentionSpace, CandidatesAreValidAndDistinct) {
  for (const char* name : {"host", "mi300x", "ipu21"}) {
    const Machine machine = *find_machine(name);
    for (const AttentionExtents& extents :
         {AttentionExtents{}, AttentionExtents{.batch = 0, .m = 3, .kv_batch = 0},
          AttentionExtents{.batch = 2, .m = 0, .q_heads = 3, .n = 5, .kv_heads = 3},
          AttentionExtents{.batch = 1, .m = 729, .q_heads = 16, .n = 729, .d = 72, .dv = 72, .kv_heads = 16},
          AttentionExtents{.batch = 7, .m = 13, .q_heads = 5, .n = 101, .d = 3, .dv = 2, .causal = true},
          AttentionExtents{.batch = 31, .m = 4097, .q_heads = 3, .n = 3, .d = 1, .dv = 1}}) {
      SCOPED_TRACE(std::string(name) + ", m " + std::to_string(extents.m));
      const std::vector<AttentionPlan> space = attention_space(machine, extents, std::nullopt, 100000);
      ASSERT_FALSE(space.empty());
      std::set<std::string> texts;
      size_t flash = 0;
      for (const AttentionPlan& plan : space) {
        const auto violation = attention_violation(machine, extents, plan);
        EXPECT_FALSE(violation.has_value()) << *violation;
        Plan one;
        one.region.ops = {plan};
        EXPECT_TRUE(texts.insert(print(one)).second) << print(one);
        flash += plan.algorithm == AttentionAlgorithm::flash ? 1 : 0;
      }
      const auto of = [&](AttentionAlgorithm algorithm) {
        return attention_space(machine, extents, algorithm, 100000).size();
      };
      EXPECT_EQ(of(AttentionAlgorithm::flash), flash);
      EXPECT_EQ(of(AttentionAlgorithm::materialized), space.size() - flash);
      EXPECT_LT(flash, space.size());
      for (const size_t limit : {size_t{0}, size_t{1}, space.size()})
        EXPECT_EQ(attention_space(machine, extents, std::nullopt, static_cast<int64_t>(limit)).size(), limit);
    }
  }
}

// Panels bound what a tile has to hold.
TEST(AttentionSpace, PanelsWhereAllKeysDoNotFit) {
  GraphBuilder builder;
  const ValueId operands[] = {builder.input("q", {DType::f32, {1, 8, 8}}),
                              builder.input("k", {DType::f32, {1, 4096, 8}}),
                              builder.input("v", {DType::f32, {1, 4096, 8}})};
  builder.output("y", builder.attention({}, operands, DType::f32));
  const Graph graph = test::finish(std::move(builder));
  Machine machine = *find_machine("ipu21");
  machine.tiles = 4;
  machine.tile_memory_bytes = 160 << 10;  // k and v are 128 KiB each
  ThreadPool pool(1);
  const Result<SearchResult> found = search(graph, machine, {.finalists = 1}, pool);
  ASSERT_TRUE(found) << found.error().message;
  const auto& plan = std::get<AttentionPlan>(found->finalists[0].plan.region.ops[3]);
  EXPECT_EQ(plan.algorithm, AttentionAlgorithm::flash);
  EXPECT_LT(plan.block_n, 4096);
  EXPECT_LE(found->finalists[0].peak_bytes, machine.tile_memory_bytes);
}

double cycles_of(const Machine& machine, const AttentionExtents& extents, const AttentionPlan& plan) {
  AttentionWork work;
  work.shape = extents;
  work.score_nodes = score_work(false, false, false);
  work.expression_nodes = 1;
  return attention_cost(machine, work, plan).cycles;
}

TEST(AttentionCost, MoreWorkIsNeverCheaper) {
  for (const char* name : {"host", "mi300x"}) {
    const Machine machine = *find_machine(name);
    const AttentionExtents small{
        .batch = 2, .m = 40, .q_heads = 4, .n = 50, .d = 16, .dv = 16, .kv_batch = 2, .kv_heads = 4};
    for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized}) {
      const AttentionPlan plan{algorithm, 2, 1, 2, 40, 50};
      const double cycles = cycles_of(machine, small, plan);
      EXPECT_GT(cycles, 0);
      for (int64_t AttentionExtents::* field :
           {&AttentionExtents::batch, &AttentionExtents::m, &AttentionExtents::q_heads, &AttentionExtents::n,
            &AttentionExtents::d, &AttentionExtents::dv}) {
        AttentionExtents large = small;
        large.*field *= 8;
        if (field == &AttentionExtents::batch) large.kv_batch = large.batch;
        if (field == &AttentionExtents::q_heads) large.kv_heads = large.q_heads;
        EXPECT_GE(cycles_of(machine, large, plan), cycles) << name;
      }
      EXPECT_EQ(cycles_of(machine, {.batch = 0, .m = 40, .kv_batch = 0}, {algorithm, 1, 1, 1, 40, 1}), 0);
      EXPECT_EQ(cycles_of(machine, {.batch = 1, .m = 0}, {algorithm, 1, 1, 1, 1, 1}), 0);
    }
    EXPECT_EQ(attention_scratch_bytes(machine, small, {AttentionAlgorithm::flash, 2, 1, 2, 40, 50}), 0U);
    // Of 4 tiles, 16 rows of 50 scores each.
    EXPECT_EQ(attention_scratch_bytes(machine, small, {AttentionAlgorithm::materialized, 2, 1, 2, 16, 50}),
              uint64_t{4 * 16 * 50 * 4});
  }
}

void expect_beam_as_good(const Graph& graph, const Machine& machine) {
  SCOPED_TRACE(machine.name + " of " + std::to_string(machine.tiles));
  const auto best = search_exhaustively(graph, machine);
  ASSERT_TRUE(best) << best.error().message;
  ThreadPool pool(2);
  const auto found = search(graph, machine, {}, pool);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_LE(found->finalists[0].cycles, 1.02 * best->cycles);
  EXPECT_GE(found->finalists[0].cycles, 0.999999 * best->cycles);
}

TEST(AttentionSearch, TheBeamFindsTheBestOfAllPlans) {
  for (const Attention& attributes : {Attention{}, Attention{.diagonal = 12, .empty_is_zero = true}}) {
    const Graph graph = attention_graph(attributes);
    for (const char* name : {"host", "mi300x"}) expect_beam_as_good(graph, *find_machine(name));
    for (const uint32_t tiles : {1U, 3U, 7U, 16U, 100U}) {
      Machine machine = *find_machine("ipu21");
      machine.tiles = tiles;
      expect_beam_as_good(graph, machine);
    }
  }
}

// Queries, keys and values wait for one reader, in several layouts each.
TEST(AttentionSearch, TheBeamFindsTheBestOfAllPlansOfWorkloads) {
  for (const char* name : {"tiny-flash-attention-b1", "tiny-flash-attention-f32", "tiny-materialized-attention-b1",
                           "tiny-materialized-attention-f32"}) {
    SCOPED_TRACE(name);
    const auto model = make_workload(name, {});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const auto imported = import_onnx(std::as_bytes(std::span(*model)), name, {});
    ASSERT_TRUE(imported.has_value()) << imported.error().message;
    const auto graph = run_passes(*imported);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    for (const char* machine_name : {"host", "mi300x"}) expect_beam_as_good(*graph, *find_machine(machine_name));
    const auto legal = legalize_for_distributed_memory(*graph, {});
    ASSERT_TRUE(legal.has_value()) << legal.error().message;
    expect_beam_as_good(*legal, *find_machine("ipu21"));
  }
}

}  // namespace
}  // namespace low
