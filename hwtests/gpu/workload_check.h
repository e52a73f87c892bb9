// A canonical model on a device, against the reference at its tolerances.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "compiler/test_support.h"
#include "reference/random_graph.h"
#include "reference/tolerance.h"
#include "runtime/tensor/random_tensor.h"

namespace low::hwtests {

inline std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const OpId input : graph.inputs()) {
    const Type& type = graph.type(graph.result(graph.op(input)));
    inputs.push_back(random_tensor(type.dtype, type.shape, inputs.size() + 1));
  }
  return inputs;
}

// Attention that the model writes out is compiled as it says where `materialized`.
inline void workload_agrees(const std::string& model, Device& device, bool materialized = false) {
  ThreadPool pool(1);
  const auto graph = test::workload_graph(model);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const std::vector<Tensor> inputs = random_inputs(*graph);
  const auto expected = reference::run(*graph, inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  CompileOptions options;
  if (materialized) options.search.attention = AttentionAlgorithm::materialized;
  const auto outputs = test::run_package(*graph, device, inputs, pool, options);
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  const std::vector<reference::ErrorBound> bounds = reference::error_bounds(*graph);
  for (size_t i = 0; i < outputs->size(); ++i) {
    const auto comparison =
        reference::compare((*outputs)[i], (*expected)[i], reference::tolerance_of(bounds[i], (*expected)[i]));
    ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
    EXPECT_TRUE(comparison->passed() && comparison->rms_passed()) << reference::to_string(*comparison);
  }
}

// A graph of random operations of all families.
inline void random_graph_agrees(uint64_t seed, Device& device) {
  ThreadPool pool(1);
  const reference::RandomGraph random = reference::random_graph(
      {.seed = seed, .operations = 4 + static_cast<int>(seed % 9), .narrow_floats = seed % 2 == 1});
  const auto expected = reference::run(random.graph, random.inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  test::expect_close(test::run_package(random.graph, device, random.inputs, pool), *expected, random.tolerance,
                     "seed " + std::to_string(seed));
}

// All codes of each FP8 format, times some of each, as inputs and as constants; and through epilogues to each. Of products
// of depth 1, so that all that comes out is exact.
inline void fp8_codes_agree(Device& device) {
  constexpr DType formats[] = {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz};
  const auto codes = [](DType type, const Shape& shape, const auto& code_of) {
    Tensor tensor(type, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_bits(i, code_of(i));
    return tensor;
  };
  const auto all = [](int64_t i) { return static_cast<uint64_t>(i); };
  // Zeros, ones, smallest, largest, infinities and NaNs are among them.
  constexpr uint64_t chosen[] = {0x00, 0x01, 0x07, 0x08, 0x38, 0x40, 0x5b, 0x7b,
                                 0x7c, 0x7e, 0x7f, 0x80, 0x81, 0xb8, 0xfc, 0xff};
  const auto some = [&](int64_t i) { return chosen[i]; };
  GraphBuilder builder;
  std::vector<Tensor> inputs;
  const auto input = [&](Tensor tensor) {
    const ValueId value = builder.input("x" + std::to_string(inputs.size()), {tensor.dtype(), tensor.shape()});
    inputs.push_back(std::move(tensor));
    return value;
  };
  const auto product = [&](ValueId a, ValueId b) { return builder.matmul({}, {{a, b}}, DType::f32); };
  std::vector<ValueId> columns;
  for (const DType format : formats) columns.push_back(input(codes(format, {256, 1}, all)));
  const ValueId one =
      builder.constant(codes(DType::f32, {}, [](int64_t) { return encode(DType::f32, 1, Overflow::saturate); }));
  int outputs = 0;
  const auto output = [&](ValueId value) { builder.output("y" + std::to_string(outputs++), value); };
  for (size_t i = 0; i < std::size(formats); ++i) {
    for (const DType other : formats) {
      output(product(columns[i], input(codes(other, {1, 16}, some))));
      output(product(input(codes(formats[i], {16, 1}, some)), builder.constant(codes(other, {1, 256}, all))));
      const Tensor unit = codes(formats[i], {1, 1}, [&](int64_t) { return encode(formats[i], 1, Overflow::saturate); });
      output(builder.quantize({}, {{product(columns[i], builder.constant(unit)), one}}, other));
    }
  }
  const auto model = std::move(builder).finish();
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const auto expected = reference::run(*model, inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  ThreadPool pool(1);
  CompileOptions options;
  options.search.finalists = 1;
  const auto results = test::run_package(*model, device, inputs, pool, options);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  for (size_t i = 0; i < expected->size(); ++i) {
    for (int64_t j = 0; j < (*expected)[i].elements(); ++j) {
      const double want = (*expected)[i].value(j), have = (*results)[i].value(j);
      ASSERT_TRUE(want == have || (std::isnan(want) && std::isnan(have)))
          << "output " << i << ", element " << j << ": " << have << " instead of " << want;
    }
  }
}

// A product of FP8 operands whose depth is split over three tiles, whatever the search would do.
inline void split_sums_agree(Device& device) {
  GraphBuilder builder;
  const Type a{DType::f8e4m3fn, {5, 300}}, b{DType::f8e4m3fn, {300, 40}};
  const ValueId operands[] = {builder.input("a", a), builder.input("b", b)};
  builder.output("y", builder.matmul({}, operands, DType::f32));
  const auto model = std::move(builder).finish();
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const std::vector<Tensor> inputs = random_inputs(*model);
  const auto expected = reference::run(*model, inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;

  ThreadPool pool(1);
  CompileOptions options;
  options.targets = device.info().targets;
  const auto machine = select_machine(options);
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  const auto graph = graph_for(*machine, *model, {});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto planned = plan_program(*graph, *machine, options, pool);
  ASSERT_TRUE(planned.has_value()) << planned.error().message;
  Plan plan = planned->plan();
  int products = 0;
  for (OpPlan& op : plan.region.ops) {
    auto* const matmul = std::get_if<MatmulPlan>(&op);
    if (matmul == nullptr) continue;
    ++products;
    *matmul = {.grid_n = 2, .grid_k = 3, .block_m = 5, .block_n = 20, .block_k = 100};
  }
  ASSERT_EQ(products, 1);
  options.plans.push_back({print(plan), "plan"});
  test::expect_close(test::run_package(*model, device, inputs, pool, options), *expected, 1e-6, "split sums");
}

}  // namespace low::hwtests
