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

}  // namespace low::hwtests
