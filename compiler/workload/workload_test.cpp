#include "compiler/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "compiler/frontend/frontend.h"
#include "compiler/graph/passes/passes.h"
#include "onnx.pb.h"
#include "reference/reference.h"

namespace low {
namespace {

Graph graph_of(const std::string& bytes) {
  auto graph = import_onnx(std::as_bytes(std::span(bytes)), "workload.onnx", {});
  if (!graph) {
    ADD_FAILURE() << graph.error().message;
    return {};
  }
  return std::move(*graph);
}

std::string bytes_of(std::string_view name, const WorkloadOptions& options = {}) {
  auto bytes = make_workload(name, options);
  if (!bytes) {
    ADD_FAILURE() << bytes.error().message;
    return "";
  }
  return std::move(*bytes);
}

Tensor normal_tensor(const Type& type, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Tensor tensor(type.dtype, type.shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_value(i, normal(random));
  return tensor;
}

Tensor run(const Graph& graph, const Tensor& input) {
  auto outputs = reference::run(graph, std::span(&input, 1));
  if (!outputs) {
    ADD_FAILURE() << outputs.error().message;
    return {};
  }
  return (*outputs)[0];
}

const Type& input_type(const Graph& graph) { return graph.type(graph.result(graph.op(graph.inputs()[0]))); }

double rms(const Tensor& tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) sum += tensor.value(i) * tensor.value(i);
  return std::sqrt(sum / static_cast<double>(tensor.elements()));
}

TEST(Workload, Names) {
  EXPECT_THAT(
      workload_names(),
      testing::IsSupersetOf({"mlp-b1", "mlp-b2-repeat3", "tiny-mlp-b1", "tiny-mlp-b2-repeat3", "tiny-mlp-f32",
                             "mlp-b2-repeat3-f32", "mlp-row1", "mlp-row1-f32", "tiny-mlp-row1", "flash-attention-b1",
                             "materialized-attention-b1", "tiny-flash-attention-b1", "tiny-materialized-attention-b1",
                             "flash-attention-b1-f32", "materialized-attention-b1-f32", "mlp-b1-f16",
                             "flash-attention-b1-f16", "materialized-attention-b1-f16"}));
  EXPECT_EQ(make_workload("tiny-flash-attention-b1", {.repeat = 2, .unrolled = {}}).error().kind, ErrorKind::usage);
  EXPECT_EQ(make_workload("tiny-flash-attention-b1", {.repeat = {}, .unrolled = 1}).error().kind, ErrorKind::usage);
  EXPECT_EQ(make_workload("mlp", {}).error().kind, ErrorKind::usage);
  EXPECT_EQ(make_workload("mlp-b1", {.repeat = 1, .unrolled = 1}).error().kind, ErrorKind::usage);
  EXPECT_EQ(make_workload("mlp-b1", {.repeat = -1, .unrolled = {}}).error().kind, ErrorKind::usage);
  EXPECT_EQ(make_workload("mlp-b1", {.repeat = 1000, .unrolled = {}}).error().kind, ErrorKind::usage);
}

TEST(Workload, SameBytesEachTime) {
  for (const std::string& name : workload_names()) {
    if (!name.starts_with("tiny")) continue;
    EXPECT_EQ(bytes_of(name), bytes_of(name)) << name;
  }
}

// What the whole project calls this model: a change of these numbers changes every recorded result.
TEST(Workload, FirstWeights) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes_of("tiny-mlp-b1")));
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.name() != "w1") continue;
    EXPECT_EQ(tensor.data_type(), onnx::TensorProto::FLOAT8E4M3FN);
    EXPECT_THAT(tensor.dims(), testing::ElementsAre(24, 40));
    uint32_t sum = 0;  // depends on the order
    for (const char c : tensor.raw_data()) sum = sum * 31 + static_cast<unsigned char>(c);
    EXPECT_EQ(sum, 1365505625u);
  }
}

TEST(Workload, OutputsAreLarge) {
  for (const std::string& name : workload_names()) {
    if (!name.starts_with("tiny")) continue;
    const Graph graph = graph_of(bytes_of(name));
    const Tensor output = run(graph, normal_tensor(input_type(graph), 1));
    EXPECT_GE(rms(output), 4) << name;
    EXPECT_LE(rms(output), 9) << name;
  }
}

TEST(Workload, ScanAndCopiesAreTheSameNumbers) {
  for (const int blocks : {0, 1, 3, 5}) {
    const Graph scanned = graph_of(bytes_of("tiny-mlp-b1", {.repeat = blocks, .unrolled = {}}));
    const Graph copied = graph_of(bytes_of("tiny-mlp-b1", {.repeat = {}, .unrolled = blocks}));
    const Tensor input = normal_tensor(input_type(scanned), 7);
    const Tensor expected = run(copied, input);
    EXPECT_EQ(run(scanned, input), expected) << blocks;
    EXPECT_GE(rms(expected), blocks == 0 ? 0.5 : 4) << blocks;
  }
}

// Blocks have their own weights, and quantization only costs precision: with and without it the outputs are near each
// other.
TEST(Workload, QuantizedIsNearTheOriginal) {
  const Graph fp8 = graph_of(bytes_of("tiny-mlp-b1"));
  const Graph original = graph_of(bytes_of("tiny-mlp-f32"));
  const Tensor input = normal_tensor(input_type(fp8), 3);
  const Tensor a = run(fp8, input);
  const Tensor b = run(original, input);
  double error = 0;
  for (int64_t i = 0; i < a.elements(); ++i) error += (a.value(i) - b.value(i)) * (a.value(i) - b.value(i));
  error = std::sqrt(error / static_cast<double>(a.elements()));
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.08 * rms(b));  // E4M3FN has 4 significant bits: 3 percent for each of four operands
}

TEST(Workload, AttentionAndItsPartsAreTheSameNumbers) {
  for (const std::string suffix : {"-b1", "-f32"}) {
    const Graph whole = graph_of(bytes_of("tiny-flash-attention" + suffix));
    const Graph parts = graph_of(bytes_of("tiny-materialized-attention" + suffix));
    const Tensor input = normal_tensor(input_type(whole), 11);
    const Tensor a = run(whole, input);
    const Tensor b = run(parts, input);
    ASSERT_EQ(a.shape(), (Shape{1, 13, 15}));
    ASSERT_EQ(b.shape(), a.shape());
    for (int64_t i = 0; i < a.elements(); ++i) EXPECT_NEAR(a.value(i), b.value(i), 1e-4) << suffix << " " << i;
  }
}

// The text without the names of nodes, which say where an operation came from.
std::string without_names(const Graph& graph) {
  const std::string text = print(graph);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    // A name stands behind a blank, an expression behind "=".
    if (text.compare(i, 2, " \"") == 0) {
      i = text.find('"', i + 2);
    } else {
      out += text[i];
    }
  }
  return out;
}

TEST(Workload, AttentionAndItsPartsAreOneGraph) {
  for (const std::string suffix : {"-b1", "-f32"}) {
    const Result<Graph> whole = run_passes(graph_of(bytes_of("tiny-flash-attention" + suffix)));
    const Result<Graph> parts = run_passes(graph_of(bytes_of("tiny-materialized-attention" + suffix)));
    ASSERT_TRUE(whole && parts);
    EXPECT_EQ(without_names(*parts), without_names(*whole));
    EXPECT_EQ(without_names(*whole).find("transpose %"), std::string::npos) << print(*whole);
    EXPECT_NE(without_names(*whole).find("= attention "), std::string::npos) << print(*whole);
  }
}

// Scores of random queries and keys: a softmax that is neither flat nor one-hot.
TEST(Workload, AttentionWeightsAreUneven) {
  const Graph graph = graph_of(bytes_of("tiny-materialized-attention-f32"));
  GraphBuilder builder;
  std::vector<ValueId> map(graph.value_count());
  for (const Op& op : graph.ops()) {
    if (std::holds_alternative<Output>(op.attributes)) continue;
    std::vector<ValueId> operands;
    for (const ValueId operand : graph.operands(op)) operands.push_back(map[operand.index]);
    const Type type = graph.type(graph.result(op));
    const OpId added = builder.add(op.attributes, operands, {&type, 1}, op.name);
    map[graph.result(op).index] = builder.peek().result(builder.peek().op(added));
    if (std::holds_alternative<Rowwise>(op.attributes)) builder.output("weights", map[graph.result(op).index]);
  }
  const Graph softmax = *std::move(builder).finish();
  const Tensor weights = run(softmax, normal_tensor(input_type(softmax), 5));
  ASSERT_EQ(weights.shape(), (Shape{1, 3, 13, 13}));
  double mean_of_largest = 0;
  for (int64_t row = 0; row < 39; ++row) {
    double largest = 0;
    for (int64_t j = 0; j < 13; ++j) largest = std::max(largest, weights.value(row * 13 + j));
    mean_of_largest += largest / 39;
  }
  EXPECT_GT(mean_of_largest, 0.25);  // flat would be 1 / 13
  EXPECT_LT(mean_of_largest, 0.85);
}

TEST(Workload, FullSizeImports) {
  const std::string bytes = bytes_of("mlp-b2-repeat3");
  EXPECT_NEAR(static_cast<double>(bytes.size()), 3.0 * 2 * 1152 * 4304, 1e6);
  const Graph graph = graph_of(bytes);
  int repeats = 0;
  for (const Op& op : graph.ops()) {
    const auto* repeat = std::get_if<Repeat>(&op.attributes);
    if (repeat == nullptr) continue;
    ++repeats;
    EXPECT_EQ(repeat->count, 3);
    EXPECT_EQ(repeat->carried, 1u);
    EXPECT_EQ(repeat->iterated, 8u);
  }
  EXPECT_EQ(repeats, 1);
}

}  // namespace
}  // namespace low
