// Whole programs for GPUs on SIMT targets, against the reference.
#include <gtest/gtest.h>

#include "compiler/test_support.h"
#include "hwtests/simt/simt_device.h"
#include "reference/tolerance.h"
#include "runtime/tensor/random_tensor.h"

// Lanes are fibers, whose switches cost five times as much with the sanitizer's second stacks.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=0"; }

namespace low {
namespace {

constexpr std::string_view targets[] = {"simt-gfx942"};

std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const OpId input : graph.inputs()) {
    const Type& type = graph.type(graph.result(graph.op(input)));
    inputs.push_back(random_tensor(type.dtype, type.shape, inputs.size() + 1));
  }
  return inputs;
}

class Workloads : public ::testing::TestWithParam<std::string> {};

TEST_P(Workloads, AgreeWithTheReference) {
  ThreadPool pool(1);
  const auto graph = test::workload_graph(GetParam());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const std::vector<Tensor> inputs = random_inputs(*graph);
  const auto expected = reference::run(*graph, inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  const std::vector<reference::ErrorBound> bounds = reference::error_bounds(*graph);
  for (const std::string_view target : targets) {
    CompileOptions options;
    options.targets = {std::string(target)};
    const auto compiled = compile_graph(*graph, options, pool);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    simt::SimtDevice device{std::string(target)};
    const auto outputs = test::run_package(*compiled, device, inputs);
    ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
    for (size_t i = 0; i < outputs->size(); ++i) {
      const auto comparison =
          reference::compare((*outputs)[i], (*expected)[i], reference::tolerance_of(bounds[i], (*expected)[i]));
      ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
      EXPECT_TRUE(comparison->passed() && comparison->rms_passed()) << reference::to_string(*comparison);
    }
    std::printf("%s on %s: %llu accesses, %llu meetings of waves\n", GetParam().c_str(), std::string(target).c_str(),
                static_cast<unsigned long long>(device.accesses()), static_cast<unsigned long long>(device.meetings()));
  }
}
INSTANTIATE_TEST_SUITE_P(Tiny, Workloads,
                         ::testing::Values("tiny-mlp-b1", "tiny-mlp-b2-repeat3", "tiny-mlp-f32", "tiny-mlp-i8"));

}  // namespace
}  // namespace low
