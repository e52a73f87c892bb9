// Attention whose matrix of scores has more elements than 64 bits count.
#include "compiler/search/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/search/distributed_cost.h"

namespace low {
namespace {

using testing::HasSubstr;

// 2^33 rows and keys: m x n are 2^66.
Graph huge() {
  constexpr int64_t length = int64_t{1} << 33;
  GraphBuilder builder;
  const ValueId q = builder.input("q", {DType::f8e4m3fn, {1, length, 1}});
  const ValueId k = builder.input("k", {DType::f8e4m3fn, {1, length, 1}});
  builder.output("y", builder.attention({}, {{q, k, k}}, DType::f8e4m3fn));
  auto graph = std::move(builder).finish();
  LOW_CHECK(graph.has_value());
  return std::move(*graph);
}

class HugeAttention : public ::testing::TestWithParam<const char*> {};

TEST_P(HugeAttention, CostsWhatADoubleCanSay) {
  const Machine machine = *find_machine(GetParam());
  const Graph graph = huge();
  const Op& op = graph.op(graph.value(graph.operands(graph.op(graph.outputs()[0]))[0]).producer);
  const AttentionExtents extents = attention_extents(graph, op);
  std::vector<Layout> layouts;
  std::vector<DistributedLayout> distributed_layouts(3);
  for (const ValueId operand : graph.operands(op)) layouts.push_back(row_major(graph.type(operand).shape));
  const AttentionWork work = attention_work(graph, op, layouts);
  const std::vector<AttentionPlan> space = attention_space(machine, extents, std::nullopt, 1000);
  ASSERT_FALSE(space.empty());
  for (const AttentionPlan& plan : space) {
    EXPECT_EQ(attention_violation(machine, extents, plan), std::nullopt);
    const double cycles =
        machine.global_memory
            ? attention_cost(machine, work, plan).cycles
            : distributed_attention_cost(machine, distributed_attention(graph, op, distributed_layouts), plan)
                  .cost.cycles;
    // 2^66 multiply-adds on all tiles, and not more than 2^30 in a cycle.
    EXPECT_GT(cycles, std::ldexp(1.0, 66 - 30));
    EXPECT_TRUE(std::isfinite(cycles));
  }

  AttentionPlan plan{.algorithm = AttentionAlgorithm::materialized};
  plan.block_m = extents.m;
  plan.block_n = extents.n;
  const std::optional<std::string> violation = attention_violation(machine, extents, plan);
  ASSERT_TRUE(violation.has_value());
  EXPECT_THAT(*violation, HasSubstr("materialized scores of 8589934592 x 8589934592"));
}
INSTANTIATE_TEST_SUITE_P(Machines, HugeAttention, ::testing::Values("host", "mi300x", "ipu21"));

}  // namespace
}  // namespace low
