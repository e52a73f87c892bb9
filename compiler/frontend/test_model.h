// Small ONNX models for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/frontend/frontend.h"
#include "onnx.pb.h"
#include "reference/reference.h"
#include "runtime/tensor/tensor_proto.h"

namespace low {

using Dims = std::vector<int64_t>;

inline Tensor make(DType dtype, const Dims& dims, const std::vector<double>& values) {
  Tensor tensor(dtype, Shape(dims));
  EXPECT_EQ(static_cast<size_t>(tensor.elements()), values.size());
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_value(i, values[static_cast<size_t>(i)]);
  return tensor;
}
inline Tensor f32(const Dims& dims, const std::vector<double>& values) { return make(DType::f32, dims, values); }
inline Tensor i64(const Dims& dims, const std::vector<double>& values) { return make(DType::i64, dims, values); }

inline std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.elements(); ++i) result.push_back(tensor.value(i));
  return result;
}

inline void set_type(onnx::ValueInfoProto& info, const std::string& name, DType dtype, const Dims& dims) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(dtype_to_onnx(dtype));
  type.mutable_shape();
  for (const int64_t dim : dims) type.mutable_shape()->add_dim()->set_dim_value(dim);
}

inline onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs, const std::string& name = "n") {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

inline onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name,
                                       onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& added = *node.add_attribute();
  added.set_name(name);
  added.set_type(type);
  return added;
}
inline void set(onnx::NodeProto& node, const std::string& name, int64_t value) {
  attribute(node, name, onnx::AttributeProto::INT).set_i(value);
}
inline void set_float(onnx::NodeProto& node, const std::string& name, float value) {
  attribute(node, name, onnx::AttributeProto::FLOAT).set_f(value);
}
inline void set(onnx::NodeProto& node, const std::string& name, const Dims& values) {
  auto& added = attribute(node, name, onnx::AttributeProto::INTS);
  for (const int64_t value : values) added.add_ints(value);
}
inline void set(onnx::NodeProto& node, const std::string& name, const std::string& value) {
  attribute(node, name, onnx::AttributeProto::STRING).set_s(value);
}
inline void set(onnx::NodeProto& node, const std::string& name, const onnx::GraphProto& value) {
  *attribute(node, name, onnx::AttributeProto::GRAPH).mutable_g() = value;
}
inline void set(onnx::NodeProto& node, const std::string& name, const Tensor& value) {
  tensor_to_proto(value, *attribute(node, name, onnx::AttributeProto::TENSOR).mutable_t());
}
inline void add_initializer(onnx::GraphProto& graph, const std::string& name, const Tensor& value) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor_to_proto(value, tensor);
  tensor.set_name(name);
}
inline void add_output(onnx::GraphProto& graph, const std::string& name) { graph.add_output()->set_name(name); }

inline onnx::ModelProto make_model(int64_t opset = 21) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("g");
  return model;
}

inline Result<Graph> import_test(const onnx::ModelProto& model, const FrontendOptions& options = {},
                                 const std::string& path = "m.onnx") {
  const std::string bytes = model.SerializeAsString();
  return import_onnx(std::as_bytes(std::span(bytes)), path, options);
}

inline Error error_of(const onnx::ModelProto& model, const FrontendOptions& options = {}) {
  const Result<Graph> graph = import_test(model, options);
  if (!graph) return graph.error();
  ADD_FAILURE() << "imported:\n" << print(*graph);
  return Error{ErrorKind::internal, ""};
}

// The shapes of tensors for the model's inputs, stated: an extent of 0 is unknown where only the model says it.
inline FrontendOptions with_shapes(const onnx::ModelProto& model, const std::vector<Tensor>& inputs) {
  std::set<std::string> initializers;
  for (const onnx::TensorProto& initializer : model.graph().initializer()) initializers.insert(initializer.name());
  FrontendOptions options;
  size_t next = 0;
  for (const onnx::ValueInfoProto& input : model.graph().input())
    if (!initializers.contains(input.name()) && next < inputs.size())
      options.shapes[input.name()] = inputs[next++].shape();
  return options;
}

// Imports and runs in the reference.
inline std::vector<Tensor> run(const onnx::ModelProto& model, const std::vector<Tensor>& inputs) {
  const Result<Graph> graph = import_test(model, with_shapes(model, inputs));
  if (!graph) {
    ADD_FAILURE() << graph.error().message;
    return {};
  }
  Result<std::vector<Tensor>> outputs = reference::run(*graph, inputs);
  if (!outputs) {
    ADD_FAILURE() << outputs.error().message << "\n" << print(*graph);
    return {};
  }
  return *outputs;
}

}  // namespace low
