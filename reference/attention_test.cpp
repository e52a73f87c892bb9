// Attention against arithmetic by hand, and against its parts: matmuls, pointwise operations and a softmax.
#include <cmath>

#include "reference/test_graphs.h"
#include "runtime/tensor/random_tensor.h"

namespace low::reference {
namespace {

constexpr DType f32 = DType::f32;
using Values = std::vector<double>;
using Operands = const std::vector<ValueId>&;
const double e = std::exp(1.0);

void expect_near(const Tensor& actual, const Values& expected, double tolerance = 1e-6) {
  ASSERT_EQ(actual.elements(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = actual.value(static_cast<int64_t>(i));
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(value)) << "element " << i;
    } else {
      EXPECT_NEAR(value, expected[i], tolerance) << "element " << i;
    }
  }
}

Tensor attend(const Attention& attributes, const std::vector<Tensor>& operands, DType to = f32) {
  return run_one(operands, [&](GraphBuilder& b, Operands v) { return b.attention(attributes, v, to); });
}

// Two queries 1 and 2, keys 0 and 1, values 3 and 7: scores 0 and 1 (0 and 2), weights 1 / (1 + e) and e / (1 + e).
TEST(AttentionReference, ByHand) {
  const Tensor q = make(f32, {1, 2, 1}, {1, 2});
  const Tensor k = make(f32, {1, 2, 1}, {0, 1});
  const Tensor v = make(f32, {1, 2, 1}, {3, 7});
  const auto mean = [](double score) { return (3 + 7 * std::exp(score)) / (1 + std::exp(score)); };
  expect_near(attend({}, {q, k, v}), {mean(1), mean(2)});
  expect_near(attend({.scale = 0.5}, {q, k, v}), {mean(0.5), mean(1)});
  expect_near(attend({.softcap = 0.5}, {q, k, v}), {mean(0.5 * std::tanh(2.0)), mean(0.5 * std::tanh(4.0))});
  // The second query sees both keys, the first one only the first.
  expect_near(attend({.diagonal = 0}, {q, k, v}), {3, mean(2)});
  expect_near(attend({.diagonal = 1}, {q, k, v}), {mean(1), mean(2)});
  expect_near(attend({.diagonal = -1}, {q, k, v}), {std::nan(""), 3});
  expect_near(attend({.diagonal = -1, .empty_is_zero = true}, {q, k, v}), {0, 3});
  // The cap comes before the mask.
  Attention masked{.masked = true, .softcap = 0.5};
  expect_near(attend(masked, {q, k, v, make(f32, {1, 1, 1, 2}, {0, 10})}),
              {mean(10 + 0.5 * std::tanh(2.0)), mean(10 + 0.5 * std::tanh(4.0))});
  masked.softcap = 0;
  expect_near(attend(masked, {q, k, v, make(DType::boolean, {1, 1, 2, 2}, {0, 1, 1, 0})}), {7, 3});
  expect_near(attend(masked, {q, k, v, make(f32, {1, 1, 2, 1}, {-HUGE_VAL, 2})}), {std::nan(""), mean(2)});
  // A number in place of a score; rows of it alone are the average.
  masked.masked_score = -100;
  expect_near(attend(masked, {q, k, v, make(DType::boolean, {1, 1, 2, 2}, {0, 1, 0, 0})}), {7, 5});
  masked.masked_score = 1;
  expect_near(attend(masked, {q, k, v, make(DType::boolean, {1, 1, 2, 2}, {0, 1, 1, 1})}), {5, mean(2)});
  masked.masked_score = Attention().masked_score;
  masked.empty_is_zero = true;
  expect_near(attend(masked, {q, k, v, make(f32, {1, 1, 2, 1}, {-HUGE_VAL, 2})}), {0, mean(2)});
  // Then a key without weight takes no part, though its score is infinite.
  const Tensor endless = make(f32, {1, 2, 1}, {HUGE_VAL, 1});
  const Tensor first_alone = make(f32, {1, 1, 2, 2}, {-HUGE_VAL, -HUGE_VAL, 0, -HUGE_VAL});
  expect_near(attend(masked, {endless, make(f32, {1, 2, 1}, {1, 2}), v, first_alone}), {0, 3});
}

// Four heads in two batches; two heads of queries share one of keys, and both batches share all keys. Each key wins by
// far where the query has its sign.
TEST(AttentionReference, PackedHeadsAndGroups) {
  const Tensor q = make(f32, {2, 1, 4}, {100, -100, 100, -100, -100, 100, 100, 100});
  const Tensor k = make(f32, {1, 2, 2}, {1, 2, -1, -2});
  const Tensor v = make(f32, {1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});  // two heads of two elements
  const Values expected = {1, 2, 5, 6, 3, 4, 7, 8, 5, 6, 1, 2, 3, 4, 3, 4};
  expect_near(attend({.q_heads = 4, .kv_heads = 2}, {q, k, v}), expected);
  // The same heads as batches of one.
  const Tensor single = make(f32, {8, 1, 1}, values(q));
  const Tensor keys = make(f32, {4, 2, 1}, {1, -1, 2, -2, 1, -1, 2, -2});
  const Tensor items = make(f32, {4, 2, 2}, {1, 2, 5, 6, 3, 4, 7, 8, 1, 2, 5, 6, 3, 4, 7, 8});
  expect_near(attend({}, {single, keys, items}), expected);
}

// A mask of two heads over three scores' batches of packed heads: number (batch * 3 + head) / 2, % 2.
TEST(AttentionReference, MaskHeadsCountBatchesAndHeads) {
  const Tensor q = make(f32, {2, 1, 3}, {0, 0, 0, 0, 0, 0});
  const Tensor k = make(f32, {2, 2, 3}, Values(12, 0));
  const Tensor v = make(f32, {2, 2, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  const Attention attributes{.q_heads = 3, .kv_heads = 3, .mask_heads = 2, .masked = true};
  const Tensor mask = make(DType::boolean, {3, 2, 1, 2}, {1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 0, 1});
  expect_near(attend(attributes, {q, k, v, mask}), {1, 2, 1.5, 1, 2, 2});
  expect_near(attend(attributes, {q, k, v, make(DType::boolean, {1, 2, 1, 2}, {1, 0, 0, 1})}), {1, 2, 1, 2, 1, 2});
  expect_near(attend(attributes, {q, k, v, make(DType::boolean, {3, 1, 1, 2}, {1, 0, 0, 1, 1, 1})}),
              {1, 1, 2, 2, 1.5, 1.5});
}

TEST(AttentionReference, EpilogueAndTypes) {
  ExprBuilder expr(2);
  const uint16_t sum = expr.binary(ExprOp::add, expr.input(0, f32), expr.input(1, f32));
  Attention attributes{.q_heads = 2, .kv_heads = 2};
  attributes.epilogue = std::move(expr).finish(expr.convert(sum, DType::f16));
  const Tensor q = make(DType::f8e4m3fn, {1, 1, 2}, {0, 1});
  const Tensor k = make(DType::bf16, {1, 2, 2}, {5, 0, 5, 1});
  const Tensor v = make(f32, {1, 2, 2}, {2, 0, 4, 1});
  const Tensor y = attend(attributes, {q, k, v, make(f32, {2}, {10, 20})}, DType::f16);
  EXPECT_EQ(y.dtype(), DType::f16);
  expect_near(y, {13, 20 + e / (1 + e)}, 0.01);
  // f64 stays exact to its last bits.
  const Tensor wide = attend(
      {}, {make(DType::f64, {1, 1, 1}, {1}), make(f32, {1, 2, 1}, {0, 1}), make(f32, {1, 2, 1}, {0, 1})}, DType::f64);
  expect_near(wide, {e / (1 + e)}, 1e-15);
}

// Against the parts, on random numbers of odd extents.
TEST(AttentionReference, IsItsParts) {
  constexpr int64_t b = 2, h = 6, g = 3, m = 5, n = 7, d = 4, dv = 9;
  const Tensor q = random_tensor(f32, {b, m, h * d}, 1);
  const Tensor k = random_tensor(f32, {b, n, g * d}, 2);
  const Tensor v = random_tensor(f32, {b, n, g * dv}, 3);
  const Tensor mask = random_tensor(f32, {b, h, m, n}, 4);
  const Attention attributes{
      .q_heads = h, .kv_heads = g, .mask_heads = h, .masked = true, .scale = 0.7, .softcap = 1.5};
  const Tensor whole = attend(attributes, {q, k, v, mask});
  const Tensor parts = run_one({q, k, v, mask}, [&](GraphBuilder& builder, Operands x) {
    const auto split = [&](ValueId value, int64_t heads) {
      const Shape shape = builder.type(value).shape;
      return builder.transpose(builder.reshape(value, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
    };
    const ValueId grouped[] = {builder.reshape(split(x[0], h), {b, g, h / g, m, d}),
                               builder.reshape(split(x[1], g), {b, g, 1, n, d})};
    const ValueId scores = builder.matmul({.transpose_b = true, .epilogue = {}}, grouped, f32);
    ExprBuilder expr(2);
    uint16_t score = expr.binary(ExprOp::mul, expr.input(0, f32), expr.constant(f32, 0.7));
    score = expr.unary(ExprOp::tanh, expr.binary(ExprOp::div, score, expr.constant(f32, 1.5)));
    score = expr.binary(ExprOp::mul, score, expr.constant(f32, 1.5));
    const uint16_t result = expr.binary(ExprOp::add, score, expr.input(1, f32));
    const ValueId pair[] = {builder.reshape(scores, {b, h, m, n}), x[3]};
    const ValueId capped = builder.pointwise(std::move(expr).finish(result), pair);
    const ValueId weights = builder.rowwise({.axes = {3}}, {&capped, 1}, f32);
    const ValueId product[] = {builder.reshape(weights, {b, g, h / g, m, n}),
                               builder.reshape(split(x[2], g), {b, g, 1, n, dv})};
    const ValueId y = builder.reshape(builder.matmul({.epilogue = {}}, product, f32), {b, h, m, dv});
    return builder.reshape(builder.transpose(y, {0, 2, 1, 3}), {b, m, h * dv});
  });
  expect_near(whole, values(parts), 2e-6);
}

TEST(AttentionReference, ThreadsDoNotMatterAndNothingIsNoError) {
  const std::vector<Tensor> inputs = {random_tensor(f32, {3, 67, 10}, 1), random_tensor(f32, {3, 11, 10}, 2),
                                      random_tensor(f32, {3, 11, 15}, 3)};
  const auto build = [](GraphBuilder& b, Operands v) { return b.attention({.q_heads = 5, .kv_heads = 5}, v, f32); };
  ThreadPool pool(3);
  EXPECT_EQ(run_one(inputs, build), run_one(inputs, build, &pool));
  EXPECT_EQ(attend({}, {Tensor(f32, {2, 0, 3}), Tensor(f32, {1, 4, 3}), Tensor(f32, {1, 4, 5})}).shape(),
            (Shape{2, 0, 5}));
  EXPECT_EQ(attend({}, {Tensor(f32, {0, 2, 3}), Tensor(f32, {0, 4, 3}), Tensor(f32, {0, 4, 5})}).shape(),
            (Shape{0, 2, 5}));
}

}  // namespace
}  // namespace low::reference
