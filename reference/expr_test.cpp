#include "reference/expr.h"

#include <cmath>
#include <limits>

#include "reference/test_graphs.h"

namespace low::reference {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

// The result of op over elementwise operands of one type.
Tensor apply(ExprOp op, DType dtype, const std::vector<std::vector<double>>& operands) {
  std::vector<Tensor> inputs;
  for (const auto& operand : operands) {
    inputs.push_back(make(dtype, Shape{static_cast<int64_t>(operand.size())}, operand));
  }
  return run_one(inputs, [&](GraphBuilder& builder, const std::vector<ValueId>& x) {
    ExprBuilder e(static_cast<int>(x.size()));
    const uint16_t a = e.input(0, dtype);
    const uint16_t result = x.size() == 1 ? e.unary(op, a) : e.binary(op, a, e.input(1, dtype));
    return builder.pointwise(std::move(e).finish(result), x);
  });
}

Tensor converted(const Tensor& x, DType to, Overflow overflow = Overflow::propagate) {
  return run_one({x}, [&](GraphBuilder& builder, const std::vector<ValueId>& v) {
    ExprBuilder e(1);
    const uint16_t result = e.convert(e.input(0, x.dtype()), to, overflow);
    return builder.pointwise(std::move(e).finish(result), v);
  });
}

void expect_values(const Tensor& actual, const std::vector<double>& expected) {
  const std::vector<double> found = values(actual);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << i;
    } else {
      EXPECT_EQ(found[i], expected[i]) << i;
      EXPECT_EQ(std::signbit(found[i]), std::signbit(expected[i])) << i;
    }
  }
}

TEST(Expr, ExactFloatOperations) {
  constexpr DType f = DType::f64;
  expect_values(apply(ExprOp::neg, f, {{1, 0, -2.5}}), {-1, -0.0, 2.5});
  expect_values(apply(ExprOp::abs, f, {{-1, -0.0, nan, -inf}}), {1, 0, nan, inf});
  expect_values(apply(ExprOp::sqrt, f, {{9, 2.25, -1}}), {3, 1.5, nan});
  expect_values(apply(ExprOp::round_even, f, {{0.5, 1.5, 2.5, -0.5, 2.51, inf}}), {0, 2, 2, -0.0, 3, inf});
  expect_values(apply(ExprOp::floor, f, {{1.5, -1.5}}), {1, -2});
  expect_values(apply(ExprOp::ceil, f, {{1.5, -1.5}}), {2, -1});
  expect_values(apply(ExprOp::sign, f, {{3, -3, 0, nan}}), {1, -1, 0, nan});
  expect_values(apply(ExprOp::reciprocal, f, {{4, -0.0}}), {0.25, -inf});
  expect_values(apply(ExprOp::add, f, {{1, inf}, {2, -inf}}), {3, nan});
  expect_values(apply(ExprOp::sub, f, {{1}, {2}}), {-1});
  expect_values(apply(ExprOp::mul, f, {{3, 0}, {-2, inf}}), {-6, nan});
  expect_values(apply(ExprOp::div, f, {{1, 1, 0}, {4, 0, 0}}), {0.25, inf, nan});
  expect_values(apply(ExprOp::pow, f, {{2, -2, 4, nan}, {10, 3, 0.5, 0}}), {1024, -8, 2, 1});
  expect_values(apply(ExprOp::modulo, f, {{7.5, -7.5}, {2, 2}}), {1.5, -1.5});
  // NaN propagates from either side.
  expect_values(apply(ExprOp::min, f, {{1, nan, 2, 3}, {2, 1, nan, -inf}}), {1, nan, nan, -inf});
  expect_values(apply(ExprOp::max, f, {{1, nan, 2, 3}, {2, 1, nan, -inf}}), {2, nan, nan, 3});
}

TEST(Expr, Transcendentals) {
  // Values to 10 digits from mathematical tables.
  const auto check = [](ExprOp op, double x, double expected) {
    EXPECT_NEAR(apply(op, DType::f64, {{x}}).value(0), expected, 1e-9) << info(op).name;
  };
  check(ExprOp::exp, 1, 2.7182818285);
  check(ExprOp::log, 2, 0.6931471806);
  check(ExprOp::erf, 0.5, 0.5204998778);
  check(ExprOp::tanh, 0.5, 0.4621171573);
  check(ExprOp::sigmoid, 1, 0.7310585786);
  check(ExprOp::sigmoid, -1000, 0);
  check(ExprOp::sin, 1, 0.8414709848);
  check(ExprOp::cos, 1, 0.5403023059);
}

TEST(Expr, Comparisons) {
  const std::vector<double> a = {1, 2, 3, nan};
  const std::vector<double> b = {2, 2, 2, nan};
  expect_values(apply(ExprOp::equal, DType::f32, {a, b}), {0, 1, 0, 0});
  expect_values(apply(ExprOp::not_equal, DType::f32, {a, b}), {1, 0, 1, 1});
  expect_values(apply(ExprOp::less, DType::f32, {a, b}), {1, 0, 0, 0});
  expect_values(apply(ExprOp::less_equal, DType::f32, {a, b}), {1, 1, 0, 0});
  expect_values(apply(ExprOp::greater, DType::f32, {a, b}), {0, 0, 1, 0});
  expect_values(apply(ExprOp::greater_equal, DType::f32, {a, b}), {0, 1, 1, 0});
  expect_values(apply(ExprOp::is_nan, DType::f32, {a}), {0, 0, 0, 1});
  // The top bit is a sign only in signed types: 200 is -56 in i8.
  expect_values(apply(ExprOp::less, DType::u8, {{200}, {100}}), {0});
  expect_values(apply(ExprOp::less, DType::i8, {{-56}, {100}}), {1});
  expect_values(apply(ExprOp::logical_and, DType::boolean, {{0, 0, 1, 1}, {0, 1, 0, 1}}), {0, 0, 0, 1});
  expect_values(apply(ExprOp::logical_or, DType::boolean, {{0, 0, 1, 1}, {0, 1, 0, 1}}), {0, 1, 1, 1});
  expect_values(apply(ExprOp::logical_xor, DType::boolean, {{0, 0, 1, 1}, {0, 1, 0, 1}}), {0, 1, 1, 0});
  expect_values(apply(ExprOp::logical_not, DType::boolean, {{0, 1}}), {1, 0});
}

TEST(Expr, IntegersWrap) {
  expect_values(apply(ExprOp::add, DType::i8, {{127, -128}, {1, -1}}), {-128, 127});
  expect_values(apply(ExprOp::sub, DType::u8, {{0}, {1}}), {255});
  expect_values(apply(ExprOp::mul, DType::u16, {{300}, {300}}), {24464});  // 90000 - 65536
  expect_values(apply(ExprOp::neg, DType::i16, {{-32768, 5}}), {-32768, -5});
  expect_values(apply(ExprOp::abs, DType::i8, {{-128, -3}}), {-128, 3});
  expect_values(apply(ExprOp::sign, DType::i32, {{-7, 0, 7}}), {-1, 0, 1});
  expect_values(apply(ExprOp::div, DType::i8, {{7, -7, 7, -128}, {2, 2, 0, -1}}), {3, -3, 0, -128});
  expect_values(apply(ExprOp::div, DType::u8, {{255, 1}, {2, 0}}), {127, 0});
  expect_values(apply(ExprOp::modulo, DType::i8, {{7, -7, 7, -128}, {3, 3, 0, -1}}), {1, -1, 0, 0});
  expect_values(apply(ExprOp::pow, DType::i32, {{3, -2, 5, -1}, {4, 5, -1, -3}}), {81, -32, 0, -1});
  expect_values(apply(ExprOp::min, DType::i8, {{-1}, {1}}), {-1});
  expect_values(apply(ExprOp::max, DType::u8, {{255}, {1}}), {255});
  // i64: MIN / -1 and MIN - 1.
  const uint64_t minimum = uint64_t{1} << 63;
  const Tensor x = make_bits(DType::i64, {1}, {minimum});
  const Tensor minus_one = make_bits(DType::i64, {1}, {~uint64_t{0}});
  for (const auto& [op, expected] : {std::pair{ExprOp::div, minimum}, {ExprOp::add, minimum - 1}}) {
    const Tensor result = run_one({x, minus_one}, [&](GraphBuilder& builder, const std::vector<ValueId>& v) {
      ExprBuilder e(2);
      const uint16_t node = e.binary(op, e.input(0, DType::i64), e.input(1, DType::i64));
      return builder.pointwise(std::move(e).finish(node), v);
    });
    EXPECT_EQ(result.bits(0), expected);
  }
}

TEST(Expr, NarrowNodesRoundAndWideOnesDoNot) {
  // (x + 1) - x with x = 2^12: f16 has 11 bits, so x + 1 is a tie that goes to x (even): 0. With x = 2^24 in f32, kept
  // in double: 1, but 0 when the sum is stored in between.
  const auto difference = [](DType dtype, double x) {
    return run_one({make(dtype, {}, {x})},
                   [&](GraphBuilder& builder, const std::vector<ValueId>& v) {
                     ExprBuilder e(1);
                     const uint16_t a = e.input(0, dtype);
                     const uint16_t sum = e.binary(ExprOp::add, a, e.constant(dtype, 1));
                     return builder.pointwise(std::move(e).finish(e.binary(ExprOp::sub, sum, a)), v);
                   })
        .value(0);
  };
  EXPECT_EQ(difference(DType::f16, 4096), 0);
  EXPECT_EQ(difference(DType::bf16, 256), 0);
  EXPECT_EQ(difference(DType::f32, 16777216), 1);
  EXPECT_EQ(difference(DType::f64, 16777216), 1);
  // 3 * 0.4375 = 1.3125 lies between E4M3's 1.25 and 1.375, at the middle: to even, 1.25 (mantissa 010).
  expect_values(apply(ExprOp::mul, DType::f8e4m3fn, {{3}, {0.4375}}), {1.25});
  // Overflow: 65504 * 2 is infinite in f16; 448 * 2 is NaN in E4M3FN.
  expect_values(apply(ExprOp::mul, DType::f16, {{65504}, {2}}), {inf});
  expect_values(apply(ExprOp::mul, DType::f8e4m3fn, {{448}, {2}}), {nan});
}

TEST(Expr, ConvertRoundsInTheMiddle) {
  // f64 1 + 2^-30 rounds to 1 in f32, so the difference to 1 is 0.
  const Tensor result =
      run_one({make(DType::f64, {}, {1 + std::ldexp(1.0, -30)})}, [&](GraphBuilder& builder, const auto& v) {
        ExprBuilder e(1);
        const uint16_t narrow = e.convert(e.input(0, DType::f64), DType::f32);
        const uint16_t wide = e.convert(narrow, DType::f64);
        return builder.pointwise(std::move(e).finish(e.binary(ExprOp::sub, wide, e.constant(DType::f64, 1))), v);
      });
  EXPECT_EQ(result.value(0), 0);
}

TEST(Expr, Conversions) {
  const Tensor f = make(DType::f32, {8}, {2.9, -2.9, 300, -300, nan, inf, -inf, 0});
  expect_values(converted(f, DType::i8), {2, -2, 127, -128, 0, 127, -128, 0});
  expect_values(converted(f, DType::u8), {2, 0, 255, 0, 0, 255, 0, 0});
  expect_values(converted(f, DType::boolean), {1, 1, 1, 1, 1, 1, 1, 0});
  EXPECT_EQ(all_bits(converted(make(DType::f64, {3}, {1e30, -1e30, 1e19}), DType::i64)),
            (std::vector<uint64_t>{~uint64_t{0} >> 1, uint64_t{1} << 63, ~uint64_t{0} >> 1}));
  EXPECT_EQ(all_bits(converted(make(DType::f64, {3}, {1e30, -1, 1e19}), DType::u64)),
            (std::vector<uint64_t>{~uint64_t{0}, 0, 10000000000000000000U}));
  // Integers wrap: 300 = 256 + 44; -1 is all ones.
  expect_values(converted(make(DType::i32, {2}, {300, -1}), DType::u8), {44, 255});
  expect_values(converted(make(DType::i32, {2}, {256, 0}), DType::boolean), {1, 0});
  expect_values(converted(make(DType::boolean, {2}, {1, 0}), DType::f16), {1, 0});
  // 2^24 + 1 is a tie in f32 (to even: 2^24); 2^54 + 2^30 + 1 lies just above the tie between 2^54 and 2^54 + 2^31,
  // which a rounding to double first would miss.
  const Tensor wide = make_bits(DType::i64, {2}, {(1U << 24) + 1, (uint64_t{1} << 54) + (uint64_t{1} << 30) + 1});
  expect_values(converted(wide, DType::f32), {16777216, std::ldexp(1.0, 54) + std::ldexp(1.0, 31)});
  expect_values(converted(make(DType::f32, {2}, {1000, inf}), DType::f8e4m3fn, Overflow::saturate), {448, 448});
  expect_values(converted(make(DType::f32, {2}, {1000, inf}), DType::f8e4m3fn), {nan, nan});
  expect_values(converted(make(DType::f32, {2}, {1e6, inf}), DType::f8e5m2), {inf, inf});
}

TEST(Expr, WhereBroadcastsAndUnusedInputs) {
  // c [2,1], a [3], b [] -> [2,3]; a fourth input is not used.
  const Tensor c = make(DType::boolean, {2, 1}, {1, 0});
  const Tensor a = make(DType::f32, {3}, {1, 2, 3});
  const Tensor b = make(DType::f32, {}, {9});
  const Tensor result = run_one({c, a, b, a}, [&](GraphBuilder& builder, const std::vector<ValueId>& v) {
    ExprBuilder e(4);
    const uint16_t node = e.where(e.input(0, DType::boolean), e.input(1, DType::f32), e.input(2, DType::f32));
    return builder.pointwise(std::move(e).finish(node), v);
  });
  EXPECT_EQ(result.shape(), (Shape{2, 3}));
  expect_values(result, {1, 2, 3, 9, 9, 9});
}

TEST(Expr, ZeroSizes) {
  const Tensor empty(DType::f32, {0, 3});
  const Tensor result = run_one({empty, make(DType::f32, {3}, {1, 2, 3})}, [&](GraphBuilder& builder, const auto& v) {
    ExprBuilder e(2);
    const uint16_t node = e.binary(ExprOp::add, e.input(0, DType::f32), e.input(1, DType::f32));
    return builder.pointwise(std::move(e).finish(node), v);
  });
  EXPECT_EQ(result.shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace low::reference
