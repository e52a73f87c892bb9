// Movements and gathers without global memory: how many transfers they take. What they move, compile_test judges.
#include <gtest/gtest.h>

#include "compiler/low/low.h"

namespace low {
namespace {

Machine islands(uint32_t tiles) {
  Machine machine = *find_machine("ipu21");
  machine.tiles = tiles;
  return machine;
}

// `identity` operations before the one that is looked at spread its operands over the tiles.
ValueId spread(GraphBuilder& builder, const std::string& name, const Shape& shape) {
  const ValueId x = builder.input(name, {DType::f32, shape});
  ExprBuilder expr(1);
  const uint16_t value = expr.input(0, DType::f32);
  const Expr twice = std::move(expr).finish(expr.binary(ExprOp::add, value, value));
  return builder.pointwise(twice, {&x, 1});
}

struct Transfers {
  size_t exchanges = 0, copies = 0, runs = 0;
};

// Pointwise operations, gathers and movements cut along axis 0 into as many parts as there are tiles.
Transfers transfers_of(GraphBuilder builder, uint32_t tiles) {
  const Machine machine = islands(tiles);
  const Result<Graph> graph = std::move(builder).finish();
  EXPECT_TRUE(graph) << graph.error().message;
  Plan plan{machine.name, machine.tiles, digest(*graph), {}};
  for (const Op& op : graph->ops()) {
    const bool fixed = std::holds_alternative<Input>(op.attributes) ||
                       std::holds_alternative<Constant>(op.attributes) || std::holds_alternative<Output>(op.attributes);
    const bool splits =
        std::holds_alternative<Pointwise>(op.attributes) || std::holds_alternative<Gather>(op.attributes);
    const SplitPlan split{0, tiles};
    plan.region.ops.push_back(fixed ? OpPlan(NoPlan{}) : splits ? OpPlan(split) : OpPlan(MovementPlan{true, split}));
  }
  plan.region.outputs.resize(graph->outputs().size());
  const Result<void> verified = verify(plan, *graph, machine);
  EXPECT_TRUE(verified) << verified.error().message;
  const Result<TileGraph> expanded = expand(*graph, plan, machine);
  EXPECT_TRUE(expanded) << expanded.error().message;
  return {expanded->exchanges().size(), expanded->copies().size(), expanded->runs().size()};
}

// Each of 8 tiles has 8 rows of 64: from each to each other one box, on each one copy. In and out: 8 each.
TEST(DistributedMovement, ATransposeIsOneBoxForEachPairOfTiles) {
  GraphBuilder builder;
  builder.output("y", builder.transpose(spread(builder, "x", {64, 64}), {1, 0}));
  const Transfers transfers = transfers_of(std::move(builder), 8);
  EXPECT_EQ(transfers.exchanges, 8u * 7 + 8 + 8);
  EXPECT_EQ(transfers.copies, 8u);
}

// [4, 6, 10] to [6, 4, 10]: parts of 3 rows are half of an outer row, before and after.
TEST(DistributedMovement, AxesInFrontOfRowsMoveInBoxes) {
  GraphBuilder builder;
  builder.output("y", builder.transpose(spread(builder, "x", {4, 6, 10}), {1, 0, 2}));
  const Transfers transfers = transfers_of(std::move(builder), 8);
  // Each part (row b of 6 and 3/4 of the next one in the result) needs no more than a box from each tile that has one.
  EXPECT_LE(transfers.exchanges + transfers.copies, 8u * 8 + 8 + 8);
  EXPECT_GE(transfers.exchanges, 8u + 8);
}

// Rows of 8 become 4 rows of 2: tile i has row i before and rows 4 i … afterwards.
TEST(DistributedMovement, AReshapeThatCutsRowsStaysOnItsTile) {
  GraphBuilder builder;
  builder.output("y", builder.reshape(spread(builder, "x", {8, 8}), {32, 2}));
  const Transfers transfers = transfers_of(std::move(builder), 8);
  EXPECT_EQ(transfers.exchanges, 8u + 8);
  EXPECT_EQ(transfers.copies, 8u);
}

// Along the columns each part is made of two boxes that its own tile has.
TEST(DistributedMovement, AConcatOfColumnsStaysOnItsTiles) {
  GraphBuilder builder;
  const ValueId parts[] = {spread(builder, "x", {16, 3}), spread(builder, "z", {16, 5})};
  builder.output("y", builder.concat(parts, 1));
  const Transfers transfers = transfers_of(std::move(builder), 8);
  EXPECT_EQ(transfers.exchanges, 2u * 8 + 8);
  EXPECT_EQ(transfers.copies, 2u * 8);
}

// 6 rows behind 10, on 8 tiles: 2 rows a tile, no part has rows of both. x lies as 5 parts of 2 rows, z as 6 of 1.
TEST(DistributedMovement, AConcatOfRowsTakesWholeParts) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {10, 7}}), z = builder.input("z", {DType::f32, {6, 7}});
  const ValueId parts[] = {x, z};
  builder.output("y", builder.concat(parts, 0));
  const Transfers transfers = transfers_of(std::move(builder), 8);
  EXPECT_EQ(transfers.exchanges, 8u + 8);  // in, and out
}

// 3 rows of 5 positions on 4 tiles: parts of 4 rows of the result are one or two boxes of its axes, a run each.
TEST(DistributedGather, OneRunForEachBoxOfRows) {
  GraphBuilder builder;
  const ValueId data = builder.input("data", {DType::f32, {11, 6}});
  const ValueId indices = builder.input("indices", {DType::i64, {3, 5}});
  builder.output("y", builder.gather({.mode = Gather::Mode::axis, .axis = 0}, data, indices));
  const Transfers transfers = transfers_of(std::move(builder), 4);
  // Rows 0…3 | 4, 5…7 | 8…9, 10…11 | 12…14
  EXPECT_EQ(transfers.runs, 1u + 2 + 2 + 1);
}

}  // namespace
}  // namespace low
