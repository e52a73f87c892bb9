// Pieces of ONNX models as the workloads write them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "onnx.pb.h"

namespace low {

inline onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& name, const char* op,
                                 std::initializer_list<std::string> inputs, const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_name(name);
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

inline onnx::AttributeProto& add_attribute(onnx::NodeProto& node, const char* name,
                                           onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

inline void set_type(onnx::ValueInfoProto& info, const std::string& name, int data_type,
                     std::span<const int64_t> shape) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(data_type);
  tensor.mutable_shape();
  for (const int64_t extent : shape) tensor.mutable_shape()->add_dim()->set_dim_value(extent);
}

// A weight, scale or bias.
struct Parameter {
  std::string name;
  int data_type;
  std::vector<int64_t> shape;
};

}  // namespace low
