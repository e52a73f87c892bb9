// Tests of single operators: a model of one node that runs in the reference.
#pragma once

#include <cmath>
#include <functional>
#include <limits>

#include "compiler/frontend/test_model.h"

namespace low {

inline const double inf = std::numeric_limits<double>::infinity();
inline const double nan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::string what;
  int64_t opset;
  std::string op;
  std::vector<Tensor> inputs;
  std::vector<bool> is_constant;  // inputs that are initializers rather than graph inputs; missing entries are false
  std::function<void(onnx::NodeProto&)> attributes;
  std::vector<Tensor> outputs;
};

inline onnx::ModelProto model_of(const Case& test, size_t outputs, std::vector<Tensor>* given) {
  onnx::ModelProto model = make_model(test.opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<std::string> inputs;
  std::vector<std::string> results;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.push_back("x" + std::to_string(i));
    if (i < test.is_constant.size() && test.is_constant[i]) {
      add_initializer(graph, inputs.back(), test.inputs[i]);
      continue;
    }
    const auto extents = test.inputs[i].shape().extents();
    set_type(*graph.add_input(), inputs.back(), test.inputs[i].dtype(), Dims(extents.begin(), extents.end()));
    if (given != nullptr) given->push_back(test.inputs[i]);
  }
  for (size_t i = 0; i < outputs; ++i) {
    results.push_back("y" + std::to_string(i));
    add_output(graph, results.back());
  }
  onnx::NodeProto& node = add_node(graph, test.op, inputs, results);
  if (test.attributes) test.attributes(node);
  return model;
}

inline void expect_near(const Tensor& actual, const Tensor& expected, const std::string& what) {
  EXPECT_EQ(name(actual.dtype()), name(expected.dtype())) << what;
  ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape())) << what;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = actual.value(i);
    const double e = expected.value(i);
    if (std::isnan(e) || std::isinf(e)) {
      EXPECT_TRUE(std::isnan(e) ? std::isnan(a) : a == e) << what << " element " << i << " is " << a;
    } else {
      EXPECT_NEAR(a, e, 1e-6 * std::max(1.0, std::abs(e))) << what << " element " << i;
    }
  }
}

inline void check(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    std::vector<Tensor> given;
    const std::vector<Tensor> outputs = run(model_of(test, test.outputs.size(), &given), given);
    ASSERT_EQ(outputs.size(), test.outputs.size()) << test.what;
    for (size_t i = 0; i < outputs.size(); ++i) expect_near(outputs[i], test.outputs[i], test.what);
  }
}

inline Tensor boolean(const Dims& dims, const std::vector<double>& v) { return make(DType::boolean, dims, v); }
inline Tensor f16(const Dims& dims, const std::vector<double>& v) { return make(DType::f16, dims, v); }
inline Tensor i32(const Dims& dims, const std::vector<double>& v) { return make(DType::i32, dims, v); }
inline Tensor u8(const Dims& dims, const std::vector<double>& v) { return make(DType::u8, dims, v); }
inline Tensor i8(const Dims& dims, const std::vector<double>& v) { return make(DType::i8, dims, v); }
inline Tensor fp8(const Dims& dims, const std::vector<double>& v) { return make(DType::f8e4m3fn, dims, v); }

// Attributes of a node.
using Set = std::function<void(onnx::NodeProto&)>;

inline Set with(const std::string& name, int64_t value) {
  return [=](onnx::NodeProto& node) { set(node, name, value); };
}
inline Set with_list(const std::string& name, const Dims& value) {
  return [=](onnx::NodeProto& node) { set(node, name, value); };
}
inline Set with_text(const std::string& name, const std::string& value) {
  return [=](onnx::NodeProto& node) { set(node, name, value); };
}
inline Set with_float(const std::string& name, float value) {
  return [=](onnx::NodeProto& node) { set_float(node, name, value); };
}
inline Set both(const Set& a, const Set& b) {
  return [=](onnx::NodeProto& node) {
    a(node);
    b(node);
  };
}

}  // namespace low
