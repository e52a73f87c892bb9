// The search over reductions, normalizations, gathers, concat and pad.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/search/op_cost.h"
#include "compiler/search/search.h"
#include "compiler/search/test_graphs.h"

namespace low {
namespace {

using ::testing::HasSubstr;

Machine host() { return *find_machine("host"); }

Graph softmax_graph(const Shape& shape, const Shape& axes) {
  GraphBuilder builder;
  Rowwise softmax;
  softmax.axes = axes;
  const ValueId operands[] = {builder.input("x", {DType::f32, shape})};
  builder.output("y", builder.rowwise(softmax, operands, DType::f32));
  return test::finish(std::move(builder));
}

TEST(SearchFamilies, NormalizedAxesAreNotCut) {
  ThreadPool pool(0);
  const Graph graph = softmax_graph({64, 4096}, {1});
  const auto found = search(graph, host(), {}, pool);
  ASSERT_TRUE(found) << found.error().message;
  for (const Finalist& finalist : found->finalists) {
    const auto& split = std::get<SplitPlan>(finalist.plan.region.ops[1]);
    EXPECT_EQ(split.axis, 0U);
    EXPECT_TRUE(verify(finalist.plan, graph, host()));
  }
  EXPECT_GT(std::get<SplitPlan>(found->finalists[0].plan.region.ops[1]).parts, 1U);
  // A plan that cuts the other axis.
  Plan plan = found->finalists[0].plan;
  plan.region.ops[1] = SplitPlan{1, 4};
  const auto refused = verify(plan, graph, host());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("4 parts of an axis of 1"));
}

TEST(SearchFamilies, EverythingInOnePartWhereEverythingIsReduced) {
  GraphBuilder builder;
  Reduce reduce;
  reduce.axes = {0, 1};
  const ValueId operands[] = {builder.input("x", {DType::f32, {300, 500}})};
  builder.output("y", builder.reduce(reduce, operands, DType::f32));
  ThreadPool pool(0);
  const auto found = search(test::finish(std::move(builder)), host(), {}, pool);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->finalists.size(), 1U);
  EXPECT_EQ(std::get<SplitPlan>(found->finalists[0].plan.region.ops[1]), (SplitPlan{0, 1}));
}

TEST(SearchFamilies, ConcatAndPadAreCopies) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {30, 50}});
  const ValueId pair[] = {x, x};
  Pad pad;
  pad.mode = Pad::Mode::edge;
  pad.before = {1, 1};
  const ValueId joined[] = {builder.concat(pair, 1)};
  builder.output("y", builder.pad(pad, joined, {1, 1}));
  const Graph graph = test::finish(std::move(builder));
  ThreadPool pool(0);
  const auto found = search(graph, host(), {}, pool);
  ASSERT_TRUE(found) << found.error().message;
  Plan plan = found->finalists[0].plan;
  EXPECT_TRUE(std::get<MovementPlan>(plan.region.ops[1]).copy);
  EXPECT_TRUE(std::get<MovementPlan>(plan.region.ops[2]).copy);
  EXPECT_TRUE(verify(plan, graph, host()));
  plan.region.ops[1] = MovementPlan{};
  EXPECT_THAT(verify(plan, graph, host()).error().message, HasSubstr("a view, which it cannot be"));
}

TEST(SearchFamilies, CostsByHand) {
  Machine machine;
  machine.vector_flop_per_cycle = 2;
  machine.vector_lanes = 4;
  machine.across_bytes_per_cycle = 4;
  machine.device_bytes_per_cycle = 1000;
  machine.command_cycles = 7;
  machine.launch_cycles = 100;
  GraphBuilder builder;
  Reduce reduce;
  reduce.axes = {1};
  const ValueId operands[] = {builder.input("x", {DType::f16, {6, 8}})};
  const ValueId y = builder.reduce(reduce, operands, DType::f32);
  builder.output("y", y);
  const Graph graph = test::finish(std::move(builder));
  const Op& op = graph.op(OpId(1));
  const Layout rows[] = {row_major({6, 8})}, columns[] = {{Strides{1, 6}, 0}}, neither[] = {{Strides{16, 2}, 0}};
  // A part is 3 rows of 8 f16 and 3 f32: 60 bytes at 4 a cycle; 24 elements cost a conversion and a sum each, 2 a
  // cycle.
  const Cost cost = split_cost(machine, split_work(graph, op, rows), {0, 2});
  EXPECT_DOUBLE_EQ(cost.memory, 15);
  EXPECT_DOUBLE_EQ(cost.compute, 24);
  EXPECT_DOUBLE_EQ(cost.launch, 107);
  EXPECT_DOUBLE_EQ(split_cost(machine, split_work(graph, op, columns), {0, 2}).memory, 15);
  EXPECT_GT(split_cost(machine, split_work(graph, op, neither), {0, 2}).memory, 15);
}

}  // namespace
}  // namespace low
