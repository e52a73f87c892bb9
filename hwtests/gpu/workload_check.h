// A canonical model on a device, against the reference at its tolerances.
#pragma once

#include <gtest/gtest.h>

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
  options.targets = device.info().targets;
  if (materialized) options.search.attention = AttentionAlgorithm::materialized;
  const auto compiled = compile_graph(*graph, options, pool);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto outputs = test::run_package(*compiled, device, inputs);
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
  CompileOptions options;
  options.targets = device.info().targets;
  const auto compiled = compile_graph(random.graph, options, pool);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  test::expect_close(test::run_package(*compiled, device, random.inputs), *expected, random.tolerance,
                     "seed " + std::to_string(seed));
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
  const auto compiled = compile_graph(*model, options, pool);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  test::expect_close(test::run_package(*compiled, device, inputs), *expected, 1e-6, "split sums");
}

}  // namespace low::hwtests
