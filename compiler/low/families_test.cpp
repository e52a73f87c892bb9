// The families with outer and inner axes, concat and pad: what plans expand to, its text, and what verify() refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/graph/passes/passes.h"
#include "compiler/low/hand_made.h"
#include "compiler/low/low.h"

namespace low {
namespace {

using hand_made::Maker;
using testing::HasSubstr;

Machine host() { return *find_machine("host"); }

// All operations in one part, movements copied.
Plan simple_plan(const Graph& graph, const Machine& machine) {
  Plan plan{machine.name, machine.tiles, digest(graph), {}};
  for (const Op& op : graph.ops()) {
    const bool fixed = std::holds_alternative<Input>(op.attributes) ||
                       std::holds_alternative<Constant>(op.attributes) || std::holds_alternative<Output>(op.attributes);
    const bool copied = std::holds_alternative<Concat>(op.attributes) || std::holds_alternative<Pad>(op.attributes);
    if (fixed) {
      plan.region.ops.emplace_back(NoPlan{});
    } else if (copied) {
      plan.region.ops.emplace_back(MovementPlan{true, {}});
    } else if (std::holds_alternative<Reshape>(op.attributes) || std::holds_alternative<Transpose>(op.attributes)) {
      plan.region.ops.emplace_back(MovementPlan{});
    } else {
      plan.region.ops.emplace_back(SplitPlan{});
    }
  }
  plan.region.outputs.resize(graph.outputs().size());
  return plan;
}

Result<TileGraph> expanded(GraphBuilder builder) {
  const Machine machine = host();
  LOW_TRY(const Graph graph, std::move(builder).finish());
  const Plan plan = simple_plan(graph, machine);
  LOW_TRY_VOID(verify(plan, graph, machine));
  LOW_TRY(TileGraph result, expand(graph, plan, machine));
  const std::string text = print(result);
  ConstantsByHash constants;
  for (const auto& constant : result.constants())
    constants.emplace_back(constant_hash(*constant.tensor()), constant.tensor());
  LOW_TRY(const TileGraph again, parse_tile_graph(text, constants));
  EXPECT_EQ(print(again), text);
  EXPECT_TRUE(again == result) << text;
  EXPECT_EQ(cost_report(result, machine).supersteps.size(), result.supersteps().size());
  return result;
}

Expr doubled() {
  ExprBuilder expr(1);
  const uint16_t x = expr.input(0, DType::f32);
  return std::move(expr).finish(expr.binary(ExprOp::add, x, x));
}

TEST(ExpandConcat, ProducersWriteTheirPart) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {3, 4}}), z = builder.input("z", {DType::f32, {3, 2}});
  const ValueId one[] = {x}, other[] = {z};
  const ValueId a = builder.pointwise(doubled(), one), b = builder.pointwise(doubled(), other);
  const ValueId inner[] = {a, b};
  const ValueId pair = builder.concat(inner, 1);
  const ValueId outer[] = {pair, z, pair};  // read twice: stays where it is
  builder.output("y", builder.concat(outer, 1));
  const Result<TileGraph> graph = expanded(std::move(builder));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->runs().size(), 2U);    // each into its columns of the inner concat
  EXPECT_EQ(graph->copies().size(), 3U);  // pair, z, pair
  EXPECT_EQ(graph->allocations().size(), 4U);
}

TEST(ExpandConcat, NestedConcatsAndReshapesAreWrittenInPlace) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {3, 4}});
  const ValueId one[] = {x};
  const ValueId a = builder.pointwise(doubled(), one), b = builder.pointwise(doubled(), one);
  const ValueId c = builder.reshape(builder.pointwise(doubled(), one), {6, 2});
  const ValueId inner[] = {a, b};
  const ValueId pair[] = {builder.reshape(builder.concat(inner, 0), {12, 2}), c};
  builder.output("y", builder.concat(pair, 0));
  const Result<TileGraph> graph = expanded(std::move(builder));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->runs().size(), 3U);
  EXPECT_EQ(graph->copies().size(), 0U);
  EXPECT_EQ(graph->allocations().size(), 2U);  // x and y
}

TEST(ExpandPad, ConstantFillsAndOtherModesCopy) {
  for (const Pad::Mode mode : {Pad::Mode::constant, Pad::Mode::edge, Pad::Mode::reflect, Pad::Mode::wrap}) {
    GraphBuilder builder;
    std::vector<ValueId> operands{builder.input("x", {DType::f32, {3, 4}})};
    if (mode == Pad::Mode::constant) operands.push_back(builder.input("fill", {DType::f32, {}}));
    Pad pad;
    pad.mode = mode;
    pad.before = {1, 2};
    builder.output("y", builder.pad(pad, operands, {2, 0}));
    const Result<TileGraph> graph = expanded(std::move(builder));
    ASSERT_TRUE(graph) << graph.error().message;
    // Constant: above, below, left. Edge: 3 pieces of rows, 2 of columns. Reflect of rows 1 | 0 1 2 | 1 0: up, down, …
    // as 1 0, 1 2, 1 0 read; of columns 2 1 | 0 1 2 3: down to 0, then up. Wrap: 2 | 0 1 2 | 0 1 and 2 3 | 0 1 2 3.
    if (mode == Pad::Mode::constant) {
      EXPECT_EQ(graph->runs().size(), 3U);
      EXPECT_EQ(graph->copies().size(), 1U);
    } else {
      EXPECT_EQ(graph->runs().size(), 0U);
      EXPECT_EQ(graph->copies().size(), 6U) << static_cast<int>(mode);  // 3 x 2 pieces
    }
  }
}

TEST(ExpandPad, RefusesMoreBoxesThanMakeSense) {
  GraphBuilder builder;
  const ValueId operands[] = {builder.input("x", {DType::f32, {2, 2}})};
  Pad pad;
  pad.mode = Pad::Mode::wrap;
  pad.before = {3000, 3000};  // 1,501 pieces of either axis
  builder.output("y", builder.pad(pad, operands, {0, 0}));
  const Result<TileGraph> graph = expanded(std::move(builder));
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().kind, ErrorKind::unsupported);
  EXPECT_NE(graph.error().message.find("are supported"), std::string::npos) << graph.error().message;
}

TEST(ExpandGroups, DenseAxesAreOne) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3, 4, 5}});
  Rowwise norm;
  norm.kind = Rowwise::Kind::layer_norm;
  norm.axes = {2, 3};
  const ValueId operands[] = {x};
  builder.output("y", builder.rowwise(norm, operands, DType::f32));
  Reduce reduce;
  reduce.axes = {0, 3};
  const ValueId transposed[] = {builder.transpose(x, {3, 1, 0, 2})};  // axes 0 and 3 are x's 3 and 2
  builder.output("z", builder.reduce(reduce, transposed, DType::f32));
  const Result<TileGraph> graph = expanded(std::move(builder));
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->contracts().size(), 2U);
  EXPECT_EQ(graph->extents(graph->runs()[0]), (Shape{6, 20}));
  EXPECT_EQ(inner_axes(graph->contracts()[0]), 1);
  // x is [2, 3 | 4, 5]: the reduced axes, in the order of x's strides, are one; so are the others in x, but not in the
  // result [3, 2].
  EXPECT_EQ(graph->extents(graph->runs()[1]), (Shape{2, 3, 20}));
  EXPECT_EQ(graph->contracts()[1].operands[0].access, (std::vector{Access::strided, Access::strided, Access::unit}));
}

TEST(ExpandGroups, Gathers) {
  GraphBuilder builder;
  const ValueId data = builder.input("data", {DType::f32, {7, 2, 3}});
  const ValueId indices = builder.input("i", {DType::i64, {4, 5}});
  builder.output("y", builder.gather({.axis = 0}, data, indices));
  const Result<TileGraph> graph = expanded(std::move(builder));
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->contracts().size(), 1U);
  const Shape extents = graph->extents(graph->runs()[0]);
  EXPECT_EQ(extents, (Shape{20, 6, 7}));  // indices, rest of data; the indexed axis
  EXPECT_EQ(operand_extents(graph->contracts()[0], extents, 0), (Shape{1, 6, 7}));
  EXPECT_EQ(operand_extents(graph->contracts()[0], extents, 1), (Shape{20, 6, 1}));
  EXPECT_EQ(operand_extents(graph->contracts()[0], extents, 2), (Shape{20, 6}));
}

// Models of other sizes have the same kernels: extents are not in contracts, but of products with few rows.
TEST(Contracts, AreSharedBySizes) {
  const auto contracts = [](int64_t m, int64_t n, int64_t k) {
    GraphBuilder builder;
    const ValueId a = builder.input("a", {DType::f32, {m, k}}), b = builder.input("b", {DType::f32, {k, n}});
    const ValueId product[] = {builder.matmul({}, std::vector{a, b}, DType::f32)};
    Rowwise softmax;
    softmax.axes = {1};
    const ValueId row[] = {builder.rowwise(softmax, product, DType::f32)};
    Reduce sum;
    sum.axes = {0};
    builder.output("y", builder.reduce(sum, row, DType::f32));
    const Graph graph = *std::move(builder).finish();
    Plan plan = simple_plan(graph, host());
    for (size_t i = 0; i < graph.ops().size(); ++i) {
      if (std::holds_alternative<Matmul>(graph.ops()[i].attributes))
        plan.region.ops[i] = MatmulPlan{.block_m = m / 2 + 1, .block_n = n, .block_k = 8};
    }
    const Result<TileGraph> tiles = expand(graph, plan, host());
    EXPECT_TRUE(tiles) << tiles.error().message;
    return std::vector(tiles->contracts().begin(), tiles->contracts().end());
  };
  const std::vector<KernelContract> some = contracts(41, 70, 9);
  EXPECT_EQ(some.size(), 3U);  // both blocks of the product are of one
  EXPECT_EQ(contracts(30, 81, 20), some);
  EXPECT_NE(contracts(4, 70, 9), some);
}

// A contract, broken.
TEST(VerifyGroups, RefusesBrokenContracts) {
  KernelContract good;
  good.family = ReduceKernel();
  good.operands = {{DType::f32, {Access::strided, Access::unit}}, {DType::f32, {Access::unit}}};
  ExprBuilder expr(1);
  good.expr = std::move(expr).finish(expr.input(0, DType::f32));
  const auto finish = [](const KernelContract& contract, bool overlapping = false) {
    Maker make(1);
    const AllocationId x = make.input("x", DType::f32, {24}), y = make.output("y", DType::f32, {24});
    make.builder.begin_region();
    make.builder.begin_superstep();
    const View result =
        contract.is<ReduceKernel>() ? make.line(overlapping ? x : y, 0, 4) : make.view(y, {4, 6}, {6, 1});
    make.run(0, make.builder.contract(contract), {make.view(x, {4, 6}, {6, 1}), result});
    make.builder.end_superstep();
    make.builder.end_region();
    return make.finish();
  };
  EXPECT_TRUE(finish(good));
  EXPECT_THAT(finish(good, true).error().message, HasSubstr("overlaps operand 0"));
  KernelContract bad = good;
  bad.get<ReduceKernel>().inner = 2;
  EXPECT_THAT(finish(bad).error().message, HasSubstr("2 inner axes of 2"));
  bad = good;
  bad.get<ReduceKernel>().kind = static_cast<Reduce::Kind>(6);
  EXPECT_THAT(finish(bad).error().message, HasSubstr("unknown kind"));
  bad = good;
  bad.get<ReduceKernel>().kind = Reduce::Kind::index_max;
  EXPECT_THAT(finish(bad).error().message, HasSubstr("the operand is i64"));
  bad = good;
  bad.get<ReduceKernel>().accumulate = DType::f16;
  EXPECT_THAT(finish(bad).error().message, HasSubstr("cannot accumulate in f16"));
  bad = good;
  ExprBuilder map(1);
  bad.get<ReduceKernel>().map = std::move(map).finish(map.convert(map.input(0, DType::f32), DType::f64));
  EXPECT_THAT(finish(bad).error().message, HasSubstr("its map gives f64"));
  bad = good;
  bad.family = CumulativeKernel();
  bad.operands[1].access = {Access::strided, Access::unit};
  EXPECT_THAT(finish(bad).error().message, HasSubstr("has an expression"));
  bad.expr = {};
  EXPECT_TRUE(finish(bad));
  bad.operands.push_back(bad.operands[0]);
  EXPECT_THAT(finish(bad).error().message, HasSubstr("expected 2"));
  bad = good;
  bad.family = GatherKernel();
  bad.expr = {};
  bad.operands.insert(bad.operands.begin() + 1, {DType::f32, {Access::unit, Access::broadcast}});
  EXPECT_THAT(finish(bad).error().message, HasSubstr("indices of f32"));
}

}  // namespace
}  // namespace low
