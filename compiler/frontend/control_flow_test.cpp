#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/frontend/test_model.h"

namespace low {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor truth(bool value) { return make(DType::boolean, {}, {value ? 1.0 : 0.0}); }

// The body of a running sum: state s, element e -> s + e, and s + e again to be collected.
onnx::GraphProto sum_body(const Dims& element = {2}) {
  onnx::GraphProto body;
  set_type(*body.add_input(), "s", DType::f32, element);
  set_type(*body.add_input(), "e", DType::f32, element);
  add_node(body, "Add", {"s", "e"}, {"next"});
  add_node(body, "Identity", {"next"}, {"seen"});
  add_output(body, "next");
  add_output(body, "seen");
  return body;
}

onnx::ModelProto scan_model(int64_t opset, const Dims& state, const Dims& scanned, const onnx::GraphProto& body,
                            onnx::NodeProto** node) {
  onnx::ModelProto model = make_model(opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  set_type(*graph.add_input(), "s0", DType::f32, state);
  set_type(*graph.add_input(), "x", DType::f32, scanned);
  onnx::NodeProto& scan = add_node(graph, "Scan", {"s0", "x"}, {"last", "all"}, "scan");
  set(scan, "num_scan_inputs", 1);
  set(scan, "body", body);
  add_output(graph, "last");
  add_output(graph, "all");
  *node = &scan;
  return model;
}

TEST(Scan, RunningSum) {
  onnx::NodeProto* scan = nullptr;
  const auto model = scan_model(9, {2}, {3, 2}, sum_body(), &scan);
  const auto outputs = run(model, {f32({2}, {100, 200}), f32({3, 2}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(values(outputs[0]), ElementsAre(109, 212));
  EXPECT_THAT(values(outputs[1]), ElementsAre(101, 202, 104, 206, 109, 212));
}

TEST(Scan, AxesAndDirections) {
  onnx::NodeProto* scan = nullptr;
  auto model = scan_model(11, {2}, {2, 3}, sum_body(), &scan);
  set(*scan, "scan_input_axes", Dims{-1});
  set(*scan, "scan_input_directions", Dims{1});
  set(*scan, "scan_output_axes", Dims{1});
  set(*scan, "scan_output_directions", Dims{1});
  // Columns of [[1 2 3] [4 5 6]] from the right: [3 6], [2 5], [1 4]; sums [3 6], [5 11], [6 15], written from the
  // right.
  const auto outputs = run(model, {f32({2}, {0, 0}), f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(values(outputs[0]), ElementsAre(6, 15));
  EXPECT_EQ(to_string(outputs[1].shape()), "[2,3]");
  EXPECT_THAT(values(outputs[1]), ElementsAre(6, 5, 3, 15, 11, 6));
}

TEST(Scan, NoIterations) {
  onnx::NodeProto* scan = nullptr;
  auto model = scan_model(9, {2}, {0, 2}, sum_body(), &scan);
  set(*scan, "scan_input_directions", Dims{1});
  const auto outputs = run(model, {f32({2}, {1, 2}), f32({0, 2}, {})});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(values(outputs[0]), ElementsAre(1, 2));
  EXPECT_EQ(to_string(outputs[1].shape()), "[0,2]");
}

TEST(Scan, Opset8WithOneBatch) {
  onnx::NodeProto* scan = nullptr;
  auto model = scan_model(8, {1, 2}, {1, 2, 2}, sum_body(), &scan);
  scan->mutable_input()->Clear();
  for (const char* name : {"", "s0", "x"}) scan->add_input(name);
  const auto outputs = run(model, {f32({1, 2}, {1, 1}), f32({1, 2, 2}, {1, 2, 3, 4})});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(to_string(outputs[0].shape()), "[1,2]");
  EXPECT_THAT(values(outputs[0]), ElementsAre(5, 7));
  EXPECT_EQ(to_string(outputs[1].shape()), "[1,2,2]");
  model.mutable_graph()
      ->mutable_input(1)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(2);
  EXPECT_EQ(error_of(model).kind, ErrorKind::unsupported);
}

// Outer values are invariant operands; outer constants become constants of the body.
TEST(Scan, Captures) {
  onnx::GraphProto body;
  set_type(*body.add_input(), "s", DType::f32, {});
  set_type(*body.add_input(), "e", DType::f32, {});
  add_node(body, "Mul", {"e", "outer"}, {"scaled"});
  add_node(body, "Add", {"scaled", "constant"}, {"shifted"});
  add_node(body, "Add", {"s", "shifted"}, {"next"});
  add_output(body, "next");
  onnx::ModelProto model = make_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  set_type(*graph.add_input(), "s0", DType::f32, {});
  set_type(*graph.add_input(), "x", DType::f32, {3});
  set_type(*graph.add_input(), "w", DType::f32, {});
  add_initializer(graph, "constant", f32({}, {10}));
  add_node(graph, "Neg", {"w"}, {"outer"});
  onnx::NodeProto& scan = add_node(graph, "Scan", {"s0", "x"}, {"y"});
  set(scan, "num_scan_inputs", 1);
  set(scan, "body", body);
  add_output(graph, "y");
  // 5 + (1 + 2 + 3) * -2 + 3 * 10 = 23
  const auto outputs = run(model, {f32({}, {5}), f32({3}, {1, 2, 3}), f32({}, {2})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(values(outputs[0]), ElementsAre(23));
  const auto imported = import_test(model);
  for (const Op& op : imported->ops()) {
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      EXPECT_EQ(repeat->carried, 1u);
      EXPECT_EQ(repeat->invariant, 1u);
      EXPECT_EQ(repeat->iterated, 1u);
    }
  }
  scan.mutable_attribute(1)->mutable_g()->mutable_node(0)->set_input(1, "nowhere");
  EXPECT_THAT(error_of(model).message, HasSubstr("the body uses \"nowhere\", which is not defined"));
}

TEST(Scan, Refusals) {
  onnx::NodeProto* scan = nullptr;
  const auto model = scan_model(9, {2}, {3, 2}, sum_body(), &scan);
  const auto message = [&](const std::function<void(onnx::NodeProto&)>& change) {
    onnx::ModelProto changed = model;
    change(*changed.mutable_graph()->mutable_node(0));
    return error_of(changed).message;
  };
  EXPECT_THAT(message([](auto& n) { n.mutable_attribute(0)->set_i(3); }), HasSubstr("num_scan_inputs is 3"));
  EXPECT_THAT(message([](auto& n) { n.mutable_attribute(0)->set_i(2); }),
              HasSubstr("2 and 3 elements along their axes"));
  EXPECT_THAT(message([](auto& n) { set(n, "scan_input_axes", Dims{2}); }), HasSubstr("axis 2 is out of range"));
  EXPECT_THAT(message([](auto& n) { set(n, "scan_output_axes", Dims{0, 0}); }), HasSubstr("2 entries, 1 are expected"));
  EXPECT_THAT(message([](auto& n) { set(n, "scan_input_directions", Dims{2}); }), HasSubstr("other than 0 and 1"));
  EXPECT_THAT(
      message([](auto& n) {
        n.mutable_attribute(1)->mutable_g()->mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(1 +
                                                                                                                    10);
      }),
      HasSubstr("body input \"e\" is declared as DOUBLE"));
  EXPECT_THAT(message([](auto& n) { n.mutable_attribute(1)->mutable_g()->mutable_node(0)->set_op_type("Foo"); }),
              HasSubstr("node \"scan\" (#0): node \"n\" (#0): operator ai.onnx.Foo (opset 9) is not supported"));
  // A state that grows.
  EXPECT_THAT(message([](auto& n) {
                auto& body = *n.mutable_attribute(1)->mutable_g();
                body.mutable_input(0)->clear_type();
                body.mutable_input(1)->clear_type();
                body.mutable_node(0)->set_op_type("MatMul");
              }),
              HasSubstr("carried value 0 is f32[2] before the first iteration and f32[] after one"));
}

struct LoopForm {
  std::optional<int64_t> trip_count;
  std::optional<bool> condition;
  std::string body_condition = "pass";  // pass, true, false, computed
  bool use_iteration = true;
};

// v -> v + w (+ i), collecting the old v.
onnx::ModelProto loop_model(const LoopForm& form) {
  onnx::GraphProto body;
  set_type(*body.add_input(), "i", DType::i64, {});
  set_type(*body.add_input(), "c", DType::boolean, {});
  set_type(*body.add_input(), "v", DType::i64, {2});
  if (form.body_condition == "pass") add_node(body, "Identity", {"c"}, {"go"});
  if (form.body_condition == "true") set(add_node(body, "Constant", {}, {"go"}), "value", truth(true));
  if (form.body_condition == "false") set(add_node(body, "Constant", {}, {"go"}), "value", truth(false));
  if (form.body_condition == "computed") add_node(body, "Less", {"i", "w"}, {"go"});
  add_node(body, "Add", {"v", "w"}, {"sum"});
  add_node(body, form.use_iteration ? "Add" : "Min", {"sum", form.use_iteration ? "i" : "sum"}, {"next"});
  add_node(body, "Identity", {"v"}, {"old"});
  for (const char* name : {"go", "next", "old"}) add_output(body, name);

  onnx::ModelProto model = make_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  set_type(*graph.add_input(), "v0", DType::i64, {2});
  set_type(*graph.add_input(), "w", DType::i64, {});
  if (form.trip_count) add_initializer(graph, "trip", i64({}, {0}));
  if (form.trip_count) {
    Tensor trip(DType::i64, Shape{});
    trip.set_bits(0, static_cast<uint64_t>(*form.trip_count));
    tensor_to_proto(trip, *graph.mutable_initializer(0));
  }
  if (form.condition) add_initializer(graph, "start", truth(*form.condition));
  onnx::NodeProto& loop = add_node(graph, "Loop", {form.trip_count ? "trip" : "", form.condition ? "start" : "", "v0"},
                                   {"last", "all"}, "loop");
  set(loop, "body", body);
  add_output(graph, "last");
  add_output(graph, "all");
  return model;
}

TEST(Loop, Forms) {
  struct Expectation {
    LoopForm form;
    int64_t iterations;
  };
  const Expectation expectations[] = {
      {{3, std::nullopt, "pass"}, 3},
      {{3, true, "pass"}, 3},
      {{4, true, "true"}, 4},
      {{3, false, "pass"}, 0},
      {{0, true, "true"}, 0},
      {{-5, std::nullopt, "true"}, 0},
      {{7, true, "false"}, 1},
      {{std::nullopt, true, "false"}, 1},
      {{0, true, "false"}, 0},
      {{27, std::nullopt, "true", false}, 27},
      {{std::nullopt, false, "pass", false}, 0},
  };
  for (const Expectation& expectation : expectations) {
    // Worked out by a plain loop, from v = [1, 2] and w = 10.
    double a = 1;
    double b = 2;
    std::vector<double> all;
    for (int64_t i = 0; i < expectation.iterations; ++i) {
      all.insert(all.end(), {a, b});
      const double step = 10 + (expectation.form.use_iteration ? static_cast<double>(i) : 0);
      a += step;
      b += step;
    }
    const auto outputs = run(loop_model(expectation.form), {i64({2}, {1, 2}), i64({}, {10})});
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_THAT(values(outputs[0]), ElementsAre(a, b));
    EXPECT_EQ(values(outputs[1]), all);
    EXPECT_EQ(to_string(outputs[1].shape()), to_string(Shape{expectation.iterations, 2}));
  }
}

TEST(Loop, IterationNumberOnlyWhereItIsUsed) {
  for (const bool used : {false, true}) {
    const auto graph = import_test(loop_model({5, std::nullopt, "true", used}));
    ASSERT_TRUE(graph) << graph.error().message;
    for (const Op& op : graph->ops()) {
      if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
        EXPECT_EQ(repeat->iterated, used ? 1u : 0u);
      }
    }
  }
}

TEST(Loop, Refusals) {
  const auto refuse = [](const LoopForm& form, const char* text) {
    const Error error = error_of(loop_model(form));
    EXPECT_EQ(error.kind, ErrorKind::unsupported) << error.message;
    EXPECT_THAT(error.message, HasSubstr(text));
  };
  refuse({INT64_MAX, true, "pass"}, "a trip count of 9223372036854775807");
  refuse({(int64_t{1} << 31) + 1, true, "pass"}, "a trip count of 2147483649");
  refuse({int64_t{1} << 30, true, "pass"}, "iteration number is used");
  refuse({3, true, "computed"}, "a condition that the body computes");
  refuse({std::nullopt, true, "true"}, "without a trip count");
  refuse({std::nullopt, std::nullopt, "pass"}, "without a trip count");
  auto variable = loop_model({3, true, "pass"});
  variable.mutable_graph()->mutable_initializer()->RemoveLast();
  variable.mutable_graph()->mutable_initializer()->RemoveLast();
  set_type(*variable.mutable_graph()->add_input(), "trip", DType::i64, {});
  add_initializer(*variable.mutable_graph(), "start", truth(true));
  EXPECT_THAT(error_of(variable).message, HasSubstr("the trip count is not known before the model runs"));
}

TEST(Loop, Nested) {
  // for i < 2: for j < 3: v += i  (i is an outer value of the inner body)
  onnx::GraphProto inner;
  set_type(*inner.add_input(), "j", DType::i64, {});
  set_type(*inner.add_input(), "ci", DType::boolean, {});
  set_type(*inner.add_input(), "vi", DType::i64, {});
  add_node(inner, "Add", {"vi", "i"}, {"vi2"});
  for (const char* name : {"ci", "vi2"}) add_output(inner, name);
  onnx::GraphProto outer;
  set_type(*outer.add_input(), "i", DType::i64, {});
  set_type(*outer.add_input(), "co", DType::boolean, {});
  set_type(*outer.add_input(), "vo", DType::i64, {});
  add_initializer(outer, "three", i64({}, {3}));
  set(add_node(outer, "Loop", {"three", "", "vo"}, {"vo2"}), "body", inner);
  for (const char* name : {"co", "vo2"}) add_output(outer, name);
  onnx::ModelProto model = make_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  set_type(*graph.add_input(), "v", DType::i64, {});
  add_initializer(graph, "two", i64({}, {2}));
  set(add_node(graph, "Loop", {"two", "", "v"}, {"y"}), "body", outer);
  add_output(graph, "y");
  const auto outputs = run(model, {i64({}, {100})});  // 100 + 3 * 0 + 3 * 1
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(values(outputs[0]), ElementsAre(103));
}

TEST(Loop, NestingIsBounded) {
  const auto nested = [](int depth) {
    onnx::GraphProto body;
    for (int i = 0; i < depth; ++i) {
      onnx::GraphProto outer;
      const std::string level = std::to_string(i);
      for (const char* name : {"i", "c", "v"}) outer.add_input()->set_name(name + level);
      if (i == 0) {
        add_node(outer, "Neg", {"v0"}, {"z0"});
      } else {
        set(add_node(outer, "Loop", {"one", "", "v" + level}, {"z" + level}), "body", body);
      }
      add_output(outer, "c" + level);
      add_output(outer, "z" + level);
      body = outer;
    }
    onnx::ModelProto model = make_model();
    set_type(*model.mutable_graph()->add_input(), "x", DType::f32, {});
    add_initializer(*model.mutable_graph(), "one", i64({}, {1}));
    set(add_node(*model.mutable_graph(), "Loop", {"one", "", "x"}, {"y"}), "body", body);
    add_output(*model.mutable_graph(), "y");
    return import_test(model);
  };
  const auto fine = nested(31);
  EXPECT_TRUE(fine) << fine.error().message;
  // protobuf's own bound is about as tight as ours.
  EXPECT_FALSE(nested(33));
  EXPECT_FALSE(nested(300));
}

TEST(If, ConstantCondition) {
  for (const bool condition : {false, true}) {
    onnx::GraphProto branches[2];
    for (const int b : {0, 1}) {
      add_node(branches[b], b == 1 ? "Neg" : "Abs", {"x"}, {"r"});
      add_output(branches[b], "r");
    }
    onnx::ModelProto model = make_model();
    onnx::GraphProto& graph = *model.mutable_graph();
    set_type(*graph.add_input(), "x", DType::f32, {1});
    add_initializer(graph, "c", truth(condition));
    onnx::NodeProto& node = add_node(graph, "If", {"c"}, {"y"});
    set(node, "then_branch", branches[1]);
    set(node, "else_branch", branches[0]);
    add_output(graph, "y");
    const auto outputs = run(model, {f32({1}, {-3})});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_THAT(values(outputs[0]), ElementsAre(3));
    const auto positive = run(model, {f32({1}, {3})});
    EXPECT_THAT(values(positive[0]), ElementsAre(condition ? -3 : 3));
  }
}

}  // namespace
}  // namespace low
