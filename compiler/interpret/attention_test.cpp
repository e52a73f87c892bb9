// attention as the interpreter computes it: small tables by hand, and panels with states between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/interpret/kernels.h"
#include "compiler/kernels/contract.h"
#include "compiler/low/hand_made.h"

namespace low {
namespace {

using testing::ElementsAre;

const double infinity = HUGE_VAL;

std::vector<uint64_t> bits_of(DType dtype, const std::vector<double>& values) {
  std::vector<uint64_t> bits;
  for (const double value : values) bits.push_back(encode(dtype, value, Overflow::propagate));
  return bits;
}
std::vector<uint64_t> f64(const std::vector<double>& values) { return bits_of(DType::f64, values); }
std::vector<double> values_of(const std::vector<uint64_t>& bits) {
  std::vector<double> values;
  for (const uint64_t b : bits) values.push_back(decode(DType::f64, b));
  return values;
}

hand_made::SizedContract contract(const Shape& extents, AttentionKernel kind, DType mask = DType::boolean) {
  hand_made::SizedContract c;
  kind.d = extents[2];
  kind.dv = extents[3];
  kind.math = kind.accumulate = DType::f64;
  c.family = kind;
  c.extents = extents;
  const std::vector<Access> rows{Access::strided, Access::unit};
  c.operands.assign(3, {DType::f64, rows});
  if (kind.masked) c.operands.push_back({mask, rows});
  if (kind.causal) c.operands.push_back({DType::i32, {Access::unit}});
  if (kind.continues) c.operands.push_back({DType::f64, rows});
  c.operands.push_back({DType::f64, rows});
  if (kind.partial) return c;
  ExprBuilder expr(1);
  c.expr = std::move(expr).finish(expr.input(0, DType::f64));
  return c;
}

auto near(double value) { return testing::DoubleNear(value, 1e-12); }

std::vector<double> run(const hand_made::SizedContract& c, std::vector<std::vector<uint64_t>> operands) {
  EXPECT_EQ(problem(c), "");
  return values_of(run_kernel(c, c.extents, operands));
}

// Scores of one row of q = 1 are the keys themselves. With k = (0, log 3): p = (1/4, 3/4).
TEST(AttentionByHand, Softmax) {
  const std::vector<uint64_t> q = f64({1}), k = f64({0, std::log(3)}), v = f64({4, 40, 8, 80});
  EXPECT_THAT(run(contract({1, 2, 1, 2}, {}), {q, k, v}), ElementsAre(near(7), near(70)));
  // Half of log 9 is log 3.
  EXPECT_THAT(run(contract({1, 2, 1, 2}, {.scale = 0.5}), {q, f64({0, std::log(9)}), v}),
              ElementsAre(near(7), near(70)));
  // 2 tanh(score / 2) of score 2 atanh(log(3) / 2).
  EXPECT_THAT(run(contract({1, 2, 1, 2}, {.softcap = 2}), {q, f64({0, 2 * std::atanh(std::log(3) / 2)}), v}),
              ElementsAre(near(7), near(70)));
  // The state: o relative to the maximum log 3, then the maximum, then the sum 1/3 + 1.
  EXPECT_THAT(run(contract({1, 2, 1, 2}, {.partial = true}), {q, k, v}),
              ElementsAre(near(4.0 / 3 + 8), near(40.0 / 3 + 80), near(std::log(3)), near(4.0 / 3)));
}

TEST(AttentionByHand, Masks) {
  const std::vector<uint64_t> q = f64({1, 1}), k = f64({0, std::log(3)}), v = f64({4, 8});
  EXPECT_THAT(run(contract({2, 2, 1, 1}, {.masked = true}), {q, k, v, {1, 1, 1, 0}}), ElementsAre(near(7), near(4)));
  EXPECT_THAT(run(contract({2, 2, 1, 1}, {.masked = true}, DType::f64), {q, k, v, f64({std::log(3), 0, 0, -infinity})}),
              ElementsAre(near(6), near(4)));
  EXPECT_THAT(run(contract({2, 2, 1, 1}, {.masked = true, .masked_score = 0}), {q, k, v, {1, 0, 0, 0}}),
              ElementsAre(near(6), near(6)));
  // Row i has keys up to i + diagonal.
  const hand_made::SizedContract causal = contract({2, 2, 1, 1}, {.causal = true});
  EXPECT_THAT(run(causal, {q, k, v, {0}}), ElementsAre(near(4), near(7)));
  EXPECT_THAT(run(causal, {q, k, v, {1}}), ElementsAre(near(7), near(7)));
  EXPECT_THAT(run(causal, {q, k, v, {0xffffffff}}), ElementsAre(testing::NanSensitiveDoubleEq(std::nan("")), near(4)));
  EXPECT_THAT(run(contract({2, 2, 1, 1}, {.causal = true, .empty_is_zero = true}), {q, k, v, {0xffffffff}}),
              ElementsAre(0, near(4)));
  // A NaN that takes part is no empty row; one that does not is nothing.
  EXPECT_TRUE(std::isnan(
      run(contract({1, 2, 1, 1}, {.masked = true, .empty_is_zero = true}), {f64({std::nan("")}), k, v, {0, 1}})[0]));
  EXPECT_THAT(run(contract({1, 2, 1, 1}, {.masked = true}), {f64({1}), f64({std::nan(""), 0}), v, {0, 1}}),
              ElementsAre(8));
  const hand_made::SizedContract added = contract({1, 2, 1, 1}, {.masked = true, .empty_is_zero = true}, DType::f64);
  EXPECT_THAT(run(added, {f64({1}), f64({std::nan(""), 0}), v, f64({-infinity, 0})}), ElementsAre(8));
  EXPECT_THAT(run(added, {f64({1}), f64({std::nan(""), 0}), v, f64({-infinity, -infinity})}), ElementsAre(0));
}

// Three panels, the first of which is masked away for some rows, against all keys at once.
TEST(AttentionByHand, PanelsAreOneRun) {
  const size_t m = 4, n = 11, d = 3, dv = 2;
  constexpr unsigned seed = 3;
  std::mt19937_64 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::normal_distribution<double> normal;
  const auto make = [&](size_t count) {
    std::vector<double> values(count);
    for (double& value : values) value = normal(random);
    return values;
  };
  const std::vector<double> q = make(m * d), k = make(n * d), v = make(n * dv);
  std::vector<uint64_t> mask(m * n, 1);
  for (size_t j = 0; j < 5; ++j) mask[2 * n + j] = 0;
  const auto diagonal = [](int64_t value) { return std::vector{uint64_t{static_cast<uint32_t>(value)}}; };
  const auto extents = [&](size_t keys) {
    return Shape{static_cast<int64_t>(m), static_cast<int64_t>(keys), static_cast<int64_t>(d),
                 static_cast<int64_t>(dv)};
  };
  const std::vector<double> whole =
      run(contract(extents(n), {.masked = true, .causal = true}), {f64(q), f64(k), f64(v), mask, diagonal(6)});
  std::vector<double> state;
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 4}, {4, 9}, {9, 11}}) {
    std::vector<uint64_t> part;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = begin; j < end; ++j) part.push_back(mask[i * n + j]);
    std::vector<std::vector<uint64_t>> operands = {
        f64(q),
        f64({k.begin() + static_cast<std::ptrdiff_t>(begin * d), k.begin() + static_cast<std::ptrdiff_t>(end * d)}),
        f64({v.begin() + static_cast<std::ptrdiff_t>(begin * dv), v.begin() + static_cast<std::ptrdiff_t>(end * dv)}),
        part, diagonal(6 - static_cast<int64_t>(begin))};
    if (begin > 0) operands.push_back(f64(state));
    state = run(
        contract(extents(end - begin), {.masked = true, .causal = true, .continues = begin > 0, .partial = end < n}),
        operands);
  }
  ASSERT_EQ(state.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_THAT(state[i], near(whole[i])) << i;
}

}  // namespace
}  // namespace low
