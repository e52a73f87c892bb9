#include "compiler/workload/mlp.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "compiler/workload/linear.h"
#include "compiler/workload/onnx_parts.h"

namespace low {
namespace {

constexpr int opset = 20;  // the first with Gelu
constexpr int ir_version = 9;

// --- Numbers

// What a random sequence is for.
enum Stream : uint64_t { weight_1 = 1, channel_1, bias_of_1, weight_2, channel_2, bias_of_2 };

// A compromise. A rounding of f32 that turns the other way in double moves an FP8 activation by a step of up to an
// eighth, and every further quantization turns a difference d into one of about sqrt(d * step): a chain of blocks
// without biases ends in a few percent of noise from a single such rounding, more than a comparison with double allows.
// On the other hand an error in the first block has to show in the last one. So a block's bias makes up most of its
// output's RMS of 4.6, and its weights for an RMS of 1.4.
struct Gains {
  double first;   // deviation of the hidden layer, for inputs of `input_rms`
  double second;  // RMS of the output without bias over the RMS of the hidden layer's GELU (1.4)
  double input_rms;
};
Gains gains(int block) { return {2, 1, block == 0 ? 1 : 4.6}; }

constexpr Bias bias_1{0.5, 0};
constexpr Bias bias_2{4.5, 0.875};

// Activation scales. 448 of FP8's, 127 of i8's are more than 6 standard deviations; not powers of two, and different in
// each block.
double step(Numbers numbers) { return numbers == Numbers::i8 ? 3.5 : 1; }
float input_scale(Numbers numbers, int block) {
  return static_cast<float>(gains(block).input_rms * 0.0147 * step(numbers) * (1 + 0.03125 * block));
}
float hidden_scale(Numbers numbers, int block) {
  return static_cast<float>(0.0291 * step(numbers) * (1 + 0.0625 * block));
}

// --- The model

Linear first(const Mlp& mlp, int block) {
  return {weight_1, channel_1, bias_of_1, mlp.width, mlp.hidden, gains(block).first / gains(block).input_rms, bias_1};
}
Linear second(const Mlp& mlp, int block) {
  return {weight_2, channel_2, bias_of_2, mlp.hidden, mlp.width, gains(block).second, bias_2};
}

std::vector<Parameter> parameters(const Mlp& mlp) {
  const int data = data_type(mlp.numbers), weight = weight_type(mlp.numbers);
  const bool quantized = is_quantized(mlp.numbers);
  std::vector<Parameter> list;
  list.push_back({"w1", weight, {mlp.width, mlp.hidden}});
  if (quantized) list.push_back({"w1_scale", data, {mlp.hidden}});
  list.push_back({"b1", data, {mlp.hidden}});
  list.push_back({"w2", weight, {mlp.hidden, mlp.width}});
  if (quantized) list.push_back({"w2_scale", data, {mlp.width}});
  list.push_back({"b2", data, {mlp.width}});
  if (quantized) {
    list.push_back({"x_scale", data, {}});
    list.push_back({"h_scale", data, {}});
  }
  return list;
}

void append_parameter(std::string& raw, const Mlp& mlp, std::string_view name, int block) {
  if (name == "w1") append_weight(raw, first(mlp, block), block, mlp.numbers);
  if (name == "w1_scale") append_scale(raw, first(mlp, block), block, mlp.numbers);
  if (name == "b1") append_bias(raw, first(mlp, block), block, mlp.numbers);
  if (name == "w2") append_weight(raw, second(mlp, block), block, mlp.numbers);
  if (name == "w2_scale") append_scale(raw, second(mlp, block), block, mlp.numbers);
  if (name == "b2") append_bias(raw, second(mlp, block), block, mlp.numbers);
  if (name == "x_scale") append_number(raw, input_scale(mlp.numbers, block));
  if (name == "h_scale") append_number(raw, hidden_scale(mlp.numbers, block));
}

// One initializer with the parameter of blocks first … first + blocks - 1, stacked along a new first axis if `stacked`.
void add_initializer(onnx::GraphProto& graph, const Mlp& mlp, const Parameter& parameter, const std::string& name,
                     int first_block, int blocks, bool stacked) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(parameter.data_type);
  if (stacked) tensor.add_dims(blocks);
  for (const int64_t extent : parameter.shape) tensor.add_dims(extent);
  std::string& raw = *tensor.mutable_raw_data();
  for (int block = first_block; block < first_block + blocks; ++block)
    append_parameter(raw, mlp, parameter.name, block);
}

// The nodes of one block; the names of its parameters and inner values end in `suffix`.
void add_block(onnx::GraphProto& graph, const Mlp& mlp, const std::string& input, const std::string& output,
               const std::string& suffix) {
  const auto named = [&](std::string_view name) { return std::string(name) + suffix; };
  // x quantized, if the model does that.
  const auto activation = [&](const std::string& x, const std::string& name) {
    if (!is_quantized(mlp.numbers)) return x;
    const std::string scale = named(name + "_scale");
    add_node(graph, named(name + "_quantize"), "QuantizeLinear", {x, scale, "zero"}, named(name + "_q"));
    add_node(graph, named(name + "_dequantize"), "DequantizeLinear", {named(name + "_q"), scale, "zero"},
             named(name + "_dq"));
    return named(name + "_dq");
  };
  const auto weight = [&](const std::string& name) {
    if (!is_quantized(mlp.numbers)) return named(name);
    onnx::NodeProto& node = add_node(graph, named(name + "_dequantize"), "DequantizeLinear",
                                     {named(name), named(name + "_scale")}, named(name + "_dq"));
    add_attribute(node, "axis", onnx::AttributeProto::INT).set_i(1);
    return named(name + "_dq");
  };
  add_node(graph, named("linear_1"), "MatMul", {activation(input, "x"), weight("w1")}, named("h_linear"));
  add_node(graph, named("add_1"), "Add", {named("h_linear"), named("b1")}, named("h_biased"));
  onnx::NodeProto& gelu = add_node(graph, named("gelu"), "Gelu", {named("h_biased")}, named("h"));
  add_attribute(gelu, "approximate", onnx::AttributeProto::STRING).set_s("tanh");
  add_node(graph, named("linear_2"), "MatMul", {activation(named("h"), "h"), weight("w2")}, named("y_linear"));
  add_node(graph, named("add_2"), "Add", {named("y_linear"), named("b2")}, output);
}

void add_scan(onnx::GraphProto& graph, const Mlp& mlp) {
  const int64_t state[] = {mlp.batch, mlp.tokens, mlp.width};
  onnx::NodeProto& scan = add_node(graph, "blocks", "Scan", {"x"}, "y");
  onnx::GraphProto body;
  body.set_name("block");
  set_type(*body.add_input(), "block_x", data_type(mlp.numbers), state);
  const std::vector<Parameter> list = parameters(mlp);
  for (const Parameter& parameter : list) {
    scan.add_input(parameter.name + "_all");
    set_type(*body.add_input(), parameter.name, parameter.data_type, parameter.shape);
    add_initializer(graph, mlp, parameter, parameter.name + "_all", 0, mlp.blocks, true);
  }
  add_block(body, mlp, "block_x", "block_y", "");
  set_type(*body.add_output(), "block_y", data_type(mlp.numbers), state);
  *add_attribute(scan, "body", onnx::AttributeProto::GRAPH).mutable_g() = std::move(body);
  add_attribute(scan, "num_scan_inputs", onnx::AttributeProto::INT).set_i(static_cast<int64_t>(list.size()));
}

void add_unrolled(onnx::GraphProto& graph, const Mlp& mlp) {
  std::string value = "x";
  for (int block = 0; block < mlp.blocks; ++block) {
    const std::string suffix = mlp.blocks == 1 ? "" : fmt::format("_{}", block);
    for (const Parameter& parameter : parameters(mlp)) {
      add_initializer(graph, mlp, parameter, parameter.name + suffix, block, 1, false);
    }
    const std::string output = block + 1 == mlp.blocks ? "y" : fmt::format("y_{}", block);
    add_block(graph, mlp, value, output, suffix);
    value = output;
  }
  if (mlp.blocks == 0) add_node(graph, "none", "Identity", {"x"}, "y");
}

}  // namespace

int64_t weight_bytes(const Mlp& mlp) {
  constexpr int64_t sizes[] = {1, 1, 2, 4};
  const int64_t weights = 2 * mlp.width * mlp.hidden * sizes[static_cast<size_t>(mlp.numbers)];
  const int64_t rest = 2 * 4 * (mlp.width + mlp.hidden) + 2 * 4;  // scales and biases, at most
  return mlp.blocks * (weights + rest);
}

std::string make_mlp(const Mlp& mlp) {
  onnx::ModelProto model;
  model.set_ir_version(ir_version);
  model.set_producer_name("low");
  model.add_opset_import()->set_version(opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("mlp");
  const int64_t shape[] = {mlp.batch, mlp.tokens, mlp.width};
  set_type(*graph.add_input(), "x", data_type(mlp.numbers), shape);
  set_type(*graph.add_output(), "y", data_type(mlp.numbers), shape);
  if (is_quantized(mlp.numbers)) {  // the zero point that says what QuantizeLinear makes
    onnx::TensorProto& zero = *graph.add_initializer();
    zero.set_name("zero");
    zero.set_data_type(weight_type(mlp.numbers));
    zero.set_raw_data(std::string(1, '\0'));
  }
  if (mlp.scan) {
    add_scan(graph, mlp);
  } else {
    add_unrolled(graph, mlp);
  }
  return model.SerializeAsString();
}

}  // namespace low
