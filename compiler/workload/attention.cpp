#include "compiler/workload/attention.h"

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "compiler/workload/linear.h"
#include "compiler/workload/onnx_parts.h"

namespace low {
namespace {

constexpr int opset = 23;  // the first with Attention
constexpr int ir_version = 11;

// One of the three layers. Streams are numbered behind those of the MLP.
struct Projection {
  std::string_view name;
  uint64_t stream;
  double gain;
  Bias bias;
};
// Scores have the deviation of queries times that of keys. The values' bias passes through the softmax as it is, since
// weights add up to 1: it keeps outputs away from 0, where a comparison allows the least.
std::array<Projection, 3> projections(const AttentionBlock& block) {
  return {{{"q", 16, 1.4, {0.5, 0}}, {"k", 19, 1.4, {0.5, 0}}, {"v", 22, block.value_gain, {2, 0.5}}}};
}

Linear linear_of(const AttentionBlock& block, const Projection& p) {
  const int64_t width = block.heads * block.head;
  return {p.stream, p.stream + 1, p.stream + 2, width, width, p.gain, p.bias};
}

// 448 of them are more than 6 standard deviations of a normal input.
constexpr float input_scale = 0.0147F;

std::string& add_tensor(onnx::GraphProto& graph, const std::string& name, int data_type,
                        std::initializer_list<int64_t> shape) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(data_type);
  for (const int64_t extent : shape) tensor.add_dims(extent);
  return *tensor.mutable_raw_data();
}

void add_shape(onnx::GraphProto& graph, const std::string& name, std::initializer_list<int64_t> extents) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(extents.size()));
  for (const int64_t extent : extents) tensor.add_int64_data(extent);
}

void add_permutation(onnx::NodeProto& node, std::initializer_list<int64_t> axes) {
  onnx::AttributeProto& attribute = add_attribute(node, "perm", onnx::AttributeProto::INTS);
  for (const int64_t axis : axes) attribute.add_ints(axis);
}

// x through FP8, if the model has it: the name of what the layers read.
std::string add_input(onnx::GraphProto& graph, const AttentionBlock& block) {
  if (block.numbers != Numbers::fp8) return "x";
  append_number(add_tensor(graph, "x_scale", onnx::TensorProto::FLOAT, {}), input_scale);
  // The zero point says what QuantizeLinear makes.
  add_tensor(graph, "zero", onnx::TensorProto::FLOAT8E4M3FN, {}) = std::string(1, '\0');
  add_node(graph, "x_quantize", "QuantizeLinear", {"x", "x_scale", "zero"}, "x_q");
  add_node(graph, "x_dequantize", "DequantizeLinear", {"x_q", "x_scale", "zero"}, "x_dq");
  return "x_dq";
}

// The value `p.name` [batch, tokens, width].
void add_projection(onnx::GraphProto& graph, const AttentionBlock& block, const Projection& p,
                    const std::string& input) {
  const std::string name(p.name);
  const Linear linear = linear_of(block, p);
  std::string weight = "w" + name;
  append_weight(add_tensor(graph, weight, weight_type(block.numbers), {linear.inputs, linear.outputs}), linear, 0,
                block.numbers);
  append_bias(add_tensor(graph, "b" + name, data_type(block.numbers), {linear.outputs}), linear, 0, block.numbers);
  if (block.numbers == Numbers::fp8) {
    append_scale(add_tensor(graph, weight + "_scale", onnx::TensorProto::FLOAT, {linear.outputs}), linear, 0,
                 Numbers::fp8);
    onnx::NodeProto& node =
        add_node(graph, weight + "_dequantize", "DequantizeLinear", {weight, weight + "_scale"}, weight + "_dq");
    add_attribute(node, "axis", onnx::AttributeProto::INT).set_i(1);
    weight += "_dq";
  }
  add_node(graph, "linear_" + name, "MatMul", {input, weight}, name + "_linear");
  add_node(graph, "add_" + name, "Add", {name + "_linear", "b" + name}, name);
}

void add_decomposed(onnx::GraphProto& graph, const AttentionBlock& block) {
  add_shape(graph, "split", {block.batch, block.tokens, block.heads, block.head});
  add_shape(graph, "joined", {block.batch, block.tokens, block.heads * block.head});
  append_number(add_tensor(graph, "scale", data_type(block.numbers), {}),
                1 / std::sqrt(static_cast<double>(block.head)), block.numbers);
  for (const std::string name : {"q", "k", "v"}) {
    add_node(graph, "split_" + name, "Reshape", {name, "split"}, name + "_split");
    onnx::NodeProto& node = add_node(graph, "heads_" + name, "Transpose", {name + "_split"}, name + "_heads");
    if (name == "k") {
      add_permutation(node, {0, 2, 3, 1});
    } else {
      add_permutation(node, {0, 2, 1, 3});
    }
  }
  add_node(graph, "products", "MatMul", {"q_heads", "k_heads"}, "scores");
  add_node(graph, "scaling", "Mul", {"scores", "scale"}, "scaled");
  add_attribute(add_node(graph, "softmax", "Softmax", {"scaled"}, "weights"), "axis", onnx::AttributeProto::INT)
      .set_i(-1);
  add_node(graph, "averages", "MatMul", {"weights", "v_heads"}, "y_heads");
  add_permutation(add_node(graph, "rows", "Transpose", {"y_heads"}, "y_split"), {0, 2, 1, 3});
  add_node(graph, "join", "Reshape", {"y_split", "joined"}, "y");
}

}  // namespace

std::string make_attention(const AttentionBlock& block) {
  onnx::ModelProto model;
  model.set_ir_version(ir_version);
  model.set_producer_name("low");
  model.add_opset_import()->set_version(opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("attention");
  const int64_t shape[] = {block.batch, block.tokens, block.heads * block.head};
  set_type(*graph.add_input(), "x", data_type(block.numbers), shape);
  set_type(*graph.add_output(), "y", data_type(block.numbers), shape);
  const std::string input = add_input(graph, block);
  for (const Projection& projection : projections(block)) add_projection(graph, block, projection, input);
  if (block.decomposed) {
    add_decomposed(graph, block);
  } else {
    onnx::NodeProto& node = add_node(graph, "attention", "Attention", {"q", "k", "v"}, "y");
    add_attribute(node, "q_num_heads", onnx::AttributeProto::INT).set_i(block.heads);
    add_attribute(node, "kv_num_heads", onnx::AttributeProto::INT).set_i(block.heads);
  }
  return model.SerializeAsString();
}

}  // namespace low
