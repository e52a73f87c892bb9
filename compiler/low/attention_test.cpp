// Contracts of attention: text, what is refused, what a run may write in place, cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/kernels/contract.h"
#include "compiler/low/hand_made.h"
#include "compiler/low/low.h"

namespace low {
namespace {

using hand_made::Maker;
using hand_made::SizedContract;
using testing::HasSubstr;

const std::vector<Access> rows{Access::strided, Access::unit};

SizedContract contract(const Shape& extents, AttentionKernel kind, size_t extras = 0) {
  SizedContract c;
  kind.d = extents[2];
  kind.dv = extents[3];
  c.family = kind;
  c.extents = extents;
  c.operands.assign(3, {DType::f32, rows});
  if (kind.masked) c.operands.push_back({DType::boolean, rows});
  if (kind.causal) c.operands.push_back({DType::i32, {Access::unit}});
  if (kind.continues) c.operands.push_back({DType::f32, rows});
  c.operands.insert(c.operands.end(), extras + 1, {DType::f32, rows});
  if (kind.partial) return c;
  ExprBuilder expr(static_cast<uint16_t>(extras + 1));
  uint16_t sum = expr.input(0, DType::f32);
  for (uint16_t i = 1; i <= extras; ++i) sum = expr.binary(ExprOp::add, sum, expr.input(i, DType::f32));
  c.expr = std::move(expr).finish(sum);
  return c;
}

// A graph with one run of `c`; each operand is an input of its own but for the last, which is the output or, if
// `in_place` is one, lies where that operand lies.
Result<TileGraph> graph_of(const SizedContract& c, size_t in_place = SIZE_MAX) {
  Maker make(1);
  std::vector<View> views;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Shape extents = operand_extents(c, c.extents, i);
    const bool result = i + 1 == c.operands.size();
    if (result && in_place != SIZE_MAX) {
      views.push_back(
          make.view(views[in_place].allocation, extents, operand_extents(c, c.extents, in_place).row_major_strides()));
      break;
    }
    const AllocationId allocation = result ? make.output("y", c.operands[i].dtype, extents)
                                           : make.input("x" + std::to_string(i), c.operands[i].dtype, extents);
    views.push_back(make.view(allocation, extents, extents.row_major_strides()));
  }
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.run(0, make.builder.contract(c), views);
  make.builder.end_superstep();
  make.builder.end_region();
  return make.finish();
}

TEST(Attention, OperandsAndTheirExtents) {
  const SizedContract c = contract({5, 9, 4, 7}, {.masked = true, .causal = true, .continues = true, .partial = true});
  const AttentionOperands known = c.as<AttentionKernel>()->named_operands();
  EXPECT_EQ(known.mask, 3U);
  EXPECT_EQ(known.diagonal, 4U);
  EXPECT_EQ(known.state, 5U);
  EXPECT_EQ(known.extras, 6U);
  const Shape expected[] = {{5, 4}, {9, 4}, {9, 7}, {5, 9}, {1}, {5, 9}, {5, 9}};  // dv + 2 is 9, too
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(operand_extents(c, c.extents, i), expected[i]) << i;
  const SizedContract last = contract({5, 9, 4, 6}, {.continues = true}, 1);
  EXPECT_EQ(operand_extents(last, last.extents, 3), (Shape{5, 8}));
  EXPECT_EQ(operand_extents(last, last.extents, 4), (Shape{5, 6}));
  EXPECT_EQ(operand_extents(last, last.extents, 5), (Shape{5, 6}));
  EXPECT_EQ(expr_operands(last).leading, 1U);
  EXPECT_EQ(expr_operands(last).first, 4U);
  EXPECT_EQ(matrix_flop(c, c.extents), 2.0 * 5 * 9 * (4 + 7));
}

TEST(Attention, TextRoundTrip) {
  for (unsigned flags = 0; flags < 32; ++flags) {
    AttentionKernel kind{.d = 4,
                         .dv = 7,
                         .masked = (flags & 1) != 0,
                         .causal = (flags & 2) != 0,
                         .continues = (flags & 4) != 0,
                         .partial = (flags & 8) != 0,
                         .empty_is_zero = (flags & 16) != 0,
                         .scale = 0.1,  // no short binary fraction
                         .softcap = flags % 3 == 0 ? 0 : 30.7};
    if (flags % 5 == 0) kind.masked_score = -3e38;
    const Result<TileGraph> graph = graph_of(contract({5, 9, 4, 7}, kind, kind.partial ? 0 : 1));
    ASSERT_TRUE(graph) << graph.error().message;
    const std::string text = print(*graph);
    const Result<TileGraph> again = parse_tile_graph(text, {});
    ASSERT_TRUE(again) << again.error().message << text;
    EXPECT_TRUE(*again == *graph) << text;
    EXPECT_EQ(print(*again), text);
    EXPECT_EQ(*again->contracts()[0].as<AttentionKernel>(), kind) << text;
  }
}

TEST(Attention, ContractsThatDifferInOneFieldAreTwo) {
  TileGraphBuilder builder("host", 1);
  const auto id = [&](AttentionKernel kind) { return builder.contract(contract({5, 9, 4, 7}, kind)); };
  const ContractId plain = id({});
  EXPECT_EQ(id({}), plain);
  EXPECT_NE(id({.scale = 2}), plain);
  EXPECT_NE(id({.softcap = 2}), plain);
  EXPECT_NE(id({.empty_is_zero = true}), plain);
  EXPECT_NE(id({.masked_score = -1}), plain);
}

TEST(Attention, RefusesBrokenContracts) {
  const KernelContract good = contract({5, 9, 4, 7}, {.masked = true, .causal = true, .continues = true}, 1);
  EXPECT_EQ(problem(good), "");
  EXPECT_EQ(run_problem(good, {5, 9, 4, 7}), "");
  for (const Shape& extents : {Shape{5, 0, 4, 7}, Shape{-1, 9, 4, 7}, Shape{int64_t{1} << 40, int64_t{1} << 40, 4, 7}})
    EXPECT_THAT(run_problem(good, extents), HasSubstr("out of range"));
  struct Broken {
    std::function<void(KernelContract&)> change;
    std::string message;
  };
  const Broken table[] = {
      {[](KernelContract& c) { c.get<AttentionKernel>().d = 0; }, "head sizes 0 and 7"},
      {[](KernelContract& c) { c.get<AttentionKernel>().dv = INT64_MAX; }, "head sizes 4 and 9223372036854775807"},
      {[](KernelContract& c) { c.operands.resize(6); }, "6 operands, expected at least 7"},
      {[](KernelContract& c) { c.get<AttentionKernel>().partial = true; }, "8 operands, expected 7"},
      {[](KernelContract& c) { c.operands[2].access.pop_back(); }, "operand 2 has 1 axes, expected 2"},
      {[](KernelContract& c) { c.operands[4].access = rows; }, "operand 4 has 2 axes, expected 1"},
      {[](KernelContract& c) { c.operands[1].dtype = DType::i8; }, "operand 1 of i8"},
      {[](KernelContract& c) { c.operands[3].dtype = DType::u8; }, "mask of u8"},
      {[](KernelContract& c) { c.operands[4].dtype = DType::i64; }, "diagonal of i64"},
      {[](KernelContract& c) { c.operands[5].dtype = DType::f16; }, "state of f16, expected f32"},
      {[](KernelContract& c) { c.get<AttentionKernel>().accumulate = DType::f16; }, "cannot accumulate in f16"},
      {[](KernelContract& c) { c.get<AttentionKernel>().math = DType::i8; }, "cannot multiply in i8"},
      {[](KernelContract& c) { c.get<AttentionKernel>().math = DType::f64; },
       "cannot multiply in f64 and accumulate in f32"},
      {[](KernelContract& c) { c.get<AttentionKernel>().scale = HUGE_VAL; }, "scale that is not finite"},
      {[](KernelContract& c) { c.get<AttentionKernel>().softcap = -1; }, "softcap that is negative"},
      {[](KernelContract& c) { c.get<AttentionKernel>().masked_score = HUGE_VAL; }, "masked_score of inf"},
      {[](KernelContract& c) { c.expr = {}; }, "no nodes"},
      {[](KernelContract& c) { c.operands.back().dtype = DType::f16; }, "the result is f16"},
      {[](KernelContract& c) { c.operands[6].dtype = DType::f16; }, "the operand is f16"},
  };
  for (const Broken& broken : table) {
    KernelContract c = good;
    broken.change(c);
    EXPECT_THAT(problem(c), HasSubstr(broken.message));
  }
  KernelContract partial = contract({5, 9, 4, 7}, {.partial = true});
  EXPECT_EQ(problem(partial), "");
  partial.operands.back().dtype = DType::f64;
  EXPECT_THAT(problem(partial), HasSubstr("state of f64, expected f32"));
  partial.get<AttentionKernel>().accumulate = DType::f64;
  EXPECT_EQ(problem(partial), "");
  partial.expr = good.expr;
  EXPECT_THAT(problem(partial), HasSubstr("has an expression"));
}

TEST(Attention, WhatMayBeUpdatedInPlace) {
  const SizedContract update = contract(
      {5, 9, 9, 7}, {.masked = true, .continues = true, .partial = true});  // all of q, mask and state are [5, 9]
  EXPECT_TRUE(graph_of(update, 4));
  EXPECT_THAT(graph_of(update, 0).error().message, HasSubstr("overlaps operand 0"));
  SizedContract masked = update;
  masked.operands[3].dtype = DType::f32;
  EXPECT_THAT(graph_of(masked, 3).error().message, HasSubstr("overlaps operand 3"));
  const SizedContract extra = contract({5, 9, 7, 7}, {}, 1);
  EXPECT_TRUE(graph_of(extra, 3));
  EXPECT_THAT(graph_of(extra, 0).error().message, HasSubstr("overlaps operand 0"));
}

TEST(Attention, CostCountsBothProducts) {
  const Machine machine = *find_machine("host");
  const Result<TileGraph> graph = graph_of(contract({48, 700, 64, 80}, {}));
  ASSERT_TRUE(graph) << graph.error().message;
  const CostReport report = cost_report(*graph, machine);
  EXPECT_EQ(report.flop, 2.0 * 48 * 700 * (64 + 80));
  // At least what the products take at the machine's rate, and less than twice that.
  const double products = report.flop / matmul_rate(machine, DType::f32, DType::f32).flop_per_cycle;
  EXPECT_GE(report.total.items.compute, products);
  EXPECT_LE(report.total.items.compute, 2 * products);
}

}  // namespace
}  // namespace low
