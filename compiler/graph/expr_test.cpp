#include "compiler/graph/expr.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/graph/quantize_expr.h"

namespace low {
namespace {

uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }
float real(uint64_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value)); }

Expr binary(ExprOp op, DType type) {
  ExprBuilder builder(2);
  return std::move(builder).finish(builder.binary(op, builder.input(0, type), builder.input(1, type)));
}
Expr unary(ExprOp op, DType type) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.unary(op, builder.input(0, type)));
}
Expr conversion(DType from, DType to, Overflow overflow = Overflow::propagate) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.convert(builder.input(0, from), to, overflow));
}

TEST(Expr, TableNamesAreUnique) {
  for (const ExprOpInfo& entry : expr_ops()) EXPECT_EQ(parse_expr_op(entry.name), entry.op) << entry.name;
  EXPECT_FALSE(parse_expr_op("nothing").has_value());
}

TEST(Expr, IntegerArithmeticWrapsAndNeverTraps) {
  struct Case {
    ExprOp op;
    DType type;
    int64_t a, b, expected;
  };
  const Case cases[] = {
      {ExprOp::add, DType::i8, 127, 1, -128},  // 128 - 256
      {ExprOp::sub, DType::u8, 0, 1, 255},
      {ExprOp::mul, DType::i8, 100, 3, 44},  // 300 - 256
      {ExprOp::div, DType::i8, -7, 2, -3},   // toward zero
      {ExprOp::div, DType::i8, 5, 0, 0},
      {ExprOp::div, DType::i8, -128, -1, -128},
      {ExprOp::div, DType::i64, INT64_MIN, -1, INT64_MIN},
      {ExprOp::modulo, DType::i32, -7, 3, -1},  // the dividend's sign
      {ExprOp::modulo, DType::i32, 7, -3, 1},
      {ExprOp::modulo, DType::i32, 7, 0, 0},
      {ExprOp::modulo, DType::i64, INT64_MIN, -1, 0},
      {ExprOp::pow, DType::i32, -3, 3, -27},
      {ExprOp::pow, DType::u8, 2, 8, 0},  // 256 wraps
      {ExprOp::pow, DType::i32, 2, -1, 0},
      {ExprOp::pow, DType::i32, -1, -3, -1},
      {ExprOp::pow, DType::i32, 0, 0, 1},
      {ExprOp::max, DType::u64, -1, 1, -1},  // 2^64 - 1 is the larger
      {ExprOp::max, DType::i64, -1, 1, 1},
      {ExprOp::less, DType::u64, -1, 1, 0},
      {ExprOp::less, DType::i64, -1, 1, 1},
  };
  for (const Case& c : cases) {
    const uint64_t inputs[] = {static_cast<uint64_t>(c.a), static_cast<uint64_t>(c.b)};
    const uint64_t mask = c.op == ExprOp::less ? 1 : ~uint64_t{0} >> (64 - 8 * byte_size(c.type));
    EXPECT_EQ(evaluate(binary(c.op, c.type), inputs), static_cast<uint64_t>(c.expected) & mask)
        << info(c.op).name << " " << name(c.type) << " " << c.a << " " << c.b;
  }
}

TEST(Expr, FloatsPropagateNaNAndRoundEachNode) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ExprOp op : {ExprOp::min, ExprOp::max}) {
    const uint64_t left[] = {bits(nan), bits(1)};
    const uint64_t right[] = {bits(1), bits(nan)};
    EXPECT_TRUE(std::isnan(real(evaluate(binary(op, DType::f32), left))));
    EXPECT_TRUE(std::isnan(real(evaluate(binary(op, DType::f32), right))));
  }
  const uint64_t nans[] = {bits(nan), bits(nan)};
  EXPECT_EQ(evaluate(binary(ExprOp::not_equal, DType::f32), nans), 1u);
  EXPECT_EQ(evaluate(binary(ExprOp::equal, DType::f32), nans), 0u);
  EXPECT_EQ(evaluate(binary(ExprOp::greater_equal, DType::f32), nans), 0u);
  // f16: 2048 + 1 = 2049 lies between 2048 and 2050 and goes to the even 2048.
  const uint64_t halves[] = {encode(DType::f16, 2048, Overflow::propagate), encode(DType::f16, 1, Overflow::propagate)};
  EXPECT_EQ(decode(DType::f16, evaluate(binary(ExprOp::add, DType::f16), halves)), 2048);
  // f16: 60000 + 60000 overflows to infinity.
  const uint64_t large[] = {encode(DType::f16, 60000, Overflow::propagate),
                            encode(DType::f16, 60000, Overflow::propagate)};
  EXPECT_TRUE(std::isinf(decode(DType::f16, evaluate(binary(ExprOp::add, DType::f16), large))));
  for (const auto& [x, expected] : {std::pair{0.5F, 0.F}, {1.5F, 2.F}, {2.5F, 2.F}, {-0.5F, -0.F}}) {
    const uint64_t input[] = {bits(x)};
    EXPECT_EQ(evaluate(unary(ExprOp::round_even, DType::f32), input), bits(expected)) << x;
  }
}

TEST(Expr, Conversions) {
  struct Case {
    DType from, to;
    double value, expected;
  };
  const Case cases[] = {
      {DType::f32, DType::i8, 200, 127},
      {DType::f32, DType::i8, -200, -128},
      {DType::f32, DType::u8, -3, 0},
      {DType::f32, DType::i32, -2.9, -2},
      {DType::f32, DType::i32, 3e9, 2147483647},
      {DType::f32, DType::u32, 3e9, 3e9},
      {DType::f32, DType::boolean, 0.25, 1},
      {DType::f32, DType::boolean, -0.0, 0},
      {DType::f64, DType::f16, 65520, std::numeric_limits<double>::infinity()},
  };
  for (const Case& c : cases) {
    const uint64_t input[] = {encode(c.from, c.value, Overflow::propagate)};
    const uint64_t out = evaluate(conversion(c.from, c.to), input);
    const double value =
        is_float(c.to) ? decode(c.to, out)
        : is_signed_integer(c.to)
            ? static_cast<double>(static_cast<int64_t>(out << (64 - 8 * byte_size(c.to))) >> (64 - 8 * byte_size(c.to)))
            : static_cast<double>(out);
    EXPECT_EQ(value, c.expected) << name(c.from) << " " << name(c.to) << " " << c.value;
  }
  const uint64_t nan[] = {bits(std::numeric_limits<float>::quiet_NaN())};
  EXPECT_EQ(evaluate(conversion(DType::f32, DType::i32), nan), 0u);
  EXPECT_EQ(evaluate(conversion(DType::f32, DType::boolean), nan), 1u);
  const uint64_t minus_one[] = {0xff};
  EXPECT_EQ(evaluate(conversion(DType::i8, DType::u32), minus_one), 0xffffffffu);
  // 2^53 + 2^29 + 1 is just above the middle of two f32 values (spacing 2^30): rounding to double first would lose the
  // 1 and then take the even one below.
  const uint64_t wide[] = {(uint64_t{1} << 53) + (uint64_t{1} << 29) + 1};
  EXPECT_EQ(real(evaluate(conversion(DType::i64, DType::f32), wide)), std::ldexp(1.0F, 53) + std::ldexp(1.0F, 30));
  const uint64_t too_large[] = {bits(1000)};
  EXPECT_EQ(evaluate(conversion(DType::f32, DType::f8e4m3fn, Overflow::saturate), too_large), 0x7eu);  // 448
  EXPECT_EQ(evaluate(conversion(DType::f32, DType::f8e4m3fn, Overflow::propagate), too_large) & 0x7f, 0x7fu);
}

TEST(Expr, QuantizeAndDequantize) {
  const Expr quantize = quantize_expr(DType::f32, DType::f32, true, DType::i8, Overflow::saturate);
  const uint64_t x[] = {bits(2.5F), bits(1), 10};
  EXPECT_EQ(evaluate(quantize, x), 12u);  // round_even(2.5) + 10
  const uint64_t far[] = {bits(-1000), bits(0.5F), 0xff};
  EXPECT_EQ(evaluate(quantize, far), 0x80u);  // -128
  const Expr dequantize = dequantize_expr(DType::i8, DType::f32, true, DType::f32);
  const uint64_t q[] = {0x80, bits(2), 127};
  EXPECT_EQ(real(evaluate(dequantize, q)), -510);  // (-128 - 127) * 2
}

TEST(Expr, BuilderSharesPrunesAndOrders) {
  ExprBuilder builder(2);
  const uint16_t dead = builder.constant(DType::f32, 7);
  const uint16_t b = builder.input(1, DType::f32);
  const uint16_t a = builder.input(0, DType::f32);
  EXPECT_EQ(builder.input(1, DType::f32), b);
  EXPECT_EQ(builder.convert(a, DType::f32), a);
  const uint16_t sum = builder.binary(ExprOp::add, a, b);
  builder.binary(ExprOp::mul, sum, dead);
  const Expr expr = std::move(builder).finish(builder.binary(ExprOp::mul, sum, sum));
  EXPECT_EQ(to_string(expr), "t0 = input.f32 0; t1 = input.f32 1; t2 = add.f32 t0 t1; t3 = mul.f32 t2 t2");
  EXPECT_TRUE(verify(expr, "x"));
  const uint64_t inputs[] = {bits(2), bits(3)};
  EXPECT_EQ(real(evaluate(expr, inputs)), 25);
}

TEST(Expr, VerifyRefuses) {
  const ExprNode input{.op = ExprOp::input, .dtype = DType::f32};
  const auto expect = [](Expr expr, std::string_view part) {
    const Result<void> verified = verify(expr, "e");
    ASSERT_FALSE(verified) << part;
    EXPECT_EQ(verified.error().kind, ErrorKind::internal);
    EXPECT_NE(verified.error().message.find(part), std::string::npos) << verified.error().message;
  };
  expect({{}, 0}, "without nodes");
  expect({{input}, 0}, "input 0 of an expression with 0 inputs");
  expect({{input, {.op = ExprOp::neg, .operand = {1, 0, 0}}}, 1}, "not an earlier node");
  expect({{input, {.op = ExprOp::neg, .dtype = DType::f16}}, 1}, "a result f16");
  expect({{input, {.op = ExprOp::neg, .operand = {0, 1, 0}}}, 1}, "beyond its arity");
  expect({{input, {.op = ExprOp::logical_not, .dtype = DType::boolean}}, 1}, "an operand f32");
  expect({{input, {.op = ExprOp::equal}}, 1}, "a result f32");
  expect({{input, {.op = ExprOp::where}}, 1}, "condition");
  expect({{input, {.op = ExprOp::neg}, {.op = ExprOp::abs}}, 1}, "no other node uses it");
  expect({{input, {.op = ExprOp::neg, .overflow = Overflow::saturate}}, 1}, "overflow");
  expect({{{.op = ExprOp::constant, .dtype = DType::i8, .literal = 256}}, 0}, "wider");
  expect({{{.op = ExprOp::constant, .dtype = DType::boolean, .literal = 2}}, 0}, "boolean literal");
  expect({{input,
           {.op = ExprOp::input, .dtype = DType::f16},
           {.op = ExprOp::convert, .operand = {1, 0, 0}},
           {.op = ExprOp::add, .operand = {0, 2, 0}}},
          1},
         "read as");
  expect({{input, {.op = static_cast<ExprOp>(200)}}, 1}, "operation 200");
  expect({{{.op = ExprOp::input, .dtype = static_cast<DType>(99)}}, 1}, "dtype 99");
}

// A random expression over `inputs` f32 inputs; nodes of several dtypes.
Expr random_expr(std::mt19937& random, int inputs, int steps) {
  ExprBuilder builder(inputs);
  std::vector<uint16_t> nodes;
  for (int i = 0; i < inputs; ++i) nodes.push_back(builder.input(i, DType::f32));
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const auto any = [&](DType type) {
    return builder.convert(nodes[pick(nodes.size())], type, pick(2) == 0 ? Overflow::saturate : Overflow::propagate);
  };
  for (int i = 0; i < steps; ++i) {
    const auto op = static_cast<ExprOp>(static_cast<size_t>(ExprOp::neg) + pick(expr_ops().size() - 3));
    auto type = static_cast<DType>(pick(dtype_count));
    const int arity = info(op).arity;
    if (op >= ExprOp::bit_and)
      type = is_integer(type) ? type : DType::u16;
    else if (op >= ExprOp::logical_and && op <= ExprOp::logical_xor)
      type = DType::boolean;
    else if (op == ExprOp::logical_not)
      type = DType::boolean;
    else if (arity == 1 && !is_float(type))
      type = DType::f16;
    else if (type == DType::boolean && op != ExprOp::where)
      type = DType::f32;
    if (arity == 1) nodes.push_back(builder.unary(op, any(type)));
    if (arity == 2) nodes.push_back(builder.binary(op, any(type), any(type)));
    if (arity == 3) nodes.push_back(builder.where(any(DType::boolean), any(type), any(type)));
    if (pick(4) == 0) nodes.push_back(builder.constant(type, static_cast<double>(pick(100)) / 8 - 5));
  }
  return std::move(builder).finish(nodes.back());
}

TEST(Expr, RandomTextRoundTripAndInlining) {
  const unsigned seed = 20240611;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int inputs = 1 + static_cast<int>(random() % 3);
    const Expr expr = random_expr(random, inputs, 1 + static_cast<int>(random() % 25));
    const Result<void> verified = verify(expr, "random");
    ASSERT_TRUE(verified) << verified.error().message << "\n" << to_string(expr);
    const Result<Expr> parsed = parse_expr(to_string(expr));
    ASSERT_TRUE(parsed) << parsed.error().message << "\n" << to_string(expr);
    EXPECT_EQ(*parsed, expr) << to_string(expr);
    // f(g(x)…) inlined equals f evaluated on g's results.
    const Expr inner = random_expr(random, 2, 8);
    ExprBuilder builder(2);
    const uint16_t own[] = {builder.input(0, DType::f32), builder.input(1, DType::f32)};
    const uint16_t g = builder.convert(builder.inline_expr(inner, own), DType::f32);
    const std::vector<uint16_t> arguments(static_cast<size_t>(inputs), g);
    const Expr whole = std::move(builder).finish(builder.inline_expr(expr, arguments));
    for (int sample = 0; sample < 5; ++sample) {
      const uint64_t x[] = {bits(static_cast<float>(random() % 200) / 16 - 6),
                            bits(static_cast<float>(random() % 9) - 4)};
      const uint64_t value = evaluate(inner, x);
      const Expr to_float = conversion(inner.result_type(), DType::f32);
      const std::vector<uint64_t> values(static_cast<size_t>(inputs),
                                         inner.result_type() == DType::f32 ? value : evaluate(to_float, {&value, 1}));
      EXPECT_EQ(evaluate(whole, x), evaluate(expr, values)) << to_string(expr) << "\n" << to_string(inner);
    }
  }
}

TEST(Expr, LiteralsOfAllBitsRoundTrip) {
  const unsigned seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int type = 0; type < dtype_count; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (int i = 0; i < 300; ++i) {
      uint64_t literal = byte_size(dtype) == 1 && i < 256 ? static_cast<uint64_t>(i) : random();
      if (i % 3 == 0 && byte_size(dtype) == 8) literal &= 0x800fffffffffffffu;  // subnormal as f64
      if (i % 3 == 0 && byte_size(dtype) == 4) literal &= 0x807fffffu;
      literal &= ~uint64_t{0} >> (64 - 8 * byte_size(dtype));
      if (dtype == DType::boolean) literal &= 1;
      ExprBuilder builder(0);
      const Expr expr = std::move(builder).finish(builder.constant_bits(dtype, literal));
      const Result<Expr> parsed = parse_expr(to_string(expr));
      ASSERT_TRUE(parsed) << parsed.error().message << " " << to_string(expr);
      EXPECT_EQ(*parsed, expr) << to_string(expr);
    }
  }
}

TEST(Expr, ParserRefuses) {
  for (const std::string_view text : {"",
                                      "t0",
                                      "t0 = ",
                                      "t0 = input",
                                      "t0 = input.f32",
                                      "t0 = input.f32 -1",
                                      "t0 = input.f33 0",
                                      "t0 = inputs.f32 0",
                                      "t1 = input.f32 0",
                                      "t0 = input.f32 0; t1 = neg.f32 t1",
                                      "t0 = input.f32 0; t1 = neg.f32 t0 t0",
                                      "t0 = constant.f16 0x1p+20",
                                      "t0 = constant.i8 128",
                                      "t0 = constant.f32 nan:0x1",
                                      "t0 = constant.f32 0x",
                                      "t0 = constant.f8e4m3fn inf",
                                      "t0 = constant.f32 1e999",
                                      "inputs 99999; t0 = input.f32 0",
                                      "t0 = input.f32 0 saturate",
                                      "t0 = input.f32 65535",
                                      "t0 = constant.f32 --1",
                                      "t0 = input.f32 0;;"}) {
    const Result<Expr> parsed = parse_expr(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid) << text;
  }
}

}  // namespace
}  // namespace low
