// A model means one graph, however its layers are written.
#include <gtest/gtest.h>

#include "compiler/frontend/frontend.h"
#include "compiler/graph/passes/passes.h"
#include "compiler/workload/workload.h"

namespace low {
namespace {

Graph imported(std::string_view name, const WorkloadOptions& options) {
  const Result<std::string> model = make_workload(name, options);
  LOW_CHECK(model.has_value());
  Result<Graph> graph = import_onnx(std::as_bytes(std::span(*model)), std::string(name), {});
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? *std::move(graph) : Graph();
}

// Names say where an operation came from, and layers of a Scan come from elsewhere. Those of inputs and outputs stay.
Graph without_names(const Graph& graph, bool region = false) {
  GraphBuilder builder;
  for (const Op& op : graph.ops()) {
    Attributes attributes = op.attributes;
    if (auto* repeat = std::get_if<Repeat>(&attributes))
      repeat->body = std::make_shared<const Graph>(without_names(*repeat->body, true));
    std::vector<Type> types;
    for (uint32_t i = 0; i < op.results.count; ++i) types.push_back(graph.type(graph.result(op, i)));
    const bool named = std::holds_alternative<Input>(attributes) || std::holds_alternative<Output>(attributes);
    builder.add(std::move(attributes), graph.operands(op), types, named && !region ? op.name : "");
  }
  Result<Graph> out = std::move(builder).finish();
  EXPECT_TRUE(out) << out.error().message;
  return out ? *std::move(out) : Graph();
}

size_t repeats(const Graph& graph) {
  size_t count = 0;
  for (const Op& op : graph.ops()) count += std::holds_alternative<Repeat>(op.attributes) ? 1 : 0;
  return count;
}

TEST(Layers, ScanAndUnrolledAreOneGraph) {
  for (const char* name : {"tiny-mlp-b2-repeat3", "tiny-mlp-f32"}) {
    for (const int blocks : {0, 1, 2, 3, 5}) {
      SCOPED_TRACE(std::string(name) + " of " + std::to_string(blocks));
      const Result<Graph> scan = run_passes(imported(name, {.repeat = blocks}));
      const Result<Graph> unrolled = run_passes(imported(name, {.unrolled = blocks}));
      ASSERT_TRUE(scan) << scan.error().message;
      ASSERT_TRUE(unrolled) << unrolled.error().message;
      EXPECT_EQ(repeats(*scan), blocks > 1 ? 1 : 0);
      EXPECT_EQ(print(without_names(*unrolled)), print(without_names(*scan)));
      EXPECT_EQ(without_names(*unrolled), without_names(*scan));
    }
  }
}

TEST(Layers, OperationsKeepTheNamesThatLayersShare) {
  const Result<Graph> graph = run_passes(imported("tiny-mlp-b2-repeat3", {.unrolled = 3}));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_NE(print(*graph).find("\"h_quantize\""), std::string::npos) << print(*graph);
}

}  // namespace
}  // namespace low
