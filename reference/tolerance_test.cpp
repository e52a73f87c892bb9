#include "reference/tolerance.h"

#include <cmath>
#include <random>

#include "reference/test_graphs.h"

namespace low::reference {
namespace {

constexpr double u32 = 0x1p-24;

ErrorBound bound_of(const std::vector<Type>& inputs, const BuildOne& build) {
  const auto graph = make_graph(
      inputs, [&](GraphBuilder& builder, const std::vector<ValueId>& x) { return std::vector{build(builder, x)}; });
  return graph ? error_bounds(*graph)[0] : ErrorBound{};
}

ValueId product(GraphBuilder& builder, ValueId a, ValueId b, DType result = DType::f32) {
  return builder.matmul({}, std::array{a, b}, result);
}

ValueId scalar(GraphBuilder& builder, DType type, double value) { return builder.constant(make(type, {}, {value})); }

TEST(ErrorBounds, WhatIsOnlyMovedOrWholeIsExact) {
  const ErrorBound moved = bound_of({{DType::f32, {2, 3}}}, [](GraphBuilder& builder, const auto& x) {
    return builder.reshape(builder.transpose(x[0], {1, 0}), {6});
  });
  EXPECT_EQ(moved.error, 0);
  EXPECT_EQ(tolerance_of(moved, make(DType::f32, {1}, {3})).absolute, 0);
  EXPECT_EQ(tolerance_of(moved, make(DType::f32, {1}, {3})).rms, 0);
  const ErrorBound integers =
      bound_of({{DType::i8, {2, 500}}, {DType::i8, {500, 3}}}, [](GraphBuilder& builder, const auto& x) {
        return builder.matmul({.accumulate = DType::i32}, std::array{x[0], x[1]}, DType::i32);
      });
  EXPECT_EQ(integers.error, 0);
  EXPECT_EQ(tolerance_of(integers, make(DType::i32, {1}, {3})).absolute, 0);
  EXPECT_EQ(reason(integers), "exact, since nothing is summed in floats and no function is evaluated");
}

TEST(ErrorBounds, SumsWalkAtRandom) {
  const std::vector<Type> types = {{DType::f32, {2, 1152}}, {DType::f32, {1152, 1152}}, {DType::f32, {1152, 100}}};
  const ErrorBound one =
      bound_of(types, [](GraphBuilder& builder, const auto& x) { return product(builder, x[0], x[1]); });
  EXPECT_DOUBLE_EQ(one.error, u32 * std::sqrt(1152));
  EXPECT_EQ(one.step, 0);
  EXPECT_EQ(reason(one), "f32, sums of up to 1152 terms, depth 1");
  // One after another: the squares add.
  const ErrorBound two = bound_of(
      types, [](GraphBuilder& builder, const auto& x) { return product(builder, product(builder, x[0], x[1]), x[2]); });
  EXPECT_DOUBLE_EQ(two.error, u32 * std::sqrt(2 * 1152));
  EXPECT_EQ(two.depth, 2);
  // Stored transposed: K is another axis.
  const ErrorBound transposed =
      bound_of({{DType::f32, {9, 2}}, {DType::f32, {9, 3}}}, [](auto& builder, const auto& x) {
        return builder.matmul({.transpose_a = true}, std::array{x[0], x[1]}, DType::f32);
      });
  EXPECT_EQ(transposed.terms, 9);
  const ErrorBound doubles = bound_of({{DType::f64, {2, 16}}, {DType::f64, {16, 2}}}, [](auto& builder, const auto& x) {
    return builder.matmul({.accumulate = DType::f64}, std::array{x[0], x[1]}, DType::f64);
  });
  EXPECT_DOUBLE_EQ(doubles.error, 0x1p-53 * 4);
}

TEST(ErrorBounds, ABodyCountsAsOftenAsItRuns) {
  // x <- x * w, five times; each product is collected, too.
  const Type type{DType::f32, {4, 4}};
  const auto body = make_graph({type, type}, [](GraphBuilder& builder, const std::vector<ValueId>& x) {
    const ValueId next = product(builder, x[0], x[1]);
    return std::vector{next, next};
  });
  const auto graph = make_graph({type, type}, [&](GraphBuilder& builder, const std::vector<ValueId>& x) {
    return builder.repeat({.count = 5, .carried = 1, .invariant = 1, .collected = 1, .body = body}, x);
  });
  ASSERT_TRUE(graph);
  for (const ErrorBound& bound : error_bounds(*graph)) {
    EXPECT_DOUBLE_EQ(bound.error, u32 * std::sqrt(5 * 4));
    EXPECT_EQ(bound.depth, 5);
  }
}

TEST(ErrorBounds, RoundingToFewBitsFlips) {
  const ErrorBound bound = bound_of({{DType::bf16, {2, 16}}, {DType::bf16, {16, 6}}}, [](auto& builder, const auto& x) {
    return product(builder, x[0], x[1], DType::bf16);
  });
  // e = u sqrt(16), h = 2^-7, 12 elements.
  const double e = u32 * 4, h = 0x1p-7;
  EXPECT_DOUBLE_EQ(bound.error, std::hypot(e, std::sqrt(h * e) + h * std::sqrt(3.0 / 12)));
  EXPECT_EQ(bound.step, h);
  EXPECT_EQ(reason(bound), "bf16, sums of up to 16 terms, depth 1");
  // What was not computed rounds to the same on both sides.
  EXPECT_EQ(
      bound_of({{DType::f32, {5}}}, [](auto& builder, const auto& x) { return builder.cast(x[0], DType::f16); }).error,
      0);
}

TEST(ErrorBounds, Fp8IsWhatDependsOnAnInput) {
  const auto quantized = [](GraphBuilder& builder, ValueId x) {
    return builder.quantize({}, std::array{x, scalar(builder, DType::f32, 0.1)}, DType::f8e4m3fn);
  };
  const auto dequantized = [&](GraphBuilder& builder, ValueId x) {
    return builder.dequantize({}, std::array{quantized(builder, x), scalar(builder, DType::f32, 0.1)}, DType::f32);
  };
  const Type x{DType::f32, {4, 4}};
  const ErrorBound activations = bound_of(
      {x, x}, [&](auto& builder, const auto& v) { return product(builder, dequantized(builder, v[0]), v[1]); });
  EXPECT_TRUE(activations.fp8);
  // x / scale is off by u at most, and a step is 2^-3: 16 elements, of which 16 * 2^-21 are rounded apart.
  EXPECT_DOUBLE_EQ(activations.flips, 0x1p-17);
  EXPECT_EQ(reason(activations), "few FP8 operands");
  const Tolerance few = tolerance_of(activations, Tensor(DType::f32, {4, 4}));
  EXPECT_EQ(few.absolute, 0.2);
  EXPECT_EQ(few.relative, 0.05);
  EXPECT_NEAR(few.rms, 0.0002, 1e-7);
  // Equal when quantized, then dequantized and summed: 1 + 4.
  EXPECT_DOUBLE_EQ(activations.steady_error, u32 * std::sqrt(5));
  // As many as 2^16 * 2^-21 are.
  const ErrorBound many = bound_of({{DType::f32, {1 << 14, 4}}, x}, [&](auto& builder, const auto& v) {
    return product(builder, dequantized(builder, v[0]), v[1]);
  });
  EXPECT_EQ(reason(many), "FP8 operands");
  const Tolerance fixed = tolerance_of(many, Tensor(DType::f32, {100, 100}));
  EXPECT_EQ(fixed.absolute, 0.2);
  EXPECT_EQ(fixed.relative, 0.05);
  EXPECT_NEAR(fixed.rms, 0.003, 1e-9);
  const ErrorBound weights = bound_of({x}, [&](auto& builder, const auto& v) {
    return product(builder, v[0], dequantized(builder, builder.constant(Tensor(DType::f32, {4, 4}))));
  });
  EXPECT_FALSE(weights.fp8);
  // An output in FP8 may be off by a step of it, three such steps among 300 elements: 1/8 sqrt(3 / 300).
  const ErrorBound output =
      bound_of({{DType::f32, {1 << 16}}}, [&](auto& builder, const auto& v) { return quantized(builder, v[0]); });
  const Tolerance steps = tolerance_of(output, Tensor(DType::f8e4m3fn, {300}));
  EXPECT_EQ(steps.relative, 0.125);
  EXPECT_DOUBLE_EQ(steps.rms, std::hypot(0.003, 0.0125));
}

TEST(ErrorBounds, IntegersFromFloatsMayBeOffByOne) {
  const ErrorBound bound = bound_of({{DType::f32, {100}}}, [](GraphBuilder& builder, const auto& x) {
    return builder.quantize({}, std::array{x[0], scalar(builder, DType::f32, 0.1)}, DType::i8);
  });
  EXPECT_FALSE(bound.fp8);
  const Tolerance tolerance = tolerance_of(bound, make(DType::i8, {2}, {30, 40}));
  EXPECT_GE(tolerance.absolute, 1);
  EXPECT_LT(tolerance.absolute, 6);  // of at most 127, for as few as 100 elements
  EXPECT_GT(tolerance.rms, 0);
}

TEST(ErrorBounds, AttentionIsThreeSums) {
  const Type type{DType::f32, {1, 13, 30}};
  const ErrorBound bound = bound_of({type, type, type}, [](GraphBuilder& builder, const auto& x) {
    return builder.attention({.q_heads = 3, .kv_heads = 3}, x, DType::f32);
  });
  EXPECT_EQ(bound.depth, 3);
  EXPECT_EQ(bound.terms, 13);
  // Scores, whose error the softmax doubles; the softmax's sum and its exp; the values' sum.
  EXPECT_DOUBLE_EQ(bound.error, u32 * std::sqrt(4 * 10 + 13 + 64 + 13));
}

TEST(ErrorBounds, TolerancesFollowTheSizeOfTheReference) {
  const ErrorBound bound{.error = 1e-6, .steady_error = 1e-6, .terms = 9, .depth = 1, .format = DType::f32};
  for (const double scale : {1.0, 1e-20, 1e20}) {
    // RMS 5: sqrt((9 + 16 + 50) / 3).
    const Tolerance tolerance =
        tolerance_of(bound, make(DType::f64, {3}, {3 * scale, -4 * scale, std::sqrt(50) * scale}));
    EXPECT_NEAR(tolerance.absolute, 16e-6 * 5 * scale, 1e-9 * scale);
    EXPECT_NEAR(tolerance.relative, 16e-6, 1e-12);
    EXPECT_NEAR(tolerance.rms, 4e-6, 1e-12);
  }
}

// The two laws, against numbers: sums in float of random terms, and values that are rounded to bf16 after they were
// disturbed.
TEST(ErrorBounds, AreOfTheSizeOfRealErrors) {
  constexpr uint32_t seed = 7;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  constexpr int samples = 2000, terms = 1152;
  double squared_error = 0, squares = 0;
  for (int sample = 0; sample < samples; ++sample) {
    double exact = 0;
    float sum = 0;
    for (int i = 0; i < terms; ++i) {
      const auto a = static_cast<float>(normal(random)), b = static_cast<float>(normal(random));
      exact += double{a} * b;
      sum += a * b;
    }
    squared_error += (sum - exact) * (sum - exact);
    squares += exact * exact;
  }
  const ErrorBound sums = bound_of({{DType::f32, {1, terms}}, {DType::f32, {terms, 2000}}},
                                   [](auto& builder, const auto& x) { return product(builder, x[0], x[1]); });
  const double measured = std::sqrt(squared_error / squares);
  EXPECT_LT(measured, sums.error) << "seed " << seed;
  EXPECT_GT(measured, sums.error / 10) << "seed " << seed;

  squared_error = squares = 0;
  constexpr int values = 200000;
  for (int i = 0; i < values; ++i) {
    const double x = normal(random), disturbed = x + sums.error * normal(random);
    const auto to_bf16 = [](double value) {
      return decode(DType::bf16, encode(DType::bf16, value, Overflow::propagate));
    };
    squared_error += std::pow(to_bf16(disturbed) - to_bf16(x), 2);
    squares += x * x;
  }
  const ErrorBound rounded =
      bound_of({{DType::f32, {100, terms}}, {DType::f32, {terms, 2000}}},
               [](auto& builder, const auto& x) { return builder.cast(product(builder, x[0], x[1]), DType::bf16); });
  const double flipped = std::sqrt(squared_error / squares);
  EXPECT_LT(flipped, rounded.error) << "seed " << seed;
  EXPECT_GT(flipped, rounded.error / 4) << "seed " << seed;
}

}  // namespace
}  // namespace low::reference
