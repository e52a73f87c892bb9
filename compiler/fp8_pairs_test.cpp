// Products of operands in two FP8 formats, on every machine: neither is rounded to the other's.
#include <gtest/gtest.h>

#include "compiler/test_support.h"

namespace low {
namespace {

using test::finalists_agree;
using test::machine_named;
using test::run_package;

constexpr DType formats[] = {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz};

// Rows of a format's positive finite bytes: the largest in the first row, the smallest in the second, then all that
// there are, in turn. Positive, so that sums lose no digits.
Tensor all_values(DType dtype, const Shape& shape) {
  std::vector<uint64_t> finite;
  for (uint64_t bits = 1; bits < 0x80; ++bits)
    if (std::isfinite(decode(dtype, bits))) finite.push_back(bits);
  Tensor tensor(dtype, shape);
  const int64_t columns = shape[shape.rank() - 1];
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const auto place = static_cast<size_t>(i * 37) % finite.size();
    tensor.set_bits(i, i < columns ? finite.back() : i < 2 * columns ? finite.front() : finite[place]);
  }
  return tensor;
}

// Results have very different sizes: each is judged by its own.
void expect_equal(const Result<std::vector<Tensor>>& actual, const std::vector<Tensor>& expected) {
  ASSERT_TRUE(actual.has_value()) << actual.error().message;
  ASSERT_EQ(actual->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto comparison = reference::compare((*actual)[i], expected[i], {.absolute = 0, .relative = 1e-6});
    ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
    EXPECT_TRUE(comparison->passed()) << "output " << i << ": " << reference::to_string(*comparison);
  }
}

std::vector<Tensor> referenced(const Graph& graph, std::span<const Tensor> inputs) {
  auto results = reference::run(graph, inputs);
  LOW_CHECK(results.has_value());
  return std::move(*results);
}

class Fp8Machines : public ::testing::TestWithParam<std::string_view> {};

// a [7, 21] times b [21, 9]: b's rows of large and small values lie along n where it is transposed.
TEST_P(Fp8Machines, Matmul) {
  ThreadPool pool(2);
  Machine machine = machine_named(GetParam());
  if (!machine.global_memory) machine.tiles = 12;
  for (const DType a : formats) {
    for (const DType b : formats) {
      SCOPED_TRACE(std::string(name(a)) + " times " + std::string(name(b)));
      GraphBuilder builder;
      const ValueId operands[] = {builder.input("a", {a, {7, 21}}), builder.input("b", {b, {9, 21}})};
      builder.output("y", builder.matmul({.transpose_b = true}, operands, DType::f32));
      const auto model = std::move(builder).finish();
      ASSERT_TRUE(model.has_value()) << model.error().message;
      const std::vector<Tensor> inputs{all_values(a, {7, 21}), all_values(b, {9, 21})};
      const std::vector<Tensor> expected = referenced(*model, inputs);
      const auto graph = graph_for(machine, *model, {});
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      CompileOptions options;
      options.search.finalists = 2;
      const auto planned = plan_program(*graph, machine, options, pool);
      ASSERT_TRUE(planned.has_value()) << planned.error().message;
      ASSERT_NO_FATAL_FAILURE(
          expect_equal(interpret(planned->graph, planned->placement, planned->schedule, inputs), expected));
    }
  }
}

// All pairs in one package for this host.
TEST(Fp8Pairs, Package) {
  GraphBuilder builder;
  std::vector<Tensor> inputs;
  std::vector<ValueId> a, b;
  const auto input = [&](DType dtype, const Shape& shape) {
    inputs.push_back(all_values(dtype, shape));
    return builder.input("x" + std::to_string(inputs.size()), {dtype, shape});
  };
  for (const DType format : formats) {
    a.push_back(input(format, {7, 21}));
    b.push_back(input(format, {9, 21}));
  }
  for (const ValueId left : a) {
    for (const ValueId right : b)
      builder.output("y", builder.matmul({.transpose_b = true}, {{left, right}}, DType::f32));
  }
  const auto model = std::move(builder).finish();
  ASSERT_TRUE(model.has_value()) << model.error().message;
  ThreadPool pool(2);
  expect_equal(run_package(*model, inputs, pool), referenced(*model, inputs));
}

// One dtype serves q, k and v in a flash kernel.
TEST_P(Fp8Machines, Attention) {
  ThreadPool pool(2);
  Machine machine = machine_named(GetParam());
  if (!machine.global_memory) machine.tiles = 12;
  const Shape q{1, 5, 6}, k{1, 11, 6}, v{1, 11, 4};
  // Multiples of 1/8 below 2 for three bits of mantissa, powers of two beyond 448 for five of exponent.
  const auto values = [](DType dtype, const Shape& shape) {
    const bool wide = dtype == DType::f8e5m2 || dtype == DType::f8e5m2fnuz;
    Tensor tensor(dtype, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set_value(i, wide ? std::ldexp(i % 3 == 0 ? -1.25 : 1.0, static_cast<int>(i * 5 % 21) - 9)
                               : 0.125 * static_cast<double>(i * 7 % 15 - 7));
    return tensor;
  };
  for (const DType other : formats) {
    for (const auto& [a, b, c] : {std::tuple(other, DType::f8e5m2, DType::f8e4m3fn),
                                  {DType::f8e4m3fnuz, other, other},
                                  {other, other, DType::f8e5m2fnuz}}) {
      SCOPED_TRACE(std::string(name(a)) + ", " + std::string(name(b)) + ", " + std::string(name(c)));
      GraphBuilder builder;
      const ValueId operands[] = {builder.input("q", {a, q}), builder.input("k", {b, k}), builder.input("v", {c, v})};
      builder.output("y", builder.attention({.scale = 1.0 / 512}, operands, DType::f32));
      const auto model = std::move(builder).finish();
      ASSERT_TRUE(model.has_value()) << model.error().message;
      const std::vector<Tensor> inputs{values(a, q), values(b, k), values(c, v)};
      const std::vector<Tensor> expected = referenced(*model, inputs);
      const auto graph = graph_for(machine, *model, {});
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized})
        ASSERT_NO_FATAL_FAILURE(
            finalists_agree(*graph, machine, {.attention = algorithm, .finalists = 1}, inputs, expected, 1e-6, pool))
            << name(algorithm);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, Fp8Machines, ::testing::ValuesIn(machine_names().begin(), machine_names().end()),
                         [](const auto& test) {
                           std::string text(test.param);
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

}  // namespace
}  // namespace low
