// How much a few functions can make of a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/frontend/test_model.h"

namespace low {
namespace {

using testing::HasSubstr;

// Function i calls function i - 1 twice; function 0 is a node. 2^depth nodes.
onnx::ModelProto doubling(int depth) {
  auto model = make_model();
  model.add_opset_import()->set_domain("mine");
  model.mutable_opset_import(1)->set_version(1);
  for (int i = 0; i < depth; ++i) {
    onnx::FunctionProto& function = *model.add_functions();
    function.set_name("f" + std::to_string(i));
    function.set_domain("mine");
    function.add_input("a");
    function.add_output("r");
    function.add_opset_import()->set_version(13);
    function.add_opset_import()->set_domain("mine");
    function.mutable_opset_import(1)->set_version(1);
    for (const auto& [from, to] : {std::pair("a", "t"), std::pair("t", "r")}) {
      onnx::NodeProto& node = *function.add_node();
      node.set_op_type(i == 0 ? "Neg" : "f" + std::to_string(i - 1));
      if (i > 0) node.set_domain("mine");
      node.add_input(from);
      node.add_output(to);
    }
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  set_type(*graph.add_input(), "x", DType::f32, {3});
  add_node(graph, "f" + std::to_string(depth - 1), {"x"}, {"y"}).set_domain("mine");
  add_output(graph, "y");
  return model;
}

TEST(Functions, CallsOfCallsAreCounted) {
  EXPECT_EQ(run(doubling(10), {f32({3}, {1, 2, 3})}).size(), 1u);
  const Error error = error_of(doubling(20));
  EXPECT_EQ(error.kind, ErrorKind::unsupported);
  EXPECT_THAT(error.message, HasSubstr("more than 50000 nodes"));
}

}  // namespace
}  // namespace low
