#include "compiler/search/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "compiler/search/search.h"
#include "compiler/search/test_graphs.h"

namespace low {
namespace {

using ::testing::HasSubstr;

class RandomPlans {
 public:
  explicit RandomPlans(unsigned seed) : random_(seed) {}

  Plan plan() {
    Plan plan{"mi250x-gcd", number(), std::string(64, "0123456789abcdef"[random_() % 16]), region(3)};
    return plan;
  }

 private:
  uint32_t number() { return static_cast<uint32_t>(random_() >> (random_() % 32)); }
  int64_t big() { return static_cast<int64_t>((uint64_t{random_()} << 31 | random_()) >> (random_() % 62)); }
  SplitPlan split() { return {number(), number()}; }

  RegionPlan region(int depth) {
    RegionPlan region;
    for (uint32_t i = random_() % 5; i > 0; --i) {
      switch (random_() % 7) {
        case 0:
          region.ops.emplace_back(NoPlan{});
          break;
        case 1:
          region.ops.emplace_back(MatmulPlan{number(), number(), number(), number(), big(), big(), big()});
          break;
        case 2:
          region.ops.emplace_back(split());
          break;
        case 3:
          region.ops.emplace_back(MovementPlan{});
          break;
        case 4:
          region.ops.emplace_back(MovementPlan{true, split()});
          break;
        case 5:
          region.ops.emplace_back(
              AttentionPlan{random_() % 2 == 0 ? AttentionAlgorithm::flash : AttentionAlgorithm::materialized, number(),
                            number(), number(), big(), big()});
          break;
        default:
          if (depth > 0) region.ops.emplace_back(RepeatPlan{{this->region(depth - 1)}});
      }
    }
    for (uint32_t i = random_() % 3; i > 0; --i) region.outputs.push_back(split());
    return region;
  }

  std::mt19937 random_;
};

TEST(PlanText, RandomPlansRoundTrip) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const Plan plan = RandomPlans(seed).plan();
    const std::string text = print(plan);
    const Result<Plan> parsed = parse_plan(text);
    ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
    EXPECT_EQ(*parsed, plan);
    EXPECT_EQ(print(*parsed), text);
  }
}

TEST(PlanText, Layout) {
  Plan plan{"host", 16, std::string(64, 'a'), {}};
  RegionPlan body{{MovementPlan{}, SplitPlan{1, 3}}, {SplitPlan{0, 2}}};
  plan.region.ops = {NoPlan{}, MatmulPlan{1, 4, 3, 1, 365, 538, 256}, MovementPlan{true, {2, 5}}, RepeatPlan{{body}}};
  plan.region.outputs = {SplitPlan{0, 1}};
  EXPECT_EQ(print(plan), "low-plan 2\nmachine host\ntiles 16\ngraph " + std::string(64, 'a') +
                             "\n"
                             "none\n"
                             "matmul grid 1 4 3 1 block 365 538 256\n"
                             "copy axis 2 parts 5\n"
                             "repeat\n"
                             "  view\n"
                             "  split axis 1 parts 3\n"
                             "  output axis 0 parts 2\n"
                             "end\n"
                             "output axis 0 parts 1\n");
}

TEST(PlanText, Errors) {
  const std::string head = "low-plan 2\nmachine host\ntiles 16\ngraph " + std::string(64, '0') + "\n";
  std::string deep = head;
  for (int i = 0; i < 100000; ++i) deep += "repeat\n";
  struct Case {
    std::string text;
    std::string_view message;
  };
  const Case cases[] = {
      {"", "line 0: the text ends where 'low-plan' is expected"},
      {"low-plan 1\n", "line 1: version '1'"},
      {"low-plan\n", "line 1: 'low-plan' has 1 words; expected are 2"},
      {"low-plan 2\nmachine Host\n", "line 2: 'Host' is not a machine's name"},
      {"low-plan 2\nmachine host\ntiles x\n", "line 3: 'x' is not a number"},
      {"low-plan 2\nmachine host\ntiles -1\n", "line 3: '-1' is not a number"},
      {"low-plan 2\nmachine host\ntiles 4294967296\n", "line 3: '4294967296' is not a number from 0 to 4294967295"},
      {"low-plan 2\nmachine host\ntiles 1\ngraph abc\n", "line 4: the graph's digest"},
      {head + "nothing\n", "line 5: unknown decision 'nothing'"},
      {head + "none\nnone 3\n", "line 6: 'none' has 2 words"},
      {head + "split axis 0 parts\n", "line 5: 'split' has 4 words; expected are 5"},
      {head + "split axis 0 pieces 3\n", "line 5: 'pieces' where 'parts' is expected"},
      {head + "split axis 0 parts 03\n", "leading zeros"},
      {head + "split axis 0 parts 3x\n", "'3x' is not a number"},
      {head + "matmul grid 1 1 1 1 block 1 1 1 1\n", "line 5: 'matmul' has 11 words; expected are 10"},
      {head + "matmul grid 1 1 1 1 block 1 1 9223372036854775808\n", "is not a number"},
      {head + "repeat\nnone\n", "line 6: the text ends inside a repeat"},
      {head + "end\n", "line 5: 'end' without a repeat"},
      {head + "output axis 0 parts 1\nnone\n", "line 6: an operation after a region's outputs"},
      {head + "none" + std::string(1000000, ' ') + "x x x x x x x x x x x x x x x x x x\n", "expected are 1"},
      {deep, "nested deeper than 64"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const Result<Plan> plan = parse_plan(c.text);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().kind, ErrorKind::invalid);
    EXPECT_THAT(plan.error().message, HasSubstr(c.message));
  }
}

TEST(PlanText, DamagedTextsNeverCrash) {
  const std::string text = print(RandomPlans(42).plan());
  const unsigned seed = 5;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 3; ++i) {
      const size_t position = random() % damaged.size();
      if (random() % 2 == 0) {
        damaged[position] = static_cast<char>(random());
      } else {
        damaged.erase(position, random() % 4);
      }
    }
    const Result<Plan> plan = parse_plan(damaged);
    if (!plan) ++refused;
    if (plan) {
      EXPECT_EQ(parse_plan(print(*plan)), *plan);
    }
  }
  EXPECT_GT(refused, 1000);
}

// input x[6,4], constant-like input w[6,5]; transpose, reshape, pointwise, matmul, repeat of a pointwise.
Graph small_graph() {
  Graph body;
  {
    GraphBuilder builder;
    const ValueId operands[] = {builder.input("c", {DType::f32, {4, 5}})};
    builder.output("c", builder.pointwise(test::activation(DType::f32, DType::f32), operands));
    body = test::finish(std::move(builder));
  }
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {6, 4}});  // 0
  const ValueId w = builder.input("w", {DType::f32, {6, 5}});  // 1
  const ValueId t = builder.transpose(x, {1, 0});              // 2: [4,6]
  const ValueId flat = builder.reshape(t, {24});               // 3: no view of 2's view
  const ValueId operands[] = {t, w};
  const ValueId product = builder.matmul({}, operands, DType::f32, "product");  // 4: [4,5], k = 6
  const ValueId flats[] = {flat};
  builder.output("f", builder.pointwise(test::activation(DType::f32, DType::f32), flats));  // 5, 6
  Repeat repeat;
  repeat.count = 3;
  repeat.carried = 1;
  repeat.body = std::make_shared<const Graph>(std::move(body));
  const ValueId carried[] = {product};
  builder.output("r", builder.repeat(repeat, carried)[0]);  // 7, 8
  return test::finish(std::move(builder));
}

Plan small_plan(const Graph& graph) {
  Plan plan{"host", 16, digest(graph), {}};
  const RegionPlan body{{NoPlan{}, SplitPlan{0, 4}, NoPlan{}}, {SplitPlan{}}};
  plan.region.ops = {NoPlan{},
                     NoPlan{},
                     MovementPlan{},
                     MovementPlan{true, {0, 16}},
                     MatmulPlan{1, 4, 2, 1, 1, 3, 6},
                     SplitPlan{0, 8},
                     NoPlan{},
                     RepeatPlan{{body}},
                     NoPlan{}};
  plan.region.outputs = {SplitPlan{}, SplitPlan{1, 5}};
  return plan;
}

TEST(PlanVerify, Table) {
  const Graph graph = small_graph();
  const Machine host = *find_machine("host");
  const Plan good = small_plan(graph);
  const Result<void> accepted = verify(good, graph, host);
  ASSERT_TRUE(accepted) << accepted.error().message;

  struct Case {
    std::function<void(Plan&)> damage;
    std::string_view message;
  };
  const auto matmul = [](Plan& plan) -> MatmulPlan& { return std::get<MatmulPlan>(plan.region.ops[4]); };
  const auto body = [](Plan& plan) -> RegionPlan& { return std::get<RepeatPlan>(plan.region.ops[7]).body[0]; };
  const Case cases[] = {
      {[](Plan& p) { p.machine = "mi300x"; }, "made for machine mi300x"},
      {[](Plan& p) { p.tiles = 15; }, "made for 15 tiles"},
      {[](Plan& p) { p.graph_digest[0] ^= 1; }, "another graph"},
      {[](Plan& p) { p.region.ops.pop_back(); }, "8 decisions for 9 operations"},
      {[](Plan& p) { p.region.outputs.pop_back(); }, "1 output splits for 2 outputs"},
      {[](Plan& p) { p.region.ops[0] = SplitPlan{}; }, "input 0 (x): decision 'split' where 'none'"},
      {[](Plan& p) { p.region.ops[4] = NoPlan{}; }, "matmul 4 (product): decision 'none' where 'matmul'"},
      {[](Plan& p) { p.region.ops[2] = SplitPlan{}; }, "transpose 2: decision 'split' where 'view or copy'"},
      {[](Plan& p) { p.region.ops[5] = MovementPlan{}; }, "where 'split' is expected"},
      {[](Plan& p) { p.region.ops[7] = NoPlan{}; }, "where 'repeat' is expected"},
      {[](Plan& p) { p.region.ops[3] = MovementPlan{}; }, "reshape 3: a view of an operand whose strides"},
      {[](Plan& p) { p.region.ops[3] = MovementPlan{true, {1, 1}}; }, "axis 1 of a result of rank 1"},
      {[](Plan& p) { p.region.ops[3] = MovementPlan{true, {0, 17}}; }, "17 parts of an axis of 24 on 16 tiles"},
      {[](Plan& p) { p.region.ops[5] = SplitPlan{0, 0}; }, "0 parts of an axis of 24"},
      {[](Plan& p) { p.region.outputs[1] = SplitPlan{1, 6}; }, "6 parts of an axis of 5"},
      {[&](Plan& p) { matmul(p).grid_m = 5; }, "a grid of 5 along m of extent 4"},
      {[&](Plan& p) { matmul(p).grid_n = 0; }, "a grid of 0 along n"},
      {[&](Plan& p) { matmul(p).grid_batch = 2; }, "a grid of 2 along batch of extent 1"},
      {[&](Plan& p) { matmul(p).grid_n = 5; }, "20 or more parts on 16 tiles"},
      {[&](Plan& p) { matmul(p).grid_k = 7; }, "a grid of 7 along k of extent 6"},
      {[&](Plan& p) {
         matmul(p).grid_m = matmul(p).grid_n = 1;
         matmul(p).grid_k = 4;
       },
       "4 partial sums over 6, one of which is empty"},
      {[&](Plan& p) { matmul(p).block_m = 0; }, "a block of 0 x 3"},
      {[&](Plan& p) { matmul(p).block_n = 2049; }, "a block of 1 x 2049"},
      {[&](Plan& p) { matmul(p).block_k = 0; }, "a block depth of 0"},
      {[&](Plan& p) { matmul(p).block_k = INT64_MAX; }, "a block depth of 9223372036854775807"},
      {[](Plan& p) { std::get<RepeatPlan>(p.region.ops[7]).body.clear(); }, "0 bodies"},
      {[&](Plan& p) { body(p).ops.pop_back(); }, "repeat 7: 2 decisions for 3 operations"},
      {[&](Plan& p) { body(p).ops[1] = SplitPlan{0, 5}; }, "repeat 7: pointwise 1: 5 parts of an axis of 4"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    Plan bad = good;
    c.damage(bad);
    const Result<void> result = verify(bad, graph, host);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::invalid);
    EXPECT_THAT(result.error().message, HasSubstr(c.message));
  }
  Plan sums = good;
  matmul(sums).grid_k = 2;
  EXPECT_TRUE(verify(sums, graph, host));
  // With the transpose copied, the reshape may be a view.
  Plan copied = good;
  copied.region.ops[2] = MovementPlan{true, {0, 4}};
  copied.region.ops[3] = MovementPlan{};
  EXPECT_TRUE(verify(copied, graph, host));
}

TEST(PlanVerify, RepeatReadsRowMajorInvariants) {
  GraphBuilder inner;
  const ValueId carried = inner.input("c", {DType::f32, {3, 2}});
  const ValueId invariant = inner.input("i", {DType::f32, {3, 2}});
  const ValueId both[] = {carried, invariant};
  inner.output("c", inner.pointwise(test::sum(DType::f32), both));
  Repeat repeat;
  repeat.count = 2;
  repeat.carried = 1;
  repeat.invariant = 1;
  repeat.body = std::make_shared<const Graph>(test::finish(std::move(inner)));
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {3, 2}});
  const ValueId y = builder.transpose(builder.input("y", {DType::f32, {2, 3}}), {1, 0});
  const ValueId operands[] = {x, y};
  builder.output("z", builder.repeat(repeat, operands)[0]);
  const Graph graph = test::finish(std::move(builder));

  const Machine host = *find_machine("host");
  Plan plan{"host", 16, digest(graph), {}};
  const RegionPlan body{{NoPlan{}, NoPlan{}, SplitPlan{}, NoPlan{}}, {SplitPlan{}}};
  plan.region.ops = {NoPlan{}, NoPlan{}, MovementPlan{}, RepeatPlan{{body}}, NoPlan{}};
  plan.region.outputs = {SplitPlan{}};
  EXPECT_THAT(verify(plan, graph, host).error().message, HasSubstr("operand 1 is a view that is not row-major"));
  plan.region.ops[2] = MovementPlan{true, {}};
  EXPECT_TRUE(verify(plan, graph, host));
  // The search knows.
  ThreadPool pool(1);
  const Result<SearchResult> found = search(graph, host, {}, pool);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(std::get<MovementPlan>(found->finalists[0].plan.region.ops[2]).copy);
}

}  // namespace
}  // namespace low
