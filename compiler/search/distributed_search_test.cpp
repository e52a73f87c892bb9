#include "compiler/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "compiler/search/distributed_cost.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/exhaustive.h"
#include "compiler/search/explain.h"
#include "compiler/search/test_graphs.h"

namespace low {
namespace {

using ::testing::HasSubstr;

Machine ipu() { return *find_machine("ipu21"); }
Machine islands(uint32_t tiles, uint64_t bytes = 1 << 20) {
  Machine machine = ipu();
  machine.name = "islands";
  machine.tiles = tiles;
  machine.tile_memory_bytes = bytes;
  return machine;
}

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
    EXPECT_LE(finalist.peak_bytes, machine.tile_memory_bytes);
  }
  return std::move(*result);
}

// activation of x, times a constant, times another, with an epilogue.
Graph two_products() {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {13, 40}});
  const ValueId w = builder.constant(Tensor(DType::f32, {40, 22}));
  const ValueId v = builder.input("v", {DType::f32, {22, 9}});
  const ValueId bias = builder.constant(Tensor(DType::f32, {9}));
  const ValueId first[] = {builder.pointwise(test::activation(DType::f32, DType::f32), std::span(&x, 1)), w};
  Matmul matmul;
  const ValueId y = builder.matmul(matmul, first, DType::f32);
  const ValueId second[] = {y, v, bias};
  matmul.epilogue = test::sum(DType::f32);
  builder.output("z", builder.matmul(matmul, second, DType::f32));
  return test::finish(std::move(builder));
}

TEST(DistributedSearch, BeamFindsWhatExhaustiveSearchFinds) {
  const Graph graph = two_products();
  for (const double launch : {0.0, 100.0, 10000.0}) {
    for (const double bytes_per_cycle : {0.05, 4.0, 1000.0}) {
      Machine machine = islands(6);
      machine.launch_cycles = launch;
      machine.transfer_cycles = 3;
      machine.cluster_bytes_per_cycle = bytes_per_cycle;
      const auto exhaustive = search_exhaustively(graph, machine);
      ASSERT_TRUE(exhaustive) << exhaustive.error().message;
      const double best = exhaustive->cycles;
      const SearchResult result = found(graph, machine);
      EXPECT_LE(result.finalists[0].cycles, best * 1.02) << launch << " " << bytes_per_cycle;
      EXPECT_GE(result.finalists[0].cycles, best * 0.999999) << launch << " " << bytes_per_cycle;
    }
  }
}

TEST(DistributedSearch, DoesNotDependOnThreads) {
  for (const Graph& graph : {two_products(), test::mlp_graph(3, 37, 24, 101)}) {
    for (const Machine& machine : {ipu(), islands(7)}) {
      const SearchResult one = found(graph, machine, {}, 1);
      const SearchResult four = found(graph, machine, {}, 4);
      ASSERT_EQ(one.finalists.size(), four.finalists.size());
      EXPECT_EQ(one.candidates, four.candidates);
      for (size_t i = 0; i < one.finalists.size(); ++i) {
        EXPECT_EQ(print(one.finalists[i].plan), print(four.finalists[i].plan));
        EXPECT_EQ(explain(machine, one.finalists[i]), explain(machine, four.finalists[i]));
      }
    }
  }
}

const MatmulPlan& matmul_of(const Finalist& finalist, size_t op) {
  return std::get<MatmulPlan>(finalist.plan.region.ops[op]);
}

// a[64, 512] * b[512, 64] in f32 on one tile: 128 KiB of each operand, 16 KiB of result, as much of sums.
TEST(DistributedSearch, PanelsWhereTheWholeDepthDoesNotFit) {
  const Graph graph = test::matmul_graph(64, 64, 512);
  const SearchResult whole = found(graph, islands(1, 300 << 10));
  EXPECT_EQ(matmul_of(whole.finalists[0], 2).block_k, 512);
  EXPECT_EQ(whole.finalists[0].peak_bytes, uint64_t{(128 + 128 + 16) << 10});
  // Panels of 256: 64 + 64 + 16 + 16 KiB.
  const SearchResult half = found(graph, islands(1, 271 << 10));
  EXPECT_EQ(matmul_of(half.finalists[0], 2).block_k, 256);
  EXPECT_EQ(half.finalists[0].peak_bytes, uint64_t{160 << 10});
  EXPECT_GT(half.finalists[0].cycles, whole.finalists[0].cycles);
  const SearchResult quarter = found(graph, islands(1, 100 << 10));
  EXPECT_EQ(matmul_of(quarter.finalists[0], 2).block_k, 128);
  // Panels of one: 256 + 256 bytes and 32 KiB.
  ThreadPool pool(1);
  const Result<SearchResult> none = search(graph, islands(1, 33279), {}, pool);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(
      none.error().message,
      "search: matmul 2 f32[64,64]: needs at least 33280 bytes of a tile's memory with what is alive then; a tile "
      "of machine islands has 33279");
  EXPECT_EQ(matmul_of(found(graph, islands(1, 33280)).finalists[0], 2).block_k, 1);
}

// A vector times a matrix: with few columns, tiles are left for parts of k.
TEST(DistributedSearch, SplitsDeepProductsOverK) {
  const SearchResult result = found(test::matmul_graph(1, 16, 32768), ipu());
  EXPECT_GT(matmul_of(result.finalists[0], 2).grid_k, 8u);
}

// Each block's constants stay on their tiles: three times the iterations, three times the constants.
TEST(DistributedSearch, RepeatsKeepTheirConstants) {
  const auto mlp = [](int64_t count) {
    GraphBuilder inner;
    const ValueId x = inner.input("x", {DType::f32, {32, 256}});
    const ValueId w = inner.input("w", {DType::f32, {256, 256}});
    const ValueId operands[] = {x, w};
    inner.output("y", inner.matmul({}, operands, DType::f32));
    Repeat repeat;
    repeat.count = count;
    repeat.carried = repeat.iterated = 1;
    repeat.body = std::make_shared<const Graph>(test::finish(std::move(inner)));
    GraphBuilder builder;
    const ValueId outer[] = {builder.input("x", {DType::f32, {32, 256}}),
                             builder.constant(Tensor(DType::f32, {count, 256, 256}))};
    builder.output("y", builder.repeat(repeat, outer)[0]);
    return test::finish(std::move(builder));
  };
  // 256 KiB of weights an iteration: four tiles of 256 KiB hold those of three iterations and little else.
  const SearchResult three = found(mlp(3), islands(4, 256 << 10));
  EXPECT_GE(three.finalists[0].peak_bytes, uint64_t{3 * 64 << 10});
  const SearchResult one = found(mlp(1), islands(4, 256 << 10));
  EXPECT_LT(one.finalists[0].cycles, three.finalists[0].cycles);
  ThreadPool pool(1);
  const Result<SearchResult> five = search(mlp(5), islands(4, 256 << 10), {}, pool);
  ASSERT_FALSE(five);
  EXPECT_THAT(five.error().message, HasSubstr("a tile of machine islands has 262144"));
}

// Carried values that are exchanged, passed through and computed; collected ones; a copy of an output; nested.
TEST(DistributedSearch, RepeatsOfAllKinds) {
  GraphBuilder inner;
  const ValueId a = inner.input("a", {DType::f32, {6, 10}});
  const ValueId b = inner.input("b", {DType::f32, {6, 10}});
  const ValueId c = inner.input("c", {DType::f32, {2, 3, 10}});
  const ValueId i = inner.input("i", {DType::f32, {10}});
  const ValueId both[] = {a, i};
  const ValueId sum = inner.pointwise(test::sum(DType::f32), both);
  inner.output("a", b);
  inner.output("b", sum);
  inner.output("c", inner.reshape(sum, {2, 3, 10}));
  inner.output("all", inner.transpose(c, {2, 0, 1}));
  Repeat repeat;
  repeat.count = 4;
  repeat.carried = 3;
  repeat.iterated = repeat.collected = 1;
  repeat.body = std::make_shared<const Graph>(test::finish(std::move(inner)));
  for (const int64_t count : {0, 1, 4}) {
    repeat.count = count;
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {6, 10}});
    const ValueId constant = builder.constant(Tensor(DType::f32, {2, 3, 10}));
    const ValueId rows = builder.input("rows", {DType::f32, {count, 10}});
    const ValueId operands[] = {x, x, constant, rows};
    const std::vector<ValueId> results = builder.repeat(repeat, operands);
    for (size_t r = 0; r < results.size(); ++r) builder.output("r" + std::to_string(r), results[r]);
    const Graph graph = test::finish(std::move(builder));
    for (const uint32_t tiles : {1u, 5u, 1472u}) found(graph, islands(tiles));
  }
}

// A table of 1000 rows of 64 in f32, 256,000 bytes: of 8 tiles each holds 8 columns of all rows.
TEST(DistributedSearch, GathersSpreadTheirTableByColumns) {
  const auto lookup = [](DType dtype) {
    GraphBuilder builder;
    const ValueId table = builder.constant(Tensor(dtype, {1000, 64}));
    const ValueId indices = builder.input("i", {DType::i32, {10}});
    builder.output("y", builder.gather({.mode = Gather::Mode::axis, .axis = 0}, table, indices));
    return test::finish(std::move(builder));
  };
  const SearchResult result = found(lookup(DType::f32), islands(8, 40000));
  EXPECT_EQ(std::get<SplitPlan>(result.finalists[0].plan.region.ops[2]), (SplitPlan{1, 8}));
  // 32,000 bytes of the table, indices and the result.
  EXPECT_GT(result.finalists[0].peak_bytes, 32000u);
  EXPECT_LT(result.finalists[0].peak_bytes, 33000u);
  ThreadPool pool(1);
  const Result<SearchResult> none = search(lookup(DType::f64), islands(8, 40000), {}, pool);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(none.error().message, HasSubstr("a tile of machine islands has 40000"));
}

// Two halves of 20,000 bytes each do not fit on one tile together, but on two.
TEST(DistributedSearch, ConcatsCountEachOperand) {
  GraphBuilder builder;
  const ValueId parts[] = {builder.constant(Tensor(DType::f32, {5000})), builder.input("x", {DType::f32, {5000}})};
  builder.output("y", builder.concat(parts, 0));
  const Graph graph = test::finish(std::move(builder));
  // The constant whole on one tile, and the result's part.
  const SearchResult two = found(graph, islands(2, 40200));
  EXPECT_EQ(std::get<MovementPlan>(two.finalists[0].plan.region.ops[2]), (MovementPlan{true, {0, 2}}));
  ThreadPool pool(1);
  const Result<SearchResult> none = search(graph, islands(1, 40200), {}, pool);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("needs at least 60"));
}

TEST(DistributedSearch, OddSizes) {
  const int64_t sizes[][3] = {{1, 1, 1}, {13, 17, 19}, {0, 4, 4}, {4, 0, 4}, {4, 4, 0}, {1, 10007, 3}, {257, 255, 31}};
  for (const auto& [m, n, k] : sizes) {
    SCOPED_TRACE(std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k));
    const SearchResult result = found(test::matmul_graph(m, n, k, DType::f8e4m3fn), ipu());
    EXPECT_EQ(result.finalists[0].cycles == 0, m * n == 0);
  }
  for (const Shape& shape : {Shape(), Shape{0, 3}, Shape{1, 1, 7}, Shape{5}, Shape{3, 1009, 2}}) {
    found(test::pointwise_graph(shape), ipu());
    found(test::pointwise_graph(shape), islands(3));
  }
}

TEST(DistributedSearch, Explanation) {
  const SearchResult result = found(test::mlp_graph(3, 1458, 1152, 4304), ipu());
  for (const std::string_view part : {"repeat 5 (layers)", "3 times", "(fc1)", "exchange", "leaves the tiles",
                                      "busiest tile: ", " of 638976 bytes"}) {
    EXPECT_THAT(explain(ipu(), result.finalists[0]), HasSubstr(std::string(part)));
  }
}

// What a layout says of each element, one by one.
TEST(DistributedLayout, ArrivalCountsElements) {
  const unsigned seed = 3;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (int round = 0; round < 500; ++round) {
    const MatmulShape shape{1 + below(3), 1 + below(12), 1 + below(9), 5};
    const auto some = [&](int64_t extent) {
      const std::vector<uint32_t> all = splits(extent, 16);
      return all[static_cast<size_t>(below(static_cast<int64_t>(all.size())))];
    };
    MatmulPlan plan{.grid_batch = some(shape.batch), .grid_m = some(shape.m), .grid_n = some(shape.n)};
    plan.grid_k = static_cast<uint32_t>(1 + below(3));
    const DistributedLayout layout = layout_of(shape, plan);
    // The reader sees the rows as other matrices.
    const int64_t rows = shape.batch * shape.m;
    Wanted wanted;
    const bool same = round % 2 == 0;
    wanted.matrix_rows = same ? shape.m : rows;
    wanted.matrix_begin = same ? below(shape.batch) : 0;
    wanted.matrix_end = same ? wanted.matrix_begin + 1 + below(shape.batch - wanted.matrix_begin) : 1;
    wanted.row_begin = below(wanted.matrix_rows);
    wanted.row_end = wanted.row_begin + 1 + below(wanted.matrix_rows - wanted.row_begin);
    wanted.column_begin = below(shape.n);
    wanted.column_end = wanted.column_begin + 1 + below(shape.n - wanted.column_begin);
    const auto tile = static_cast<uint64_t>(below(static_cast<int64_t>(layout.parts()) + 2));
    int64_t local = 0, remote = 0;
    for (int64_t matrix = wanted.matrix_begin; matrix < wanted.matrix_end; ++matrix) {
      for (int64_t row = wanted.row_begin; row < wanted.row_end; ++row) {
        for (int64_t column = wanted.column_begin; column < wanted.column_end; ++column) {
          const int64_t at = matrix * wanted.matrix_rows + row;
          const int64_t b = at / shape.m / layout.part_batch;
          const int64_t i = at % shape.m / layout.part_m;
          const int64_t p = at % shape.m % layout.part_m / layout.share;
          const int64_t j = column / layout.part_n;
          const int64_t home = ((b * plan.grid_m + i) * plan.grid_n + j) * plan.grid_k + p;
          (home == static_cast<int64_t>(tile) ? local : remote) += 1;
        }
      }
    }
    const Arrival result = arrival(layout, wanted, tile);
    EXPECT_EQ(result.local, local) << round;
    EXPECT_EQ(result.remote, remote) << round;
    EXPECT_EQ(result.pieces > 0, remote > 0) << round;
    EXPECT_LE(result.pieces, remote) << round;
  }
}

// A billion matrices, a quarter of them on each of four tiles, are not looked at one by one.
TEST(DistributedLayout, ArrivalOfMoreThanCanBeCounted) {
  const int64_t many = int64_t{1} << 30;
  const DistributedLayout apart =
      layout_of(MatmulShape{.batch = many, .m = 2, .n = 3, .k = 1}, MatmulPlan{.grid_batch = 4});
  const DistributedLayout rows =
      layout_of(MatmulShape{.batch = 1, .m = 2 * many, .n = 3, .k = 1}, MatmulPlan{.grid_m = 4});
  const Wanted matrices{.matrix_end = many, .matrix_rows = 2, .row_end = 2, .column_end = 3};
  const Wanted as_one{.matrix_rows = 2 * many, .row_end = 2 * many, .column_end = 3};
  for (const auto& [layout, wanted] : {std::pair(apart, matrices), {apart, as_one}, {rows, matrices}}) {
    const Arrival result = arrival(layout, wanted, 0);
    EXPECT_EQ(result.local + result.remote, 6 * many);
    EXPECT_NEAR(static_cast<double>(result.local), 1.5 * many, 0.1 * many);
    EXPECT_NEAR(static_cast<double>(result.pieces), 0.75 * many, 0.1 * many);
  }
}

// [64, 128] x constant [128, 256] in f32, a 2 x 2 grid on four tiles, x from outside: a part of 32 x 128, sums over
// 128.
TEST(DistributedCost, MatmulByHand) {
  GraphBuilder builder;
  const ValueId operands[] = {builder.input("x", {DType::f32, {64, 128}}),
                              builder.constant(Tensor(DType::f32, {128, 256}))};
  builder.output("y", builder.matmul({}, operands, DType::f32));
  const Graph graph = test::finish(std::move(builder));
  Machine machine = islands(4);
  machine.transfer_cycles = 10;
  DistributedLayout constant;
  constant.kind = DistributedLayout::Kind::constant;
  const DistributedLayout layouts[] = {DistributedLayout(), constant};
  const DistributedMatmul work = distributed_matmul(graph, graph.op(OpId(2)), layouts);
  MatmulPlan plan{.grid_m = 2, .grid_n = 2, .block_m = 32, .block_n = 128, .block_k = 128};
  const DistributedCost cost = distributed_matmul_cost(machine, work, plan);
  // 16,384 bytes of a arrive in one piece; b is 128 x 128, half of which is on the tile, the other 32,768 bytes come in
  // one piece.
  const double exchange = (16384.0 + 32768) / 4 + 2 * 10 + 2 * 32768.0 / 16;
  EXPECT_DOUBLE_EQ(cost.cost.items.exchange, exchange);
  EXPECT_DOUBLE_EQ(cost.cost.items.compute, 2.0 * 32 * 128 * 128 / 32);
  EXPECT_EQ(cost.parameter_bytes, 32768u);
  EXPECT_EQ(cost.result_bytes, 16384u);
  EXPECT_EQ(cost.working_bytes, 16384u + 65536 + 16384);
  // Two partial sums instead of two columns: each half of k for 32 x 256; the rows of the other half come back.
  plan = {.grid_m = 2, .grid_k = 2, .block_m = 32, .block_n = 256, .block_k = 64};
  const DistributedCost split = distributed_matmul_cost(machine, work, plan);
  EXPECT_DOUBLE_EQ(split.cost.items.exchange,
                   (8192.0 + 32768) / 4 + 2 * 10 + 2 * 32768.0 / 16 + 16 * 256 * 4 / 4.0 + 10);
  EXPECT_EQ(split.result_bytes, 16u * 256 * 4);
  EXPECT_EQ(split.working_bytes, 8192u + 65536 + 32768);
  // Two supersteps of a run each, and a copy of what lies on the tile of b.
  EXPECT_DOUBLE_EQ(split.cost.items.launch, 2 * machine.launch_cycles + 3 * machine.command_cycles);
}

TEST(DistributedPlanVerify, Table) {
  const Graph graph = two_products();
  const Machine machine = islands(6);
  const Plan good = found(graph, machine).finalists[0].plan;
  const auto product = [](Plan& plan) -> MatmulPlan& {
    for (OpPlan& op : plan.region.ops) {
      if (auto* matmul = std::get_if<MatmulPlan>(&op)) return *matmul;
    }
    return std::get<MatmulPlan>(plan.region.ops[0]);
  };
  const auto pointwise = [](Plan& plan) -> SplitPlan& {
    for (OpPlan& op : plan.region.ops) {
      if (auto* split = std::get_if<SplitPlan>(&op)) return *split;
    }
    return std::get<SplitPlan>(plan.region.ops[0]);
  };
  struct Case {
    std::function<void(Plan&)> damage;
    std::string_view message;
  };
  const Case cases[] = {
      {[&](Plan& p) { product(p).block_m += 1; }, "is one block"},
      {[&](Plan& p) { product(p).block_n -= 1; }, "is one block"},
      {[&](Plan& p) { product(p).block_k = 0; }, "panels of depth 0"},
      {[&](Plan& p) { product(p).block_k = 41; }, "panels of depth 41"},
      {[&](Plan& p) { product(p).grid_m = 7; }, "parts on 6 tiles"},
      {[&](Plan& p) { pointwise(p) = {2, 1}; }, "axis"},
      {[&](Plan& p) { pointwise(p) = {0, 7}; }, "7 parts"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    Plan bad = good;
    c.damage(bad);
    const Result<void> result = verify(bad, graph, machine);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::invalid);
    EXPECT_THAT(result.error().message, HasSubstr(c.message));
  }
  // Along a middle axis no tile memory is cut; a transpose is no view there.
  const Graph three = test::pointwise_graph({2, 3, 4});
  Plan plan = found(three, machine).finalists[0].plan;
  plan.region.ops[1] = SplitPlan{1, 2};
  EXPECT_THAT(verify(plan, three, machine).error().message, HasSubstr("a cut along axis 1"));
  plan.region.ops[1] = SplitPlan{0, 6};  // of 2 * 3 rows
  EXPECT_TRUE(verify(plan, three, machine));
  GraphBuilder builder;
  builder.output("y", builder.transpose(builder.input("x", {DType::f32, {2, 3}}), {1, 0}));
  const Graph moved = test::finish(std::move(builder));
  plan = found(moved, machine).finalists[0].plan;
  EXPECT_TRUE(std::get<MovementPlan>(plan.region.ops[1]).copy);
  plan.region.ops[1] = MovementPlan{};
  EXPECT_THAT(verify(plan, moved, machine).error().message, HasSubstr("only a reshape that keeps the last extent"));
}

}  // namespace
}  // namespace low
