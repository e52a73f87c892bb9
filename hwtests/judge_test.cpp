// Whether the tolerances that verify takes by default tell wrong weights: the reference of a changed model stands for
// the device.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "compiler/frontend/frontend.h"
#include "compiler/workload/workload.h"
#include "hwtests/negative_controls.h"
#include "reference/tolerance.h"
#include "runtime/tensor/random_tensor.h"

namespace low {
namespace {

std::span<const std::byte> bytes_of(const std::string& model) { return std::as_bytes(std::span(model)); }

Tensor run(const Graph& graph) {
  const Type& type = graph.type(graph.result(graph.op(graph.inputs()[0])));
  const std::vector<Tensor> inputs = {random_tensor(type.dtype, type.shape, 1)};
  auto outputs = reference::run(graph, inputs);
  if (outputs) return std::move((*outputs)[0]);
  ADD_FAILURE() << outputs.error().message;
  return {};
}

TEST(Judge, CatchesRandomChangedWeights) {
  constexpr uint32_t seed = 20261130;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto model = make_workload("tiny-mlp-b2-repeat3", {});
  ASSERT_TRUE(model) << model.error().message;
  const auto graph = import_onnx(bytes_of(*model), "m.onnx", {});
  ASSERT_TRUE(graph) << graph.error().message;
  const Tensor expected = run(*graph);
  const reference::Tolerance tolerance = reference::tolerance_of(reference::error_bounds(*graph)[0], expected);
  constexpr int changes = 200;
  int caught = 0;
  for (int i = 0; i < changes; ++i) {
    const char* name = random() % 2 == 0 ? "w1_all" : "w2_all";
    const size_t index = random() % (3 * 24 * 40);
    const unsigned char code = random() % 2 == 0 ? 0x7e : 0xfe;  // 448 or -448
    const auto changed = with_weight(bytes_of(*model), name, index, code);
    ASSERT_TRUE(changed) << changed.error().message;
    const auto wrong = import_onnx(bytes_of(*changed), "changed.onnx", {});
    ASSERT_TRUE(wrong) << wrong.error().message;
    const auto comparison = reference::compare(run(*wrong), expected, tolerance);
    ASSERT_TRUE(comparison) << comparison.error().message;
    caught += comparison->passed() ? 0 : 1;
    std::printf("%s[%zu] = %g: %s, RMS of the error %.3g%%, %lld elements outside\n", name, index,
                decode(DType::f8e4m3fn, code), comparison->passed() ? "passes" : "caught",
                100 * comparison->rms_ratio(), static_cast<long long>(comparison->mismatches));
  }
  // 19 of 20. Some change nothing at all, or next to nothing: weights of hidden units that are off.
  std::printf("%d of %d are caught\n", caught, changes);
  EXPECT_GE(caught, changes * 19 / 20) << "seed " << seed;
}

}  // namespace
}  // namespace low
