#include "compiler/graph/passes/layer_runs.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/graph/passes/test_support.h"
#include "reference/random_graph.h"

namespace low::test {
namespace {

const Repeat* only_repeat(const Graph& graph) {
  const Repeat* found = nullptr;
  for (const Op& op : graph.ops()) {
    const auto* repeat = std::get_if<Repeat>(&op.attributes);
    if (repeat == nullptr) continue;
    EXPECT_EQ(found, nullptr) << "two repeats";
    found = repeat;
  }
  return found;
}

// The rolled graph, judged by both evaluators; what is left has nothing to roll.
Graph rolled(const Graph& before) {
  const Graph out = checked(roll_layers(before));
  expect_same(before, out);
  expect_like_reference(before, out, random_inputs(before, 23), 1e-6, 1e-6);
  return out;
}

TEST(RollLayers, ConstantsAreStackedOrInvariant) {
  // x = tanh(x w_i) * s_i + side, with one scale for all layers.
  Maker m;
  ValueId x = m.input("x", {f32, {3, 5}});
  const ValueId side = m.input("side", {f32, {5}});
  for (unsigned layer = 0; layer < 3; ++layer) {
    const ValueId w = m.constant(random_tensor(f32, {5, 5}, layer));
    const ValueId y = m.apply(ExprOp::tanh, m.product(x, w));
    const ValueId scaled = m.apply(ExprOp::mul, y, m.number(0.25 + layer));
    x = m.apply(ExprOp::add, m.apply(ExprOp::mul, scaled, m.number(2)), side);
  }
  m.output("y", x);
  const Graph out = rolled(m.done());
  EXPECT_EQ(kinds(out), "input input repeat output");
  const Repeat* repeat = only_repeat(out);
  ASSERT_NE(repeat, nullptr);
  EXPECT_EQ(repeat->count, 3);
  EXPECT_EQ(repeat->carried, 1u);
  EXPECT_EQ(repeat->invariant, 2u);  // side, and the 2 of every layer
  EXPECT_EQ(repeat->iterated, 2u);   // weights [3,5,5] and scales [3]
  EXPECT_EQ(repeat->collected, 0u);
  std::vector<Type> types;
  for (const Op& op : out.ops()) {
    if (std::holds_alternative<Constant>(op.attributes)) types.push_back(out.type(out.result(op)));
  }
  EXPECT_EQ(types, (std::vector<Type>{{f32, {}}, {f32, {3, 5, 5}}, {f32, {3}}}));
}

TEST(RollLayers, TwoCarriedValuesAndResidual) {
  // (a, b) -> (b + a w, tanh(a))
  Maker m;
  ValueId a = m.input("a", {f32, {2, 3}}), b = m.input("b", {f32, {2, 3}});
  const ValueId w = m.input("w", {f32, {3, 3}});
  for (int layer = 0; layer < 4; ++layer) {
    const ValueId next = m.apply(ExprOp::add, b, m.product(a, w));
    b = m.apply(ExprOp::tanh, a);
    a = next;
  }
  m.output("a", a);
  m.output("b", b);
  const Graph out = rolled(m.done());
  const Repeat* repeat = only_repeat(out);
  ASSERT_NE(repeat, nullptr);
  EXPECT_EQ(repeat->count, 4);
  EXPECT_EQ(repeat->carried, 2u);
  EXPECT_EQ(repeat->invariant, 1u);
  EXPECT_EQ(repeat->collected, 0u);
}

TEST(RollLayers, WhatLaterOperationsReadIsCollected) {
  // The result of every layer's product, and the carried value after the second of four.
  Maker m;
  ValueId x = m.input("x", {f32, {2, 3}});
  std::vector<ValueId> products;
  ValueId second;
  for (unsigned layer = 0; layer < 4; ++layer) {
    products.push_back(m.product(x, m.constant(random_tensor(f32, {3, 3}, layer))));
    x = m.apply(ExprOp::tanh, products.back());
    m.output("p", products.back());  // an output between layers
    if (layer == 1) second = x;
  }
  m.output("second", m.apply(ExprOp::neg, second));
  m.output("y", x);
  const Graph out = rolled(m.done());
  const Repeat* repeat = only_repeat(out);
  ASSERT_NE(repeat, nullptr);
  EXPECT_EQ(repeat->carried, 1u);
  EXPECT_EQ(repeat->collected, 2u);
}

TEST(RollLayers, APrologueAndAnEpilogueStayOutside) {
  Maker m;
  ValueId x = m.apply(ExprOp::tanh, m.product(m.input("x", {f32, {2, 7}}), m.constant(random_tensor(f32, {7, 3}, 9))));
  for (unsigned layer = 0; layer < 5; ++layer) {
    x = m.apply(ExprOp::tanh, m.product(x, m.constant(random_tensor(f32, {3, 3}, layer))));
  }
  m.output("y", m.product(x, m.constant(random_tensor(f32, {3, 11}, 8))));
  const Graph out = rolled(m.done());
  EXPECT_EQ(kinds(out), "input matmul pointwise repeat matmul output");
  EXPECT_EQ(only_repeat(out)->count, 5);
}

TEST(RollLayers, WeightsThatAreDequantizedBeforehand) {
  // All dequantizations first, as some exporters write them.
  Maker m;
  ValueId x = m.input("x", {f32, {2, 3}});
  std::vector<ValueId> weights;
  for (unsigned layer = 0; layer < 3; ++layer) {
    weights.push_back(m.from_f8(m.constant(random_tensor(f8, {3, 3}, layer)), m.number(0.5 + layer)));
  }
  for (const ValueId w : weights) x = m.apply(ExprOp::tanh, m.product(x, w));
  m.output("y", x);
  const Graph out = rolled(m.done());
  EXPECT_EQ(kinds(out), "input repeat output");
  EXPECT_EQ(only_repeat(out)->iterated, 2u);
}

TEST(RollLayers, NestedAndInRegions) {
  // The body of a Scan holds two layers.
  Maker b;
  ValueId x = b.input("x", {f32, {2, 3}});
  for (unsigned layer = 0; layer < 2; ++layer) {
    x = b.apply(ExprOp::tanh, b.product(x, b.constant(random_tensor(f32, {3, 3}, layer))));
  }
  b.output("next", x);
  const auto body = std::make_shared<const Graph>(b.done());
  Maker m;
  const ValueId start = m.input("x", {f32, {2, 3}});
  m.output("y", m.repeat(Repeat{.count = 3, .carried = 1, .body = body}, {{start}})[0]);
  const Graph out = rolled(m.done());
  const Repeat* outer = only_repeat(out);
  ASSERT_NE(outer, nullptr);
  const Repeat* inner = only_repeat(*outer->body);
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(inner->count, 2);
}

TEST(RollLayers, WhatIsNotALayerStays) {
  const auto stays = [](Maker&& m, const char* what) {
    const Graph before = m.done();
    EXPECT_EQ(checked(roll_layers(before)), before) << what;
  };
  {
    Maker m;  // three products side by side: nothing flows from one to the next
    const ValueId x = m.input("x", {f32, {2, 3}});
    for (unsigned i = 0; i < 3; ++i) m.output("y", m.product(x, m.constant(random_tensor(f32, {3, 3}, i))));
    stays(std::move(m), "parallel");
  }
  {
    Maker m;  // weights that are not constant
    ValueId x = m.input("x", {f32, {2, 3}});
    for (int i = 0; i < 3; ++i) x = m.product(x, m.input("w", {f32, {3, 3}}));
    m.output("y", x);
    stays(std::move(m), "weights that are inputs");
  }
  {
    Maker m;  // too little work
    ValueId x = m.input("x", {f32, {2, 3}});
    for (int i = 0; i < 3; ++i) x = m.apply(ExprOp::tanh, m.apply(ExprOp::neg, x));
    m.output("y", x);
    stays(std::move(m), "small");
  }
  {
    Maker m;  // a value of two layers before
    ValueId a = m.input("a", {f32, {3, 3}}), b = m.input("b", {f32, {3, 3}});
    for (int i = 0; i < 4; ++i) {
      const ValueId next = m.product(a, b);
      a = b;
      b = next;
    }
    m.output("y", b);
    const Graph before = m.done();
    // Fibonacci: pairs of products are layers with two carried values.
    const Graph out = rolled(before);
    EXPECT_EQ(only_repeat(out)->carried, 2u);
    EXPECT_EQ(only_repeat(out)->count, 2);
  }
  {
    Maker m;
    m.output("y", m.input("x", {f32, {2}}));
    stays(std::move(m), "empty");
  }
}

// Layers beside each other, as an attention's projections: the weight of the second is made between the first and it,
// but nothing goes from one to the next.
TEST(RollLayers, ParallelLayersStay) {
  Maker m;
  const ValueId x = m.input("x", {f32, {4, 5}});
  std::vector<ValueId> projections;
  for (unsigned i = 0; i < 3; ++i) {
    const ValueId stored = m.constant(random_tensor(f8, {5, 5}, i));
    const ValueId weight = m.from_f8(stored, m.constant(random_tensor(f32, {5}, 9 + i)), 1);
    projections.push_back(m.apply(ExprOp::add, m.product(x, weight), m.constant(random_tensor(f32, {5}, 5 + i))));
  }
  m.output("y", m.apply(ExprOp::mul, m.apply(ExprOp::mul, projections[0], projections[1]), projections[2]));
  const Graph before = m.done();
  EXPECT_EQ(checked(roll_layers(before)), before);
}

TEST(RollLayers, AnUnlikeLayerEndsARun) {
  for (const size_t unlike : {size_t{0}, size_t{2}, size_t{4}}) {
    SCOPED_TRACE(unlike);
    Maker m;
    ValueId x = m.input("x", {f32, {2, 3}});
    for (unsigned layer = 0; layer < 5; ++layer) {
      x = m.product(x, m.constant(random_tensor(f32, {3, 3}, layer)));
      x = m.apply(layer == unlike ? ExprOp::neg : ExprOp::tanh, x);
    }
    m.output("y", x);
    const Graph out = rolled(m.done());
    std::vector<int64_t> counts;
    for (const Op& op : out.ops()) {
      if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) counts.push_back(repeat->count);
    }
    EXPECT_EQ(counts, (unlike == 2 ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{4})) << print(out);
  }
}

// One random layer, written `layers` times with its own weights, then judged.
TEST(RollLayers, RandomLayers) {
  size_t total = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    struct Step {
      size_t kind, a, b;
    };
    const size_t carried = 1 + pick(2);
    std::vector<Step> steps;
    for (size_t i = 3 + pick(6); i-- > 0;) steps.push_back({pick(6), pick(100), pick(100)});
    const size_t layers = 2 + pick(4);
    const size_t tapped = pick(3) == 0 ? pick(layers) : layers;   // a layer of which an inner value is an output
    const size_t changed = pick(4) == 0 ? pick(layers) : layers;  // a layer with another operation
    const Shape shape{3, 5};
    Maker m;
    std::vector<ValueId> state;
    for (size_t i = 0; i < carried; ++i) state.push_back(m.input("state", {f32, shape}));
    const ValueId side = m.input("side", {f32, {5}});
    const ValueId shared = m.constant(random_tensor(f32, {5, 5}, seed + 1000));
    for (size_t layer = 0; layer < layers; ++layer) {
      std::vector<ValueId> values = state;
      const ValueId w = m.constant(random_tensor(f32, {5, 5}, seed + static_cast<unsigned>(layer)));
      values.push_back(m.apply(ExprOp::tanh, m.product(values[0], w)));
      for (const Step& step : steps) {
        const ValueId a = values[step.a % values.size()], b = values[step.b % values.size()];
        ValueId made;
        switch (step.kind) {
          case 0:
            made = m.apply(ExprOp::tanh, m.apply(ExprOp::add, a, b));
            break;
          case 1:
            made = m.apply(ExprOp::tanh, m.product(a, shared));
            break;
          case 2:
            made = m.apply(ExprOp::min, a, side);
            break;
          case 3:
            made = m.apply(ExprOp::mul, a, m.number(0.5 / (1 + static_cast<double>(layer))));
            break;
          case 4:
            made = m.transpose(m.reshape(m.transpose(a, {1, 0}), {5, 3}), {1, 0});
            break;
          default:
            made = m.apply(ExprOp::sub, a, m.number(0.25));
            break;
        }
        values.push_back(made);
      }
      if (layer == changed) values.back() = m.apply(ExprOp::abs, values.back());
      if (layer == tapped) m.output("tap", values[values.size() / 2]);
      for (size_t i = 0; i < carried; ++i) state[i] = values[values.size() - 1 - i];
    }
    for (const ValueId value : state) m.output("y", value);
    const Graph before = m.done();
    const Graph out = rolled(before);
    for (const Op& op : out.ops()) total += std::holds_alternative<Repeat>(op.attributes) ? 1 : 0;
    if (changed == layers) {
      EXPECT_LE(out.op_count(), before.op_count()) << print(before);
    }
    expect_same(before, checked(run_passes(before)), 1e-4);
    if (HasFailure()) break;
  }
  EXPECT_GT(total, 140u);
}

TEST(RollLayers, RandomGraphsKeepTheirMeaning) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const reference::RandomGraph random = reference::random_graph({.seed = seed, .operations = 30});
    const Graph out = checked(roll_layers(random.graph));
    EXPECT_EQ(evaluate_graph(out, random.inputs), evaluate_graph(random.graph, random.inputs));
  }
}

TEST(RollLayers, LongChainsAreRolledInNearlyLinearTime) {
  Maker m;
  ValueId x = m.input("x", {f32, {2, 3}});
  for (unsigned layer = 0; layer < 4000; ++layer) {
    x = m.product(x, m.constant(random_tensor(f32, {3, 3}, layer % 7)));
    for (int i = 0; i < 3; ++i) x = m.apply(i % 2 == 0 ? ExprOp::tanh : ExprOp::neg, x);
  }
  m.output("y", x);
  const Graph out = checked(roll_layers(m.done()));
  ASSERT_EQ(kinds(out), "input repeat output");
  EXPECT_EQ(only_repeat(out)->count, 4000);
}

TEST(Canonicalize, ARepeatOfOneIsItsBody) {
  Maker b;
  const ValueId h = b.input("h", {f32, {2, 3}});
  const ValueId side = b.input("side", {f32, {3}});
  const ValueId w = b.input("w", {f32, {3, 3}});
  const ValueId y = b.product(h, w);
  b.output("next", b.apply(ExprOp::add, y, side));
  b.output("all", y);
  const auto body = std::make_shared<const Graph>(b.done());
  Maker m;
  const ValueId operands[] = {m.input("x", {f32, {2, 3}}), m.input("side", {f32, {3}}),
                              m.constant(random_tensor(f32, {1, 3, 3}, 5))};
  const Repeat repeat{.count = 1, .carried = 1, .invariant = 1, .iterated = 1, .collected = 1, .body = body};
  for (const ValueId value : m.repeat(repeat, operands)) m.output("y", value);
  const Graph before = m.done();
  const Graph out = canonical(before);
  EXPECT_EQ(kinds(out), "input input matmul pointwise reshape output output") << print(out);
}

}  // namespace
}  // namespace low::test
