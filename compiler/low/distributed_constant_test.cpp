// Constants without global memory that are read in several ways, and the most that an expansion may become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/low/low.h"
#include "compiler/search/attention.h"
#include "runtime/tensor/random_tensor.h"

namespace low {
namespace {

using testing::HasSubstr;

Machine islands(uint32_t tiles) {
  Machine machine = *find_machine("ipu21");
  machine.tiles = tiles;
  return machine;
}

Expr sum() {
  ExprBuilder expr(2);
  const uint16_t both = expr.binary(ExprOp::add, expr.input(0, DType::f32), expr.input(1, DType::f32));
  return std::move(expr).finish(both);
}

// Pointwise operations in one part, or, where axis 0 allows, in `parts`; matmuls with their rows on all tiles.
RegionPlan region_plan(const Graph& graph, uint32_t parts, int64_t block_k) {
  RegionPlan plan;
  for (const Op& op : graph.ops()) {
    if (std::holds_alternative<Pointwise>(op.attributes)) {
      const Shape& shape = graph.type(graph.result(op)).shape;
      int64_t rows = 1;
      for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
      plan.ops.emplace_back(SplitPlan{0, rows < parts ? 1 : parts});
    } else if (std::holds_alternative<Matmul>(op.attributes)) {
      const Shape& shape = graph.type(graph.result(op)).shape;
      MatmulPlan matmul{.grid_m = static_cast<uint32_t>(shape[0]), .block_n = shape[1], .block_k = block_k};
      plan.ops.emplace_back(matmul);
    } else if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      plan.ops.emplace_back(RepeatPlan{{region_plan(*repeat->body, 1, block_k)}});
    } else {
      plan.ops.emplace_back(NoPlan{});
    }
  }
  plan.outputs.resize(graph.outputs().size());
  return plan;
}

Result<TileGraph> expanded(GraphBuilder builder, uint32_t tiles, int64_t block_k = 1) {
  const Machine machine = islands(tiles);
  LOW_TRY(const Graph graph, std::move(builder).finish());
  const Plan plan{machine.name, machine.tiles, digest(graph), region_plan(graph, tiles, block_k)};
  LOW_TRY_VOID(verify(plan, graph, machine));
  return expand(graph, plan, machine);
}

std::shared_ptr<const Graph> body_of(GraphBuilder builder) {
  return std::make_shared<const Graph>(*std::move(builder).finish());
}

// w [2, 1, 8] is added as a whole, of which tile 0 wants row 0, and row by row in a Repeat, of which tile 0 wants row 0
// of each slice.
TEST(DistributedConstants, AreReadAsAWholeAndSliceBySlice) {
  GraphBuilder inner;
  const ValueId carried = inner.input("c", {DType::f32, {1, 8}}), slice = inner.input("w", {DType::f32, {1, 8}});
  inner.output("y", inner.pointwise(sum(), {{carried, slice}}));
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 1, 8}}), c = builder.input("c", {DType::f32, {1, 8}});
  const ValueId w = builder.constant(random_tensor(DType::f32, {2, 1, 8}, 1));
  builder.output("whole", builder.pointwise(sum(), {{x, w}}));
  const Repeat repeat{
      .count = 2, .carried = 1, .invariant = 0, .iterated = 1, .collected = 0, .body = body_of(std::move(inner))};
  builder.output("sum", builder.repeat(repeat, {{c, w}})[0]);
  const Result<TileGraph> graph = expanded(std::move(builder), 2);
  ASSERT_TRUE(graph) << graph.error().message;
  // Rows 0 and 1, one on each tile, and both rows on tile 0.
  std::vector<int64_t> sizes;
  for (const ConstantBox& constant : graph->constants()) sizes.push_back(constant.elements());
  EXPECT_THAT(sizes, testing::UnorderedElementsAre(8, 8, 16));
}

// Two values that step through w, one with the outer and one with the inner Repeat, are cut in the same places for
// products; their sum, on tile 0, needs what tile 1 has of both.
TEST(DistributedConstants, ThatStepWithDifferentRepeatsTravelApart) {
  const Type matrix{DType::f32, {128, 128}}, rows{DType::f32, {2, 128}}, both{DType::f32, {2, 128, 128}};
  GraphBuilder inner;
  const ValueId x = inner.input("x", rows), a = inner.input("a", matrix), b = inner.input("b", matrix);
  inner.output("next", inner.pointwise(
                           sum(), {{inner.matmul({}, {{x, a}}, DType::f32), inner.matmul({}, {{x, b}}, DType::f32)}}));
  inner.output("sum", inner.pointwise(sum(), {{a, b}}));
  GraphBuilder outer;
  const ValueId y = outer.input("y", rows), all = outer.input("all", both), one = outer.input("one", matrix);
  const Repeat through{
      .count = 2, .carried = 1, .invariant = 1, .iterated = 1, .collected = 1, .body = body_of(std::move(inner))};
  const std::vector<ValueId> results = outer.repeat(through, {{y, one, all}});
  outer.output("next", results[0]);
  outer.output("sums", results[1]);
  GraphBuilder builder;
  const ValueId w = builder.constant(random_tensor(DType::f32, both.shape, 1));
  const Repeat around{
      .count = 2, .carried = 1, .invariant = 1, .iterated = 1, .collected = 1, .body = body_of(std::move(outer))};
  for (const ValueId result : builder.repeat(around, {{builder.input("x", rows), w, w}})) builder.output("", result);
  const Result<TileGraph> graph = expanded(std::move(builder), 2, 128);
  ASSERT_TRUE(graph) << graph.error().message;
  bool found = false;
  // In one superstep, exchanges of one box with the terms of either Repeat.
  for (const Superstep& superstep : graph->supersteps()) {
    std::vector<uint32_t> levels;
    for (uint32_t i = 0; i < superstep.exchanges.count; ++i)
      for (const Term& term : graph->terms(graph->exchanges()[superstep.exchanges.begin + i].source))
        levels.push_back(term.level);
    std::ranges::sort(levels);
    found = found || levels == std::vector<uint32_t>{0, 1};
  }
  EXPECT_TRUE(found);
}

// 4096 products of a row and a column, each of 2^20 elements in panels of one: 2^32 runs of three operands.
TEST(DistributedExpansion, RefusesPlansOfTooManyRuns) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f8e4m3fn, {4096, 1, 1 << 20}}),
                y = builder.input("y", {DType::f8e4m3fn, {4096, 1 << 20, 1}});
  builder.output("z", builder.matmul({}, {{x, y}}, DType::f32));
  const Machine machine = islands(1);
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_TRUE(graph) << graph.error().message;
  Plan plan{machine.name, machine.tiles, digest(*graph), {}};
  MatmulPlan matmul;
  plan.region.ops = {NoPlan{}, NoPlan{}, matmul, NoPlan{}};
  plan.region.outputs.resize(1);
  const Result<void> verified = verify(plan, *graph, machine);
  ASSERT_TRUE(verified) << verified.error().message;
  const Result<TileGraph> expansion = expand(*graph, plan, machine);
  ASSERT_FALSE(expansion);
  EXPECT_EQ(expansion.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(expansion.error().message, HasSubstr("12884901888"));
}

// A number for each of 2^25 rows and as many keys says where the diagonal stands.
TEST(DistributedExpansion, RefusesCausalAttentionOfTooManyRows) {
  constexpr int64_t length = max_causal_mask_elements / 2;
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f8e4m3fn, {1, length, 1}});
  builder.output("y", builder.attention({.diagonal = 0}, {{x, x, x}}, DType::f8e4m3fn));
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_TRUE(graph) << graph.error().message;
  for (const std::string_view name : {"host", "ipu21"}) {
    const Machine machine = *find_machine(name);
    Plan plan{machine.name, machine.tiles, digest(*graph), {}};
    plan.region.ops = {NoPlan{}, AttentionPlan{.block_m = length, .block_n = length}, NoPlan{}};
    plan.region.outputs.resize(1);
    const Result<void> verified = verify(plan, *graph, machine);
    ASSERT_TRUE(verified) << verified.error().message;
    const Result<TileGraph> expansion = expand(*graph, plan, machine);
    ASSERT_FALSE(expansion);
    EXPECT_EQ(expansion.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(expansion.error().message, HasSubstr("33554432 rows and 33554432 keys"));
  }
}

}  // namespace
}  // namespace low
