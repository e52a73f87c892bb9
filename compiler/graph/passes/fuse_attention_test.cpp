#include <cmath>
#include <limits>

#include "compiler/graph/passes/test_support.h"

namespace low::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Graph passed(const Graph& graph) { return checked(run_passes(graph)); }

// Extents, all different: batch 2, 3 heads, 5 queries, 7 keys, 4 elements of queries and keys, 6 of values.
constexpr int64_t b = 2, h = 3, m = 5, n = 7, d = 4, dv = 6;

ValueId split(Maker& g, ValueId x, int64_t heads, const Shape& permutation) {
  const Shape shape = g.type(x).shape;
  return g.transpose(g.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), permutation);
}
ValueId join(Maker& g, ValueId y) {
  const Shape shape = g.type(y).shape;
  return g.reshape(g.transpose(y, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}
ValueId softmax(Maker& g, ValueId x, int axis = 3) { return g.rowwise({.axes = {axis}}, {&x, 1}, g.type(x).dtype); }
ValueId cast_number(Maker& g, double value, DType type) { return g.constant(scalar(type, value)); }

struct Inputs {
  ValueId q, k, v;
};
Inputs packed_inputs(Maker& g, DType type = f32) {
  const ValueId q = g.input("q", {type, {b, m, h * d}});
  const ValueId k = g.input("k", {type, {b, n, h * d}});
  return {q, k, g.input("v", {type, {b, n, h * dv}})};
}

using Change = std::function<ValueId(Maker&, ValueId)>;
const Change nothing = [](Maker&, ValueId x) { return x; };
// Multiplied with 0.5, or divided by 2: all numbers are exact.
const Change halved = [](Maker& g, ValueId x) { return g.apply(ExprOp::mul, x, cast_number(g, 0.5, g.type(x).dtype)); };
const Change divided = [](Maker& g, ValueId x) { return g.apply(ExprOp::div, x, cast_number(g, 2, g.type(x).dtype)); };

struct Changes {
  Change q = nothing, k = nothing, scores = halved, weights = nothing;
  DType type = f32;
  bool swapped_keys = true;  // one transpose makes [b, h, d, n] of the keys, rather than two
};

// Attention as exporters write it.
Graph written_out(const Changes& changes) {
  Maker g;
  const auto [q, k, v] = packed_inputs(g, changes.type);
  const ValueId query = changes.q(g, split(g, q, h, {0, 2, 1, 3}));
  ValueId key = changes.k(g, split(g, k, h, changes.swapped_keys ? Shape{0, 2, 3, 1} : Shape{0, 2, 1, 3}));
  if (!changes.swapped_keys) key = g.transpose(key, {0, 1, 3, 2});
  const Matmul product{.accumulate = changes.type == DType::f64 ? DType::f64 : f32, .epilogue = {}};
  const ValueId scores = changes.scores(g, g.product(query, key, product, changes.type));
  const ValueId weights = changes.weights(g, softmax(g, scores));
  g.output("y", join(g, g.product(weights, split(g, v, h, {0, 2, 1, 3}), product, changes.type)));
  return g.done();
}

// The same as one operation.
Graph one_operation(Attention attention, const Change& mask = {}, DType type = f32) {
  Maker g;
  const auto [q, k, v] = packed_inputs(g, type);
  attention.q_heads = attention.kv_heads = h;
  std::vector<ValueId> operands = {q, k, v};
  if (mask) operands.push_back(mask(g, q));
  attention.masked = operands.size() > 3;
  g.output("y", g.attention(attention, operands, type));
  return g.done();
}

void expect_judged(const Graph& before, const Graph& after, double tolerance = 1e-5) {
  expect_like_reference(before, after, random_inputs(before, 5), tolerance, tolerance);
}

TEST(FuseAttention, PackedHeads) {
  const Graph expected = passed(one_operation({.scale = 0.5}));
  EXPECT_EQ(kinds(expected), "input input input attention output");
  for (const bool swapped : {true, false}) {
    const Graph before = written_out({.swapped_keys = swapped});
    const Graph after = passed(before);
    EXPECT_EQ(after, expected) << print(after);
    expect_judged(before, after);
  }
  EXPECT_EQ(passed(expected), expected);
}

TEST(FuseAttention, ScalesBeforeAndAfterTheProduct) {
  const Graph expected = passed(one_operation({.scale = 0.125}));
  for (const Changes& changes :
       {Changes{.q = halved, .k = halved}, Changes{.q = divided, .k = divided, .scores = divided},
        Changes{.q = halved, .scores = [](Maker& g, ValueId x) { return g.apply(ExprOp::mul, g.number(0.25), x); }}}) {
    const Graph after = passed(written_out(changes));
    EXPECT_EQ(after, expected) << print(after);
  }
  // In front of the splitting of heads.
  Maker g;
  const auto [q, k, v] = packed_inputs(g);
  const ValueId query = split(g, halved(g, q), h, {0, 2, 1, 3});
  const ValueId scores = g.product(query, split(g, k, h, {0, 2, 3, 1}));
  g.output("y",
           join(g, g.product(softmax(g, g.apply(ExprOp::div, scores, g.number(4))), split(g, v, h, {0, 2, 1, 3}))));
  EXPECT_EQ(passed(g.done()), expected);
  // Twice a quarter, or numbers in front of the operation itself.
  Maker one;
  const auto inputs = packed_inputs(one);
  const ValueId operands[] = {halved(one, inputs.q), halved(one, inputs.k), inputs.v};
  one.output("y", one.attention({.q_heads = h, .kv_heads = h, .scale = 0.5}, operands, f32));
  EXPECT_EQ(passed(one.done()), expected);
}

Change masked_by(const Type& type, ExprOp op = ExprOp::add) {
  return [=](Maker& g, ValueId x) { return g.apply(op, halved(g, x), g.input("mask", type)); };
}
Change mask_input(const Type& type) {
  return [=](Maker& g, ValueId) { return g.input("mask", type); };
}

TEST(FuseAttention, AddedMasks) {
  for (const Shape& shape : {Shape{b, h, m, n}, Shape{1, h, 1, n}, Shape{b, 1, m, n}, Shape{1, 1, m, 1}, Shape{h, m, n},
                             Shape{m, n}, Shape{n}, Shape{b, 1, 1, n}}) {
    const Graph before = written_out({.scores = masked_by({f32, shape})});
    const Graph after = passed(before);
    Shape four;
    for (int i = shape.rank(); i < 4; ++i) four.append(1);
    for (const int64_t extent : shape) four.append(extent);
    const Graph expected = passed(one_operation({.mask_heads = h, .scale = 0.5}, [&](Maker& g, ValueId) {
      return g.reshape(g.input("mask", {f32, shape}), four);
    }));
    EXPECT_EQ(after, expected) << print(after);
    expect_judged(before, after);
  }
}

Change chosen(const Type& type, double other, bool keep) {
  return [=](Maker& g, ValueId x) {
    ExprBuilder expr(3);
    const uint16_t condition = expr.input(0, DType::boolean);
    const uint16_t score = expr.input(1, f32);
    const uint16_t instead = expr.input(2, f32);
    const uint16_t result = keep ? expr.where(condition, score, instead) : expr.where(condition, instead, score);
    const ValueId operands[] = {g.input("mask", type), halved(g, x), g.number(other)};
    return g.pointwise(std::move(expr).finish(result), operands);
  };
}

TEST(FuseAttention, MasksThatChoose) {
  const Type type{DType::boolean, {b, 1, m, n}};
  const Graph keep = written_out({.scores = chosen(type, -infinity, true)});
  EXPECT_EQ(passed(keep), passed(one_operation({.mask_heads = h, .scale = 0.5}, mask_input(type))));
  expect_judged(keep, passed(keep));
  const Graph drop = written_out({.scores = chosen(type, -infinity, false)});
  EXPECT_EQ(kinds(passed(drop)), "input input input input pointwise attention output");
  expect_judged(drop, passed(drop));
  // Whatever number takes the place of a score, it is the operation's: a row of it alone averages all keys, and is not
  // NaN.
  for (const double other : {-1e9, -100.0, 3.0}) {
    for (const bool kept : {true, false}) {
      const Graph finite = written_out({.scores = chosen(type, other, kept)});
      const Graph after = passed(finite);
      EXPECT_EQ(kinds(after), kept ? "input input input input attention output"
                                   : "input input input input pointwise attention output");
      std::vector<Tensor> inputs = random_inputs(finite, 5);
      ASSERT_EQ(inputs[3].dtype(), DType::boolean);
      for (int64_t j = 0; j < n; ++j) inputs[3].set_value(2 * n + j, kept ? 0 : 1);
      expect_like_reference(finite, after, inputs, 1e-5, 1e-5);
    }
  }
  // Infinity and NaN are no scores of an attention.
  for (const double other : {infinity, std::nan("")})
    EXPECT_EQ(kinds(passed(written_out({.scores = chosen(type, other, true)}))).find("attention"), std::string::npos);
}

// Conditions and added masks one after the other. Inputs "c…" are conditions that cover all of row 2 together, "m" is
// added.
struct MaskStep {
  bool add = false;
  double number = 0;  // in place of a score, or the lowest element of the added mask
};
struct MaskSteps {
  std::vector<MaskStep> steps;
  bool fused = true;
};

void expect_steps(const MaskSteps& test) {
  const Graph before = written_out({.scores = [&](Maker& g, ValueId x) {
    x = halved(g, x);
    for (size_t i = 0; i < test.steps.size(); ++i) {
      if (test.steps[i].add) {
        x = g.apply(ExprOp::add, x, g.input("m" + std::to_string(i), {f32, {b, 1, m, n}}));
        continue;
      }
      ExprBuilder expr(2);
      const uint16_t condition = expr.input(0, DType::boolean), score = expr.input(1, f32);
      const uint16_t result = expr.where(condition, score, expr.constant(f32, test.steps[i].number));
      const ValueId operands[] = {g.input("c" + std::to_string(i), {DType::boolean, {b, 1, m, n}}), x};
      x = g.pointwise(std::move(expr).finish(result), operands);
    }
    return x;
  }});
  const Graph after = passed(before);
  EXPECT_EQ(print(after).find("= attention") != std::string::npos, test.fused) << print(after);
  std::vector<Tensor> inputs = random_inputs(before, 5);
  for (size_t i = 0; i < test.steps.size(); ++i) {
    Tensor& mask = inputs[3 + i];
    for (int64_t e = 0; e < mask.elements(); ++e) {
      const int64_t row = e / n % m, key = e % n;
      // Row 2 is left to none: each step takes away every second or third key, and the last one the rest. Row 3 has all
      // its keys.
      const auto period = static_cast<int64_t>(i + 2);
      const bool last = i + 1 == test.steps.size();
      const bool masked = row != 3 && (row == 2 && last ? key % 2 == 1 : (key + row) % period == 0);
      mask.set_value(e, test.steps[i].add ? (masked ? test.steps[i].number : 0) : (masked ? 0 : 1));
    }
  }
  expect_like_reference(before, after, inputs, 1e-5, 1e-5);
}

TEST(FuseAttention, MasksAfterMasks) {
  constexpr double lowest = -3.4028234663852886e38;
  const MaskSteps cases[] = {
      {{{false, -1e9}, {false, -1e9}}},
      {{{false, lowest}, {false, lowest}}},
      {{{false, -infinity}, {false, -infinity}}},
      {{{false, -10000}, {false, -10000}, {false, -10000}}},
      {{{true, -1e9}, {true, -1e9}}},
      {{{true, -infinity}, {false, -infinity}}},
      {{{false, -infinity}, {true, -infinity}}},
      {{{false, lowest}, {false, -infinity}}},
      {{{false, -infinity}, {false, lowest}}},
      {{{false, lowest}, {true, lowest}}},
      {{{true, lowest}, {false, lowest}}},
      // Scores would not vanish beside these.
      {{{false, -1e9}, {false, -1e4}}, false},
      {{{false, -1e9}, {true, -1e9}}, false},
      {{{true, -1e9}, {false, -1e9}}, false},
      {{{false, -1e9}, {false, -infinity}}, false},
  };
  for (const MaskSteps& test : cases) {
    std::string text;
    for (const MaskStep& step : test.steps) text += (step.add ? " add " : " where ") + std::to_string(step.number);
    SCOPED_TRACE(text);
    expect_steps(test);
  }
}

// A number that takes a score's place is rounded with it.
TEST(FuseAttention, MasksThatAreConverted) {
  for (const double other : {-1e9, -60000.0}) {
    const Graph before =
        written_out({.scores =
                         [&](Maker& g, ValueId x) {
                           return g.cast(chosen({DType::boolean, {b, 1, m, n}}, other, true)(g, x), DType::f16);
                         },
                     .weights = [](Maker& g, ValueId x) { return g.cast(x, f32); }});
    const Graph after = passed(before);
    EXPECT_NE(print(after).find("= attention"), std::string::npos) << print(after);
    EXPECT_EQ(print(after).find("masked_score") == std::string::npos, other == -1e9) << print(after);
    std::vector<Tensor> inputs = random_inputs(before, 5);
    for (int64_t j = 0; j < n; ++j) inputs[3].set_value(2 * n + j, 0);
    expect_like_reference(before, after, inputs, 2e-3, 2e-3);
  }
}

TEST(FuseAttention, SeveralMasksAndSoftcap) {
  const Change capped = [](Maker& g, ValueId x) {
    return g.apply(ExprOp::mul, g.apply(ExprOp::tanh, g.apply(ExprOp::div, halved(g, x), g.number(4))), g.number(4));
  };
  const Graph soft = written_out({.scores = capped});
  EXPECT_EQ(passed(soft), passed(one_operation({.scale = 0.5, .softcap = 4})));
  expect_judged(soft, passed(soft));
  const Graph both = written_out({.scores = [&](Maker& g, ValueId x) {
    const ValueId added = g.apply(ExprOp::add, capped(g, x), g.input("bias", {f32, {1, h, m, n}}));
    ExprBuilder expr(3);
    const uint16_t condition = expr.input(0, DType::boolean);
    const uint16_t score = expr.input(1, f32);
    const ValueId operands[] = {g.input("pad", {DType::boolean, {b, 1, 1, n}}), added, g.number(-infinity)};
    return g.pointwise(std::move(expr).finish(expr.where(condition, score, expr.input(2, f32))), operands);
  }});
  EXPECT_EQ(kinds(passed(both)), "input input input input input pointwise attention output");
  expect_judged(both, passed(both));
}

Tensor triangle(DType type, const Shape& shape, double other, int64_t diagonal) {
  Tensor mask(type, shape);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const bool keep = j <= i + diagonal;
      mask.set_bits(i * n + j,
                    type == DType::boolean ? (keep ? 1 : 0) : encode(type, keep ? 0 : other, Overflow::propagate));
    }
  }
  return mask;
}

TEST(FuseAttention, ConstantTrianglesAreDiagonals) {
  for (const int64_t diagonal : {0, 2, 5}) {
    const Graph expected = passed(one_operation({.scale = 0.5, .diagonal = diagonal}));
    EXPECT_NE(print(expected).find("diagonal=" + std::to_string(diagonal)), std::string::npos);
    for (const double other : {-infinity, -1e9}) {
      const Graph before = written_out({.scores = [&](Maker& g, ValueId x) {
        return g.apply(ExprOp::add, halved(g, x), g.constant(triangle(f32, {m, n}, other, diagonal)));
      }});
      EXPECT_EQ(passed(before), expected) << print(passed(before));
      expect_judged(before, passed(before));
    }
    EXPECT_EQ(passed(one_operation(
                  {.scale = 0.5},
                  [&](Maker& g, ValueId) { return g.constant(triangle(DType::boolean, {1, 1, m, n}, 0, diagonal)); })),
              expected);
  }
  // A number that takes the place of scores is as good as -infinity only if nothing weighs less.
  for (const double score : {-1e9, -5.0}) {
    const Graph graph = passed(one_operation({.scale = 0.5, .masked_score = score}, [&](Maker& g, ValueId) {
      return g.constant(triangle(DType::boolean, {1, 1, m, n}, 0, 2));
    }));
    EXPECT_EQ(print(graph).find("diagonal=2") != std::string::npos, score == -1e9) << print(graph);
  }
  // All keys: no mask is needed. Neither a full first row nor one odd element is a triangle.
  EXPECT_EQ(passed(one_operation({.scale = 0.5, .diagonal = n - 1})), passed(one_operation({.scale = 0.5})));
  for (const int64_t odd : {int64_t{0}, n - 1, 3 * n}) {
    Tensor mask = triangle(DType::boolean, {1, 1, m, n}, 0, 1);
    if (odd == n - 1) {
      for (int64_t j = 0; j < n; ++j) mask.set_bits(j, 1);
    } else {
      mask.set_bits(odd, 0);
    }
    const Graph before = one_operation({.scale = 0.5}, [&](Maker& g, ValueId) { return g.constant(Tensor(mask)); });
    EXPECT_EQ(print(passed(before)).find("diagonal"), std::string::npos) << odd;
  }
}

// Heads that no packed tensor holds stay apart.
TEST(FuseAttention, PlainHeads) {
  Maker g;
  const ValueId q = g.input("q", {f32, {b, h, m, d}});
  const ValueId k = g.input("k", {f32, {b, h, d, n}});
  const ValueId v = g.input("v", {f32, {b, h, n, dv}});
  const ValueId mask = g.input("mask", {f32, {1, h, m, n}});
  const ValueId scores = g.apply(ExprOp::add, halved(g, g.product(q, k)), mask);
  g.output("y", g.product(softmax(g, scores), v));
  const Graph before = g.done();
  const Graph after = passed(before);
  EXPECT_EQ(kinds(after), "input input input input transpose reshape reshape reshape attention reshape output")
      << print(after);
  EXPECT_NE(print(after).find("{masked mask_heads=3 scale=0.5"), std::string::npos) << print(after);
  expect_judged(before, after);
}

// As older exporters have it: batches and heads are one axis, but for the mask.
TEST(FuseAttention, BatchesOfHeads) {
  Maker g;
  const auto [q, k, v] = packed_inputs(g);
  const auto flat = [&](ValueId x) {
    const ValueId heads = split(g, x, h, {0, 2, 1, 3});
    const Shape shape = g.type(heads).shape;
    return g.reshape(heads, {b * h, shape[2], shape[3]});
  };
  ValueId scores = g.product(flat(q), g.transpose(flat(k), {0, 2, 1}));
  scores = g.apply(ExprOp::add, g.reshape(scores, {b, h, m, n}), g.input("mask", {f32, {b, 1, m, n}}));
  const ValueId weights = softmax(g, g.reshape(scores, {b * h, m, n}), 2);
  g.output("y", join(g, g.reshape(g.product(weights, flat(v)), {b, h, m, dv})));
  const Graph before = g.done();
  const Graph after = passed(before);
  EXPECT_EQ(after, passed(one_operation({.mask_heads = h}, mask_input({f32, {b, 1, m, n}})))) << print(after);
  expect_judged(before, after);
}

// Two heads of queries read one of keys: by broadcasting, and by keys that are written out once more.
TEST(FuseAttention, GroupedQueries) {
  for (const bool expanded : {false, true}) {
    Maker g;
    const ValueId q = g.input("q", {f32, {b, m, 6 * d}});
    const ValueId k = g.input("k", {f32, {b, n, 3 * d}});
    const ValueId v = g.input("v", {f32, {b, n, 3 * dv}});
    ValueId query = split(g, q, 6, {0, 2, 1, 3});
    ValueId key = split(g, k, 3, {0, 2, 1, 3});
    ValueId value = split(g, v, 3, {0, 2, 1, 3});
    key = g.reshape(key, {b, 3, 1, n, d});
    value = g.reshape(value, {b, 3, 1, n, dv});
    ValueId y;
    if (expanded) {
      key = g.reshape(g.expand(key, {b, 3, 2, n, d}), {b, 6, n, d});
      value = g.reshape(g.expand(value, {b, 3, 2, n, dv}), {b, 6, n, dv});
      y = g.product(softmax(g, g.product(query, g.transpose(key, {0, 1, 3, 2}))), value);
    } else {
      query = g.reshape(query, {b, 3, 2, m, d});
      y = g.product(softmax(g, g.product(query, g.transpose(key, {0, 1, 2, 4, 3})), 4), value);
      y = g.reshape(y, {b, 6, m, dv});
    }
    g.output("y", join(g, y));
    const Graph before = g.done();
    const Graph after = passed(before);
    EXPECT_EQ(kinds(after), "input input input attention output") << print(after);
    EXPECT_NE(print(after).find("q_heads=6 kv_heads=3"), std::string::npos);
    expect_judged(before, after);
  }
}

// One layer makes queries, keys and values: the operands are slices of what it makes.
TEST(FuseAttention, PartsOfOneProjection) {
  Maker g;
  const ValueId x = g.input("x", {f32, {b, m, 3 * h * d}});
  const ValueId parts = g.transpose(g.reshape(x, {b, m, 3, h, d}), {2, 0, 3, 1, 4});
  std::vector<ValueId> values;
  for (int64_t i = 0; i < 3; ++i) {
    const ValueId index = g.constant(scalar(DType::i64, static_cast<double>(i)));
    values.push_back(g.gather({.axis = 0}, parts, index));
  }
  const ValueId scores = halved(g, g.product(values[0], g.transpose(values[1], {0, 1, 3, 2})));
  g.output("y", join(g, g.product(softmax(g, scores), values[2])));
  const Graph before = g.done();
  const Graph after = passed(before);
  Maker one;
  const ValueId all = one.input("x", {f32, {b, m, 3 * h * d}});
  std::vector<ValueId> operands;
  for (int64_t i = 0; i < 3; ++i) operands.push_back(one.slice(all, {0, 0, i * h * d}, {1, 1, 1}, {b, m, h * d}));
  one.output("y", one.attention({.q_heads = h, .kv_heads = h, .scale = 0.5}, operands, f32));
  EXPECT_EQ(after, passed(one.done())) << print(after);
  expect_judged(before, after);
}

TEST(FuseAttention, NarrowTypes) {
  const Changes changes{.scores = [](Maker& g, ValueId x) { return g.cast(halved(g, x), f32); },
                        .weights = [](Maker& g, ValueId x) { return g.cast(x, f16); },
                        .type = f16};
  const Graph before = written_out(changes);
  const Graph after = passed(before);
  EXPECT_EQ(after, passed(one_operation({.scale = 0.5}, {}, f16))) << print(after);
  expect_judged(before, after, 4e-3);
  EXPECT_EQ(passed(written_out({.type = DType::f64})), passed(one_operation({.scale = 0.5}, {}, DType::f64)));
}

TEST(FuseAttention, OneRowAndOneHead) {
  // One query: its heads are split and joined by views alone.
  Maker g;
  const ValueId q = g.input("q", {f32, {b, 1, h * d}});
  const ValueId k = g.input("k", {f32, {b, n, h * d}});
  const ValueId v = g.input("v", {f32, {b, n, h * dv}});
  const ValueId scores = g.product(split(g, q, h, {0, 2, 1, 3}), split(g, k, h, {0, 2, 3, 1}));
  g.output("y", join(g, g.product(softmax(g, scores), split(g, v, h, {0, 2, 1, 3}))));
  const Graph before = g.done();
  EXPECT_EQ(kinds(passed(before)), "input input input attention output") << print(passed(before));
  expect_judged(before, passed(before));
  // Matrices.
  Maker one;
  const ValueId x = one.input("x", {f32, {m, d}});
  const ValueId weights = softmax(one, one.product(x, one.transpose(x, {1, 0})), 1);
  one.output("y", one.product(weights, x));
  const Graph matrices = one.done();
  EXPECT_EQ(kinds(passed(matrices)), "input reshape attention reshape output");
  expect_judged(matrices, passed(matrices));
}

TEST(FuseAttention, QuantizationFollows) {
  Maker g;
  const auto [q, k, v] = packed_inputs(g);
  const ValueId scores = halved(g, g.product(split(g, q, h, {0, 2, 1, 3}), split(g, k, h, {0, 2, 3, 1})));
  const ValueId y = join(g, g.product(softmax(g, scores), split(g, v, h, {0, 2, 1, 3})));
  const ValueId biased = g.apply(ExprOp::add, y, g.input("bias", {f32, {h * dv}}));
  g.output("y", g.to_f8(biased, g.number(0.125)));
  const Graph before = g.done();
  const Graph after = passed(before);
  EXPECT_EQ(kinds(after), "input input input input attention output") << print(after);
  EXPECT_NE(print(after).find(" epilogue="), std::string::npos);
  expect_like_reference(before, after, random_inputs(before, 3), 0.02, 0.13);
}

TEST(FuseAttention, InRepeatsAndLayers) {
  Maker g;
  ValueId x = g.input("x", {f32, {1, m, h * d}});
  for (unsigned layer = 0; layer < 3; ++layer) {
    const ValueId weight = g.constant(random_tensor(f32, {h * d, h * d}, layer));
    const ValueId k = g.product(x, weight);
    const ValueId scores = halved(g, g.product(split(g, x, h, {0, 2, 1, 3}), split(g, k, h, {0, 2, 3, 1})));
    x = join(g, g.product(softmax(g, scores), split(g, x, h, {0, 2, 1, 3})));
  }
  g.output("y", x);
  const Graph before = g.done();
  const Graph after = passed(before);
  const std::string text = print(after);
  EXPECT_NE(text.find("repeat"), std::string::npos) << text;
  EXPECT_NE(text.find("  %"), std::string::npos);
  EXPECT_NE(text.find("attention"), std::string::npos) << text;
  EXPECT_EQ(text.find("rowwise"), std::string::npos) << text;
  EXPECT_EQ(text.find("transpose %"), std::string::npos) << text;
  expect_judged(before, after);
}

// Near misses: each stays as it is, and right.
TEST(FuseAttention, WhatIsSomethingElse) {
  const auto stays = [](const std::string& what, const Graph& before) {
    const Graph after = passed(before);
    EXPECT_EQ(kinds(after).find("attention"), std::string::npos) << what << print(after);
    expect_like_reference(before, after, random_inputs(before, 5), 1e-4, 1e-4);
  };
  stays("a factor of the weights", written_out({.weights = halved}));
  stays("a mask that is multiplied", written_out({.scores = masked_by({f32, {m, n}}, ExprOp::mul)}));
  stays("a mask before the scale", written_out({.scores = [](Maker& g, ValueId x) {
          return halved(g, g.apply(ExprOp::add, x, g.input("mask", {f32, {m, n}})));
        }}));
  stays("the square of scores",
        written_out({.scores = [](Maker& g, ValueId x) { return g.apply(ExprOp::mul, x, x); }}));
  stays("a number minus scores",
        written_out({.scores = [](Maker& g, ValueId x) { return g.apply(ExprOp::sub, g.number(1), x); }}));
  stays("a number over scores", written_out({.scores = [](Maker& g, ValueId x) {
          return g.apply(ExprOp::div, g.number(1), g.apply(ExprOp::add, x, g.number(9)));
        }}));
  stays("tanh alone", written_out({.scores = [](Maker& g, ValueId x) { return g.apply(ExprOp::tanh, x); }}));
  stays("a scale behind the cap",
        written_out({.scores = [](Maker& g, ValueId x) { return halved(g, halved(g, g.apply(ExprOp::tanh, x))); }}));
  stays("another softmax", written_out({.scores = [](Maker& g, ValueId x) { return softmax(g, x, 2); }}));
  stays("scores that are read", written_out({.scores = [](Maker& g, ValueId x) {
          g.output("scores", x);
          return x;
        }}));
  stays("weights that are read", written_out({.weights = [](Maker& g, ValueId x) {
          g.output("weights", x);
          return x;
        }}));
  stays("quantized weights", written_out({.weights = [](Maker& g, ValueId x) {
          const ValueId scale = g.number(0.125);
          return g.from_f8(g.to_f8(x, scale), scale);
        }}));
  stays("scores through FP8", written_out({.scores = [](Maker& g, ValueId x) { return g.cast(g.cast(x, f8), f32); }}));
  stays("f64 scores",
        written_out({.scores = [](Maker& g, ValueId x) { return g.cast(halved(g, g.cast(x, DType::f64)), f32); }}));
  {
    Maker g;  // along the rows
    const ValueId x = g.input("x", {f32, {m, m}});
    g.output("y", g.product(softmax(g, g.product(x, x), 0), x));
    stays("a softmax along queries", g.done());
  }
  {
    Maker g;  // weights transposed
    const ValueId x = g.input("x", {f32, {m, m}});
    g.output("y", g.product(softmax(g, g.product(x, x), 1), x, {.transpose_a = true, .epilogue = {}}));
    stays("transposed weights", g.done());
  }
  {
    Maker g;  // weights on the right
    const ValueId x = g.input("x", {f32, {m, m}});
    g.output("y", g.product(x, softmax(g, g.product(x, x), 1)));
    stays("weights as the second factor", g.done());
  }
  {
    Maker g;  // rows of all heads together
    const ValueId q = g.input("q", {f32, {2, 3, 4}});
    const ValueId k = g.input("k", {f32, {2, 4, 6}});
    const ValueId v = g.input("v", {f32, {3, 6, 5}});
    const ValueId weights = softmax(g, g.product(q, k), 2);
    g.output("y", g.product(g.reshape(weights, {3, 2, 6}), v));
    stays("rows that move", g.done());
  }
}

}  // namespace
}  // namespace low::test
