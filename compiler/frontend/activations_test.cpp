// Formulas of activations, sums and bits, and the accuracy of the functions that expressions lack.
#include "compiler/frontend/operator_case.h"
#include "compiler/frontend/terms.h"

namespace low {
namespace {

TEST(Operators, Activations) {
  const Tensor x = f32({3}, {-1, 0, 2});
  const auto soft = [](double v) { return std::log1p(std::exp(v)); };
  check({{"", 13, "Softplus", {f32({3}, {-30, 0, 100})}, {}, {}, {f32({3}, {std::exp(-30.0), std::log(2.0), 100})}},
         {"", 13, "Softsign", {x}, {}, {}, {f32({3}, {-0.5, 0, 2.0 / 3})}},
         {"", 13, "Elu", {x}, {}, with_float("alpha", 2), {f32({3}, {2 * std::expm1(-1), 0, 2})}},
         {"",
          13,
          "Selu",
          {x},
          {},
          both(with_float("alpha", 2), with_float("gamma", 3)),
          {f32({3}, {6 * std::expm1(-1), 0, 6})}},
         {"", 13, "Celu", {x}, {}, with_float("alpha", 2), {f32({3}, {2 * std::expm1(-0.5), 0, 2})}},
         {"", 13, "LeakyRelu", {x}, {}, with_float("alpha", 0.5F), {f32({3}, {-0.5, 0, 2})}},
         {"", 13, "PRelu", {f32({2, 2}, {-1, -1, 1, -2}), f32({2}, {2, 3})}, {}, {}, {f32({2, 2}, {-2, -3, 1, -6})}},
         {"", 13, "HardSigmoid", {f32({3}, {-9, 0.5, 9})}, {}, {}, {f32({3}, {0, 0.6, 1})}},
         {"", 14, "HardSwish", {f32({3}, {-4, 1.5, 4})}, {}, {}, {f32({3}, {0, 1.125, 4})}},
         {"", 18, "Mish", {x}, {}, {}, {f32({3}, {-std::tanh(soft(-1)), 0, 2 * std::tanh(soft(2))})}},
         {"",
          24,
          "Swish",
          {x},
          {},
          with_float("alpha", 0.5F),
          {f32({3}, {-1 / (1 + std::exp(0.5)), 0, 2 / (1 + std::exp(-1))})}},
         {"", 13, "ThresholdedRelu", {f32({3}, {0.5, 1, 1.5})}, {}, {}, {f32({3}, {0, 0, 1.5})}},
         {"", 13, "Shrink", {f32({3}, {-2, 0.1, 2})}, {}, with_float("bias", 0.5F), {f32({3}, {-1.5, 0, 1.5})}},
         {"", 13, "Sum", {x, f32({1}, {1}), f32({}, {10})}, {}, {}, {f32({3}, {10, 11, 13})}},
         {"", 13, "Mean", {x, f32({1}, {2})}, {}, {}, {f32({3}, {0.5, 1, 2})}},
         {"", 13, "IsInf", {f32({4}, {inf, -inf, nan, 1})}, {}, {}, {boolean({4}, {1, 1, 0, 0})}},
         {"", 13, "IsInf", {f32({2}, {inf, -inf})}, {}, with("detect_negative", 0), {boolean({2}, {1, 0})}},
         {"",
          13,
          "IsInf",
          {f32({2}, {inf, 1})},
          {},
          both(with("detect_negative", 0), with("detect_positive", 0)),
          {boolean({2}, {0, 0})}},
         {"", 18, "BitwiseAnd", {u8({2}, {12, 255}), u8({2}, {10, 1})}, {}, {}, {u8({2}, {8, 1})}},
         {"", 18, "BitwiseOr", {i8({1}, {-128}), i8({1}, {1})}, {}, {}, {i8({1}, {-127})}},
         {"", 18, "BitwiseXor", {i64({1}, {-1}), i64({1}, {1})}, {}, {}, {i64({1}, {-2})}},
         {"", 18, "BitwiseNot", {i32({2}, {0, 5})}, {}, {}, {i32({2}, {-1, -6})}},
         {"",
          11,
          "BitShift",
          {u8({3}, {129, 129, 129}), u8({3}, {1, 7, 8})},
          {},
          with_text("direction", "LEFT"),
          {u8({3}, {2, 128, 0})}},
         {"",
          11,
          "BitShift",
          {u8({2}, {129, 129}), u8({2}, {1, 7})},
          {},
          with_text("direction", "RIGHT"),
          {u8({2}, {64, 1})}},
         // floor(-7 / 2); what is shifted out leaves the sign, whatever the count.
         {"",
          28,
          "BitShift",
          {i8({6}, {-7, 7, -128, -1, 100, -100}), i8({6}, {1, 1, 7, 0, 8, -1})},
          {},
          with_text("direction", "RIGHT"),
          {i8({6}, {-4, 3, -1, -1, 0, -1})}},
         {"",
          28,
          "BitShift",
          {i8({3}, {-1, 65, 3}), i8({3}, {7, 1, -1})},
          {},
          with_text("direction", "LEFT"),
          {i8({3}, {-128, -126, 0})}}});
}

// The compositions at native precision, against the library's functions in long double.
TEST(Terms, AreAccurate) {
  struct Function {
    std::string_view name;
    Term (*term)(Term);
    long double (*real)(long double);
  };
  const Function functions[] = {
      {"log1p", log1p, [](long double x) { return std::log1p(x); }},
      {"expm1", expm1, [](long double x) { return std::expm1(x); }},
      {"softplus", softplus,
       [](long double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }},
      {"atan", atan, [](long double x) { return std::atan(x); }},
      {"asin", asin, [](long double x) { return std::asin(x); }},
      {"acos", acos, [](long double x) { return std::acos(x); }},
      {"sinh", sinh, [](long double x) { return std::sinh(x); }},
      {"cosh", cosh, [](long double x) { return std::cosh(x); }},
      {"asinh", asinh, [](long double x) { return std::asinh(x); }},
      {"acosh", acosh, [](long double x) { return std::acosh(x); }},
      {"atanh", atanh, [](long double x) { return std::atanh(x); }}};
  std::vector<double> samples = {0,    1,   2,     0.41421, 0.41422, 2.41421, 2.41422, 20.5,  88.5,
                                 89.2, 1e4, 1.1e4, 1e9,     1e20,    1e-3,    1e-8,    1e-30, inf};
  for (int i = 0; i < 400; ++i) samples.push_back(i / 100.0 + 0.003);
  for (const Function& function : functions) {
    for (const DType type : {DType::f32, DType::f64}) {
      Formula formula(1, type);
      const Term result = function.term(formula.input(0, type));
      const Expr expr = std::move(formula).finish(result, type);
      const double unit = type == DType::f32 ? 0x1p-23 : 0x1p-52;
      for (const double sample : samples) {
        for (const double sign : {1.0, -1.0}) {
          const uint64_t bits = encode(type, sign * sample, Overflow::propagate);
          const double x = decode(type, bits);
          const double actual = decode(type, evaluate(expr, {&bits, 1}));
          const auto real = static_cast<double>(function.real(static_cast<long double>(x)));
          const double expected = decode(type, encode(type, real, Overflow::propagate));
          const std::string where = std::string(function.name) + "(" + std::to_string(x) + ") ";
          if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(actual)) << where << actual;
          } else if (std::isinf(expected)) {
            EXPECT_EQ(actual, expected) << where;
          } else {
            const double least = type == DType::f32 ? 0x1p-126 : 0x1p-1022;
            EXPECT_NEAR(actual, expected, 16 * unit * std::abs(expected) + least) << where;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace low
