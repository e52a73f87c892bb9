#include "hwtests/negative_controls.h"

#include <algorithm>
#include <cstring>

#include "onnx.pb.h"

namespace low {
namespace {

onnx::TensorProto* find_initializer(onnx::ModelProto& model, std::string_view name) {
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer())
    if (tensor.name() == name) return &tensor;
  return nullptr;
}

// The output is multiplied by zero.
void zero_output(onnx::ModelProto& model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::string output = graph.output(0).name();
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (std::string& name : *node.mutable_output())
      if (name == output) name += "_before_zero";
  onnx::TensorProto& zero = *graph.add_initializer();
  zero.set_name("negative_control_zero");
  zero.set_data_type(onnx::TensorProto::FLOAT);
  zero.set_raw_data(std::string(4, '\0'));
  onnx::NodeProto& multiply = *graph.add_node();
  multiply.set_op_type("Mul");
  multiply.set_name("negative_control");
  multiply.add_input(output + "_before_zero");
  multiply.add_input(zero.name());
  multiply.add_output(output);
}

// The first two blocks change places.
void swap_layers(onnx::ModelProto& model) {
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (!tensor.name().ends_with("_all")) continue;
    std::string& raw = *tensor.mutable_raw_data();
    const auto block = static_cast<std::ptrdiff_t>(raw.size() / static_cast<size_t>(tensor.dims(0)));
    std::swap_ranges(raw.begin(), raw.begin() + block, raw.begin() + block);
  }
}

// The first block's first weight [k, n] gets the bytes of its transposed matrix.
void transpose_weight(onnx::ModelProto& model) {
  onnx::TensorProto& tensor = *find_initializer(model, "w1_all");
  std::string& raw = *tensor.mutable_raw_data();
  const auto k = static_cast<size_t>(tensor.dims(1)), n = static_cast<size_t>(tensor.dims(2));
  const std::string before = raw.substr(0, k * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < k; ++j) raw[i * k + j] = before[j * n + i];
}

// One weight of the last block becomes 448 with the other sign: of the hidden unit with the largest bias, which is
// active.
void change_weight(onnx::ModelProto& model) {
  onnx::TensorProto& weights = *find_initializer(model, "w2_all");
  const auto blocks = static_cast<size_t>(weights.dims(0)), k = static_cast<size_t>(weights.dims(1)),
             n = static_cast<size_t>(weights.dims(2));
  const std::string& biases = find_initializer(model, "b1_all")->raw_data();
  std::vector<float> last(k);
  std::memcpy(last.data(), biases.data() + (blocks - 1) * k * sizeof(float), k * sizeof(float));
  const auto unit = static_cast<size_t>(std::ranges::max_element(last) - last.begin());
  char& code = (*weights.mutable_raw_data())[((blocks - 1) * k + unit) * n];
  code = static_cast<char>((static_cast<unsigned char>(code) & 0x80) != 0 ? 0x7e : 0xfe);
}

}  // namespace

Result<std::vector<NegativeControl>> make_negative_controls(std::span<const std::byte> bytes) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(ErrorKind::invalid, "negative controls: not an ONNX model");
  for (const std::string_view name : {"w1_all", "w2_all"}) {
    const onnx::TensorProto* tensor = find_initializer(model, name);
    if (tensor == nullptr || tensor->dims_size() != 3 || tensor->data_type() != onnx::TensorProto::FLOAT8E4M3FN ||
        tensor->dims(0) < 2)
      return fail(ErrorKind::invalid,
                  "negative controls: expected an FP8 MLP workload of at least two blocks as a Scan");
  }
  using Change = void (*)(onnx::ModelProto&);
  const std::pair<const char*, Change> changes[] = {{"zeroed-output", zero_output},
                                                    {"swapped-layers", swap_layers},
                                                    {"transposed-weight", transpose_weight},
                                                    {"changed-weight", change_weight}};
  std::vector<NegativeControl> controls;
  for (const auto& [name, change] : changes) {
    onnx::ModelProto changed = model;
    change(changed);
    controls.push_back({.name = name, .model = changed.SerializeAsString()});
  }
  return controls;
}

Result<std::string> with_weight(std::span<const std::byte> bytes, std::string_view initializer, size_t index,
                                unsigned char code) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(ErrorKind::invalid, "changed weight: not an ONNX model");
  onnx::TensorProto* tensor = find_initializer(model, initializer);
  if (tensor == nullptr || tensor->data_type() != onnx::TensorProto::FLOAT8E4M3FN || index >= tensor->raw_data().size())
    return fail(ErrorKind::invalid, "changed weight: there is no such element of an FP8 initializer");
  (*tensor->mutable_raw_data())[index] = static_cast<char>(code);
  return model.SerializeAsString();
}

}  // namespace low
