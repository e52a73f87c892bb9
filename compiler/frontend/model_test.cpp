// Whole models: inputs, outputs, declared types, functions, and files that are not what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/frontend/test_model.h"
#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// y = -x
onnx::ModelProto negation(const Dims& dims = {2}) {
  onnx::ModelProto model = make_model();
  set_type(*model.mutable_graph()->add_input(), "x", DType::f32, dims);
  add_node(*model.mutable_graph(), "Neg", {"x"}, {"y"}, "negate");
  add_output(*model.mutable_graph(), "y");
  return model;
}

Error error_of_bytes(const std::string& bytes) {
  const auto graph = import_onnx(std::as_bytes(std::span(bytes)), "m.onnx", {});
  return graph ? Error{ErrorKind::internal, "imported"} : graph.error();
}

TEST(Model, NotAModel) {
  const std::string bytes = negation().SerializeAsString();
  EXPECT_EQ(error_of_bytes("").message, "m.onnx: this is no ONNX model: it is empty");
  // Every truncation is refused: the graph is not the model's last field, and a cut field does not parse.
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Error error = error_of_bytes(bytes.substr(0, length));
    EXPECT_EQ(error.kind, ErrorKind::invalid) << length << ": " << error.message;
  }
  EXPECT_EQ(error_of_bytes("\x7f"
                           "ELF rubbish")
                .kind,
            ErrorKind::invalid);
  const auto null = import_onnx_file("/dev/null", {});
  ASSERT_FALSE(null);
  EXPECT_EQ(null.error().kind, ErrorKind::invalid) << null.error().message;
  EXPECT_EQ(import_onnx_file("/nonexistent/m.onnx", {}).error().kind, ErrorKind::invalid);
}

TEST(Model, HeaderIsChecked) {
  auto model = negation();
  model.clear_ir_version();
  EXPECT_EQ(error_of(model).kind, ErrorKind::invalid);
  model = negation();
  model.clear_opset_import();
  EXPECT_THAT(error_of(model).message, HasSubstr("no opset_import"));
  model = negation();
  model.clear_graph();
  EXPECT_THAT(error_of(model).message, HasSubstr("no graph"));
  for (const int64_t opset : {0, 6, 29}) {
    model = negation();
    model.mutable_opset_import(0)->set_version(opset);
    EXPECT_EQ(error_of(model).kind, ErrorKind::unsupported);
  }
  model = negation();
  model.set_ir_version(14);
  EXPECT_TRUE(import_test(model));
  model.set_ir_version(15);
  EXPECT_EQ(error_of(model).message, "m.onnx: IR version 15 is not supported, up to 14 is");
  model = negation();
  model.mutable_opset_import(0)->set_domain("com.example");
  EXPECT_THAT(error_of(model).message, HasSubstr("operator ai.onnx.Neg is of a domain that the model does not import"));
  model.mutable_graph()->mutable_node(0)->set_domain("com.example");
  EXPECT_EQ(error_of(model).message,
            "m.onnx: node \"negate\" (#0): operator com.example.Neg (opset 21) is not supported");
  model = negation();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  EXPECT_TRUE(import_test(model));
}

TEST(Model, SymbolicDimensions) {
  auto model = negation({2, 3});
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("batch");
  Error error = error_of(model);
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(error.message, "m.onnx: input \"x\": dimension 0 (\"batch\") is symbolic; bind it with --dim batch=N");
  auto graph = import_test(model, {.dimensions = {{"batch", 5}}, .shapes = {}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(to_string(graph->type(graph->result(graph->op(graph->inputs()[0])))), "f32[5,3]");
  graph = import_test(model, {.dimensions = {}, .shapes = {{"x", Shape{7, 3}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(to_string(graph->type(graph->result(graph->op(graph->inputs()[0])))), "f32[7,3]");

  EXPECT_EQ(error_of(model, {.dimensions = {{"batch", -1}}, .shapes = {}}).kind, ErrorKind::usage);
  EXPECT_EQ(error_of(model, {.dimensions = {{"batch", 2}, {"other", 1}}, .shapes = {}}).kind, ErrorKind::usage);
  EXPECT_EQ(error_of(model, {.dimensions = {{"batch", 2}}, .shapes = {{"x", Shape{7, 3}}}}).kind, ErrorKind::usage);
  EXPECT_EQ(error_of(model, {.dimensions = {}, .shapes = {{"x", Shape{7, 4}}}}).kind, ErrorKind::usage);
  EXPECT_EQ(error_of(model, {.dimensions = {}, .shapes = {{"x", Shape{7}}}}).kind, ErrorKind::usage);
  EXPECT_EQ(error_of(model, {.dimensions = {}, .shapes = {{"z", Shape{7}}}}).kind, ErrorKind::usage);

  shape.mutable_dim(0)->clear_dim_param();
  EXPECT_THAT(error_of(model).message,
              HasSubstr("dimension 0 of [?,3] is unknown; state the shape with --shape x=N,3"));
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(error_of(model).message, HasSubstr("has no shape; state it with --shape x="));
  EXPECT_TRUE(import_test(model, {.dimensions = {}, .shapes = {{"x", Shape{}}}}));
}

// All that exporters write for a dimension that they do not know.
TEST(Model, UnknownDimensions) {
  auto model = negation({-1, 3, 0, 7, 7});
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(3)->set_dim_param("?");
  shape.mutable_dim(4)->set_dim_param("?");
  set_type(*model.mutable_graph()->mutable_output(0), "y", DType::f32, {-1, 3, 0, -1, -1});
  const Error error = error_of(model);
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(error.message,
            "m.onnx: input \"x\": dimension 0 of [?,3,?,?,?] is unknown; state the shape with --shape x=N,3,N,N,N");
  // Two that are unknown need not be equal, and 0 may be meant.
  const auto graph = import_test(model, {.shapes = {{"x", Shape{2, 3, 0, 4, 5}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(to_string(graph->type(graph->result(graph->op(graph->inputs()[0])))), "f32[2,3,0,4,5]");
  EXPECT_EQ(error_of(model, {.shapes = {{"x", Shape{2, 4, 6, 4, 5}}}}).message,
            "m.onnx: input \"x\": --shape says [2,4,6,4,5], which contradicts the model's [?,3,?,?,?]");
  EXPECT_EQ(error_of(model, {.dimensions = {{"?", 4}}}).kind, ErrorKind::usage);
}

std::string npy_file(const std::string& name, const Tensor& tensor) {
  const std::string path = testing::TempDir() + name;
  EXPECT_TRUE(write_tensor(path, "x", tensor));
  return path;
}

// y = a + b, a: [n,3], b: [n,1]; c has a default value.
TEST(Model, GivenTensorsSayDimensions) {
  onnx::ModelProto model = make_model();
  onnx::GraphProto& proto = *model.mutable_graph();
  for (const auto& [name, extent] : {std::pair("a", 3), std::pair("b", 1)}) {
    onnx::ValueInfoProto& input = *proto.add_input();
    set_type(input, name, DType::f32, {1, extent});
    input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("n");
  }
  add_node(proto, "Add", {"a", "b"}, {"y"});
  add_output(proto, "y");
  const std::string five = npy_file("model_test_five.npy", Tensor(DType::f32, {5, 3}));
  const std::string six = npy_file("model_test_six.npy", Tensor(DType::f32, {6, 1}));
  const std::string other = npy_file("model_test_other.npy", Tensor(DType::f32, {5, 4}));
  const auto graph = import_test(model, {.inputs = {{"a", five}}});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(to_string(graph->type(graph->result(graph->op(graph->inputs()[1])))), "f32[5,1]");
  const auto refused = [&](const FrontendOptions& options) {
    const Error error = error_of(model, options);
    EXPECT_EQ(error.kind, ErrorKind::usage);
    return error.message;
  };
  EXPECT_EQ(refused({.inputs = {{"a", five}, {"b", six}}}),
            "m.onnx: input \"b\": dimension \"n\" is 6 by " + six + ", but 5 for \"a\" by " + five);
  EXPECT_EQ(refused({.dimensions = {{"n", 4}}, .inputs = {{"a", five}}}),
            "m.onnx: input \"a\": dimension \"n\" is 5 by " + five + ", but 4 by --dim");
  EXPECT_EQ(refused({.shapes = {{"a", Shape{4, 3}}}, .inputs = {{"a", five}}}),
            "m.onnx: input \"a\": --shape says [4,3], but the tensor in " + five + " is [5,3]");
  EXPECT_EQ(refused({.inputs = {{"a", other}}}),
            "m.onnx: input \"a\": " + other + " says [5,4], which contradicts the model's [n,3]");
  EXPECT_EQ(refused({.inputs = {{"z", five}}}), "m.onnx: there is no input \"z\"; the inputs are: \"a\", \"b\"");
  EXPECT_EQ(error_of(model, {.inputs = {{"a", "/nonexistent/a.npy"}}}).kind, ErrorKind::invalid);
}

TEST(Model, AGivenTensorReplacesADefaultValue) {
  auto model = negation();
  onnx::GraphProto& proto = *model.mutable_graph();
  add_initializer(proto, "c", f32({2}, {5, 6}));
  add_initializer(proto, "w", f32({2}, {7, 8}));
  set_type(*proto.add_input(), "c", DType::f32, {-1});
  add_node(proto, "Add", {"c", "w"}, {"z"});
  add_output(proto, "z");
  const std::string file = npy_file("model_test_c.npy", Tensor(DType::f32, {2}));
  const auto graph = import_test(model, {.inputs = {{"c", file}}});
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->inputs().size(), 2u);
  EXPECT_EQ(graph->op(graph->inputs()[1]).name, "c");
  EXPECT_EQ(import_test(model)->inputs().size(), 1u);
  // An initializer that is no input stays a constant, and so do all in a package.
  EXPECT_EQ(error_of(model, {.inputs = {{"w", file}}}).message,
            "m.onnx: \"w\" is an initializer, compiled in as a constant, and no input; the inputs are: \"x\", \"c\"");
  EXPECT_EQ(error_of(model, {.inputs = {{"c", file}}, .constant_initializers = true}).message,
            "m.onnx: \"c\" is an initializer, compiled in as a constant, and no input; the inputs are: \"x\"");
}

TEST(Model, HostileInputs) {
  auto with_dims = [](const Dims& dims) { return error_of(negation(dims)); };
  EXPECT_EQ(with_dims({INT64_MAX, INT64_MAX}).kind, ErrorKind::usage);
  EXPECT_EQ(with_dims({1, 1, 1, 1, 1, 1, 1, 1, 1}).kind, ErrorKind::unsupported);
  auto model = negation();
  model.mutable_graph()->mutable_input(0)->mutable_type()->set_sequence_type("");
  EXPECT_EQ(error_of(model).kind, ErrorKind::unsupported);
  model = negation();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(8);
  EXPECT_THAT(error_of(model).message, HasSubstr("data type STRING is not supported"));
  model = negation();
  model.mutable_graph()->mutable_input(0)->clear_type();
  EXPECT_EQ(error_of(model).kind, ErrorKind::invalid);
  model = negation();
  *model.mutable_graph()->add_input() = model.graph().input(0);
  EXPECT_THAT(error_of(model).message, HasSubstr("input \"x\" occurs twice"));
}

TEST(Model, NamesAndOrder) {
  auto model = negation();
  add_node(*model.mutable_graph(), "Neg", {"x"}, {"y"});
  EXPECT_THAT(error_of(model).message, HasSubstr("node \"n\" (#1): value \"y\" is defined twice"));
  model = negation();
  model.mutable_graph()->mutable_node(0)->set_input(0, "later");
  add_node(*model.mutable_graph(), "Neg", {"y"}, {"later"});
  EXPECT_THAT(error_of(model).message, HasSubstr("input \"later\" is not defined"));
  model = negation();
  model.mutable_graph()->mutable_output(0)->set_name("z");
  EXPECT_THAT(error_of(model).message, HasSubstr("output \"z\" is not defined"));
  model = negation();
  add_output(*model.mutable_graph(), "y");
  EXPECT_THAT(error_of(model).message, HasSubstr("output \"y\" occurs twice"));
  model = negation();
  model.mutable_graph()->clear_output();
  EXPECT_EQ(error_of(model).kind, ErrorKind::invalid);
  model = negation();
  model.mutable_graph()->mutable_node(0)->set_input(0, std::string("\0\n\xff", 3));
  EXPECT_THAT(error_of(model).message, HasSubstr("\"\\x00\\x0a\\xff\""));
}

TEST(Model, InitializersAreNoInputs) {
  auto model = negation();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_initializer(graph, "c", f32({2}, {5, 6}));
  set_type(*graph.add_input(), "c", DType::f32, {2});
  add_output(graph, "c");
  add_output(graph, "x");
  const auto outputs = run(model, {f32({2}, {1, 2})});  // one input; outputs of an initializer and of an input
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_THAT(values(outputs[0]), ElementsAre(-1, -2));
  EXPECT_THAT(values(outputs[1]), ElementsAre(5, 6));
  EXPECT_THAT(values(outputs[2]), ElementsAre(1, 2));
  graph.mutable_input(1)->Clear();
  set_type(*graph.mutable_input(1), "c", DType::f32, {3});
  EXPECT_THAT(error_of(model).message, HasSubstr("initializer \"c\" is declared with shape [3], but is f32[2]"));
  model = negation();
  add_initializer(*model.mutable_graph(), "c", f32({2}, {5, 6}));
  add_initializer(*model.mutable_graph(), "c", f32({2}, {5, 6}));
  EXPECT_THAT(error_of(model).message, HasSubstr("\"c\" is defined twice"));
  model = negation();
  model.mutable_graph()->add_sparse_initializer("");
  EXPECT_EQ(error_of(model).kind, ErrorKind::unsupported);
  model = negation();
  add_initializer(*model.mutable_graph(), "c", f32({2}, {5, 6}));
  model.mutable_graph()->mutable_initializer(0)->mutable_raw_data()->resize(7);
  EXPECT_EQ(error_of(model).kind, ErrorKind::invalid);
}

TEST(Model, DeclaredTypes) {
  auto model = negation({2, 3});
  set_type(*model.mutable_graph()->mutable_output(0), "y", DType::f32, {2, 3});
  EXPECT_TRUE(import_test(model));
  model.mutable_graph()
      ->mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_param("n");
  EXPECT_TRUE(import_test(model));
  model.mutable_graph()->clear_output();
  set_type(*model.mutable_graph()->add_output(), "y", DType::f32, {2, 4});
  EXPECT_EQ(error_of(model).kind, ErrorKind::invalid);
  EXPECT_THAT(error_of(model).message, HasSubstr("declared with shape [2,4], but is f32[2,3]"));
  model = negation();
  set_type(*model.mutable_graph()->add_value_info(), "y", DType::i64, {2});
  EXPECT_THAT(error_of(model).message, HasSubstr("value \"y\" is declared as INT64, but is f32[2]"));
}

// f(a, b) with an attribute: clip(a, b?, max) by two nested functions.
TEST(Model, Functions) {
  auto model = make_model(10);
  model.add_opset_import()->set_domain("mine");
  model.mutable_opset_import(1)->set_version(1);
  onnx::FunctionProto& twice = *model.add_functions();
  twice.set_name("Twice");
  twice.set_domain("mine");
  twice.add_input("a");
  twice.add_output("r");
  twice.add_opset_import()->set_version(13);
  {
    onnx::NodeProto& node = *twice.add_node();
    node.set_op_type("Add");
    node.add_input("a");
    node.add_input("a");
    node.add_output("r");
  }
  onnx::FunctionProto& bounded = *model.add_functions();
  bounded.set_name("Bounded");
  bounded.set_domain("mine");
  bounded.add_input("a");
  bounded.add_output("r");
  bounded.add_attribute("low");
  onnx::AttributeProto& high = *bounded.add_attribute_proto();
  high.set_name("high");
  high.set_type(onnx::AttributeProto::FLOAT);
  high.set_f(5);
  bounded.add_opset_import()->set_version(10);
  *bounded.add_opset_import() = model.opset_import(1);
  {
    onnx::NodeProto& node = *bounded.add_node();
    node.set_op_type("Twice");
    node.set_domain("mine");
    node.add_input("a");
    node.add_output("t");
    onnx::NodeProto& clip = *bounded.add_node();
    clip.set_op_type("Clip");
    clip.add_input("t");
    clip.add_output("r");
    attribute(clip, "min", onnx::AttributeProto::FLOAT).set_ref_attr_name("low");
    attribute(clip, "max", onnx::AttributeProto::FLOAT).set_ref_attr_name("high");
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  set_type(*graph.add_input(), "x", DType::f32, {3});
  onnx::NodeProto& call = add_node(graph, "Bounded", {"x"}, {"y"});
  call.set_domain("mine");
  set_float(call, "low", 1);
  add_output(graph, "y");
  const auto outputs = run(model, {f32({3}, {-1, 2, 9})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(values(outputs[0]), ElementsAre(1, 4, 5));

  // A function that calls itself.
  twice.mutable_node(0)->set_op_type("Twice");
  twice.mutable_node(0)->set_domain("mine");
  twice.mutable_node(0)->mutable_input()->RemoveLast();
  EXPECT_EQ(error_of(model).kind, ErrorKind::unsupported);
  EXPECT_THAT(error_of(model).message, HasSubstr("nest deeper than 32"));
}

// Folding has a budget: beyond it, operations stay operations, and the model is still the same.
TEST(Model, FoldingIsBounded) {
  auto model = make_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_initializer(graph, "shape", i64({1}, {4096}));
  add_initializer(graph, "v", i64({}, {1}));
  add_node(graph, "Expand", {"v", "shape"}, {"v0"});
  // 32 KiB each: 2^26 bytes are spent after 2^11 nodes.
  constexpr int count = (1 << 11) + 10;
  for (int i = 0; i < count; ++i) {
    add_node(graph, "Add", {"v" + std::to_string(i), "v"}, {"v" + std::to_string(i + 1)});
  }
  add_output(graph, "v" + std::to_string(count));
  const auto imported = import_test(model);
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_GE(imported->op_count(), 11u);
  EXPECT_LE(imported->op_count(), 16u);
}

// Whatever is done to a model's bytes, import returns: a graph, or one sentence.
TEST(Model, FlippedBytes) {
  auto model = negation({2, 3});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_initializer(graph, "s", i64({2}, {3, -1}));
  add_node(graph, "Reshape", {"y", "s"}, {"z"});
  onnx::GraphProto body;
  set_type(*body.add_input(), "i", DType::i64, {});
  set_type(*body.add_input(), "c", DType::boolean, {});
  set_type(*body.add_input(), "v", DType::f32, {3, 2});
  add_node(body, "Add", {"v", "z"}, {"w"});
  add_output(body, "c");
  add_output(body, "w");
  add_initializer(graph, "trip", i64({}, {3}));
  set(add_node(graph, "Loop", {"trip", "", "z"}, {"l"}), "body", body);
  add_output(graph, "l");
  ASSERT_TRUE(import_test(model)) << import_test(model).error().message;
  const std::string bytes = model.SerializeAsString();
  constexpr uint32_t seed = 20240607;
  std::mt19937 random(seed);
  int imported = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string changed = bytes;
    for (uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const auto result = import_onnx(std::as_bytes(std::span(changed)), "m.onnx", {});
    imported += result ? 1 : 0;
    if (!result) {
      EXPECT_NE(result.error().kind, ErrorKind::internal) << "seed " << seed << ": " << result.error().message;
      EXPECT_TRUE(result.error().message.starts_with("m.onnx: ")) << result.error().message;
      EXPECT_EQ(result.error().message.find('\n'), std::string::npos) << result.error().message;
    }
  }
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, 3000);
}

}  // namespace
}  // namespace low
