// Small models that ask for much: each is refused by a sentence, or takes what can be counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "compiler/test_support.h"

namespace low {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Graph finished(GraphBuilder&& builder) {
  auto graph = std::move(builder).finish();
  LOW_CHECK(graph.has_value());
  return std::move(*graph);
}

Result<PlannedProgram> planned(const Graph& model, const Machine& machine) {
  static ThreadPool pool(2);
  LOW_TRY(const Graph graph, graph_for(machine, model, {}));
  return plan_program(graph, machine, {}, pool);
}

void expect_refused(const Result<PlannedProgram>& result, std::string_view operation) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::unsupported) << result.error().message;
  EXPECT_THAT(result.error().message, AllOf(HasSubstr(operation), HasSubstr("are supported")));
}

// What expansion counts, of the finished graph: recipients, sources, ends of copies. Operands of runs and places come
// on top.
double pieces_of(const Activity& activity) {
  return static_cast<double>(activity.recipients + activity.exchanges + 2 * activity.copies + activity.runs);
}

// [2] to [2^31 + 2], one period after the other.
TEST(Limits, APadThatWrapsABillionTimes) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2}});
  const ValueId operands[] = {x};
  builder.output("y", builder.pad({.mode = Pad::Mode::wrap, .before = {0}}, operands, {int64_t{1} << 31}, "around"));
  const Graph graph = finished(std::move(builder));
  for (const std::string_view machine : {"host", "mi300x"})
    expect_refused(planned(graph, test::machine_named(machine)), "pad \"around\"");
  // Without global memory it is more than the tiles hold.
  const auto tiles = planned(graph, test::machine_named("ipu21"));
  ASSERT_FALSE(tiles.has_value());
  EXPECT_EQ(tiles.error().kind, ErrorKind::unsupported) << tiles.error().message;
}

// Both axes wrap a few thousand times: millions of boxes, of which each part counts its own.
TEST(Limits, APadOfManyBoxes) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 2}});
  const ValueId operands[] = {x};
  builder.output("y", builder.pad({.mode = Pad::Mode::reflect, .before = {0, 0}}, operands, {5000, 5000}, "tiled"));
  expect_refused(planned(finished(std::move(builder)), test::machine_named("host")), "pad \"tiled\"");
}

// A small machine without global memory, whose tiles hold much.
Machine few_tiles(uint32_t tiles) {
  Machine machine = test::machine_named("ipu21");
  machine.tiles = tiles;
  machine.clusters = 1;
  machine.tile_memory_bytes = uint64_t{1} << 30;
  return machine;
}

// Rows of 3 to rows of 5: two or three pieces for each row of 5.
Graph ragged(int64_t fifteens) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::u8, {5 * fifteens, 3}});
  builder.output("y", builder.reshape(x, {3 * fifteens, 5}, "ragged"));
  return finished(std::move(builder));
}

TEST(Limits, RowsOfOddLengths) {
  const Machine machine = few_tiles(4);
  const auto some = planned(ragged(1000), machine);
  ASSERT_TRUE(some.has_value()) << some.error().message;
  EXPECT_GE(pieces_of(some->finalists[some->chosen].cost.in_graph), 7000);  // 3,000 rows of 5 in 7,000 pieces
  EXPECT_LE(pieces_of(some->finalists[some->chosen].cost.in_graph), ExpansionLimits().pieces(machine.tiles));
  expect_refused(planned(ragged(400'000), machine), "reshape \"ragged\"");
}

// Each row of the sum wants another row of the operand.
TEST(Limits, OperandsThatRepeatInRows) {
  const Machine machine = few_tiles(4);
  const auto sum = [](int64_t rows) {
    GraphBuilder builder;
    const ValueId operands[] = {builder.input("x", {DType::f32, {rows, 3, 2}}),
                                builder.input("y", {DType::f32, {3, 2}})};
    ExprBuilder expr(2);
    const uint16_t result = expr.binary(ExprOp::add, expr.input(0, DType::f32), expr.input(1, DType::f32));
    builder.output("z", builder.pointwise(std::move(expr).finish(result), operands, "sum"));
    return finished(std::move(builder));
  };
  const auto some = planned(sum(1000), machine);
  ASSERT_TRUE(some.has_value()) << some.error().message;
  EXPECT_GE(pieces_of(some->finalists[some->chosen].cost.in_graph), 3000);
  expect_refused(planned(sum(1'000'000), machine), "pointwise \"sum\"");
}

// 2^30 products of nothing: there is nothing to make, and nothing is looked at 2^30 times.
TEST(Limits, ManyBatchesOfNothing) {
  for (const Machine& machine : {test::machine_named("host"), test::machine_named("mi300x"), few_tiles(4)}) {
    GraphBuilder builder;
    const ValueId operands[] = {builder.input("a", {DType::f32, {int64_t{1} << 30, 0, 1}}),
                                builder.input("b", {DType::f32, {int64_t{1} << 30, 1, 1}})};
    builder.output("y", builder.matmul({}, operands, DType::f32));
    const auto nothing = planned(finished(std::move(builder)), machine);
    EXPECT_TRUE(nothing.has_value()) << machine.name << ": " << nothing.error().message;
  }
}

// The body's matmul has 2^26 batches; where they lie is asked before it is expanded.
TEST(Limits, ManyBatchesInsideOfARepeat) {
  const Type type{DType::f32, {int64_t{1} << 26, 1, 1}};
  GraphBuilder body;
  const ValueId operands[] = {body.input("a", type), body.input("b", type)};
  body.output("next", body.matmul({}, operands, DType::f32, "products"));
  Repeat repeat{
      .count = 3, .carried = 1, .invariant = 1, .body = std::make_shared<const Graph>(finished(std::move(body)))};
  GraphBuilder builder;
  const ValueId inputs[] = {builder.input("a", type), builder.input("b", type)};
  builder.output("y", builder.repeat(std::move(repeat), inputs)[0]);
  const Graph graph = finished(std::move(builder));
  for (const Machine& machine : {test::machine_named("mi300x"), few_tiles(4)}) {
    const auto result = planned(graph, machine);
    ASSERT_FALSE(result.has_value()) << machine.name;
    EXPECT_EQ(result.error().kind, ErrorKind::unsupported) << result.error().message;
  }
}

}  // namespace
}  // namespace low
