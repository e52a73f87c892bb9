// Attention and RotaryEmbedding: what ONNX's own cases leave open, and what is refused.
#include <algorithm>

#include "compiler/frontend/operator_case.h"

namespace low {
namespace {

// A node with named optional inputs: an empty tensor name leaves one out.
struct Call {
  int64_t opset = 23;
  std::vector<std::optional<Tensor>> inputs;
  Set attributes;
  size_t outputs = 1;
  std::string op = "Attention";
};

onnx::ModelProto model_of(const Call& call, std::vector<Tensor>* given = nullptr) {
  onnx::ModelProto model = make_model(call.opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<std::string> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto& input = call.inputs[i];
    inputs.push_back(input ? "x" + std::to_string(i) : "");
    if (!input) continue;
    const auto extents = input->shape().extents();
    set_type(*graph.add_input(), inputs.back(), input->dtype(), Dims(extents.begin(), extents.end()));
    if (given != nullptr) given->push_back(*input);
  }
  std::vector<std::string> outputs;
  for (size_t i = 0; i < call.outputs; ++i) {
    outputs.push_back("y" + std::to_string(i));
    add_output(graph, outputs.back());
  }
  onnx::NodeProto& node = add_node(graph, call.op, inputs, outputs);
  if (call.attributes) call.attributes(node);
  return model;
}

std::vector<Tensor> run(const Call& call) {
  std::vector<Tensor> given;
  const onnx::ModelProto model = model_of(call, &given);
  return run(model, given);
}

Tensor numbers(const Dims& dims, int seed, DType type = DType::f32) {
  Tensor tensor(type, Shape(dims));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.set_value(i, static_cast<double>((i * 37 + seed * 11) % 29) / 14.5 - 1);
  }
  return tensor;
}

Set heads(int64_t q, int64_t kv) { return both(with("q_num_heads", q), with("kv_num_heads", kv)); }

std::vector<std::string> kinds_of(const Call& call) {
  const Result<Graph> graph = import_test(model_of(call));
  EXPECT_TRUE(graph) << graph.error().message;
  std::vector<std::string> kinds;
  if (graph) {
    for (const Op& op : graph->ops()) kinds.emplace_back(kind_name(op.attributes));
  }
  return kinds;
}

void refuses(const Call& call, const std::string& part) {
  std::vector<Tensor> given;
  const onnx::ModelProto model = model_of(call, &given);
  const Error error = error_of(model, with_shapes(model, given));
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  EXPECT_TRUE(error.kind == ErrorKind::invalid || error.kind == ErrorKind::unsupported) << error.message;
}

TEST(ImportAttention, PackedInputsAreTheOperands) {
  const Call call{.inputs = {numbers({2, 5, 12}, 1), numbers({2, 7, 6}, 2), numbers({2, 7, 10}, 3)},
                  .attributes = heads(4, 2)};
  EXPECT_EQ(kinds_of(call), (std::vector<std::string>{"input", "input", "input", "attention", "output"}));
}

// The scores that a model asks for come from other operations: the result must be the same.
TEST(ImportAttention, PartsAndWholeAgree) {
  struct Case {
    std::string what;
    Call call;
  };
  const Tensor mask = numbers({2, 4, 5, 7}, 4);
  Tensor choice(DType::boolean, {5, 7});
  for (int64_t i = 0; i < 35; ++i) choice.set_bits(i, i % 7 == 0 || i % 3 == 0 ? 1 : 0);
  const std::vector<std::optional<Tensor>> packed = {numbers({2, 5, 12}, 1), numbers({2, 7, 6}, 2),
                                                     numbers({2, 7, 10}, 3)};
  const std::vector<std::optional<Tensor>> apart = {numbers({2, 4, 5, 3}, 1), numbers({2, 2, 7, 3}, 2),
                                                    numbers({2, 2, 7, 5}, 3)};
  const auto with_mask = [](std::vector<std::optional<Tensor>> inputs, const Tensor& added) {
    inputs.emplace_back(added);
    return inputs;
  };
  const Set causal = with("is_causal", 1);
  const std::vector<Case> cases = {
      {"packed", {.inputs = packed, .attributes = heads(4, 2)}},
      {"apart", {.inputs = apart, .attributes = {}}},
      {"mask", {.inputs = with_mask(packed, mask), .attributes = heads(4, 2)}},
      {"bool mask, causal", {.inputs = with_mask(apart, choice), .attributes = causal}},
      {"softcap and scale",
       {.inputs = with_mask(apart, mask), .attributes = both(with_float("softcap", 0.5F), with_float("scale", 2))}},
      {"f64 softmax", {.inputs = apart, .attributes = with("softmax_precision", onnx::TensorProto::DOUBLE)}}};
  for (const Case& test : cases) {
    for (int64_t mode = 0; mode < 4; ++mode) {
      Call parts = test.call;
      parts.outputs = 4;
      parts.attributes = test.call.attributes ? both(test.call.attributes, with("qk_matmul_output_mode", mode))
                                              : with("qk_matmul_output_mode", mode);
      const std::vector<Tensor> expected = run(test.call);
      const std::vector<Tensor> actual = run(parts);
      ASSERT_EQ(expected.size(), 1U) << test.what;
      ASSERT_EQ(actual.size(), 4U) << test.what;
      for (int64_t i = 0; i < expected[0].elements(); ++i) {
        EXPECT_NEAR(actual[0].value(i), expected[0].value(i), 1e-6) << test.what << " " << i;
      }
      EXPECT_EQ(actual[1].shape(), (Shape{2, 2, 7, 3}));
      EXPECT_EQ(actual[2].shape(), (Shape{2, 2, 7, 5}));
      ASSERT_EQ(actual[3].shape(), (Shape{2, 4, 5, 7}));
      if (mode != 3) continue;
      for (int64_t row = 0; row < 40; ++row) {
        double sum = 0;
        for (int64_t j = 0; j < 7; ++j) sum += actual[3].value(row * 7 + j);
        EXPECT_NEAR(sum, 1, 1e-6) << test.what;
      }
    }
  }
}

// Past keys of a packed model: as if all keys had been given, with causality counted from the end of the past.
TEST(ImportAttention, PastKeys) {
  const Tensor q = numbers({1, 2, 4}, 1);               // two heads of two elements
  const Tensor k = f32({1, 3, 2}, {1, 2, 3, 4, 5, 6});  // one of keys
  const Tensor v = f32({1, 3, 1}, {1, 2, 3});
  const std::vector<Tensor> with_past = run({.inputs = {q, f32({1, 1, 2}, {5, 6}), f32({1, 1, 1}, {3}), std::nullopt,
                                                        f32({1, 1, 2, 2}, {1, 2, 3, 4}), f32({1, 1, 2, 1}, {1, 2})},
                                             .attributes = heads(2, 1),
                                             .outputs = 3});
  const std::vector<Tensor> whole = run({.inputs = {q, k, v}, .attributes = heads(2, 1)});
  ASSERT_EQ(with_past.size(), 3U);
  expect_near(with_past[0], whole[0], "Y");
  expect_near(with_past[1], f32({1, 1, 3, 2}, {1, 2, 3, 4, 5, 6}), "present_key");
  expect_near(with_past[2], f32({1, 1, 3, 1}, {1, 2, 3}), "present_value");
  const Call causal{.inputs = {q, f32({1, 1, 2}, {5, 6}), f32({1, 1, 1}, {3}), std::nullopt,
                               f32({1, 1, 2, 2}, {1, 2, 3, 4}), f32({1, 1, 2, 1}, {1, 2})},
                    .attributes = both(heads(2, 1), with("is_causal", 1))};
  expect_near(run(causal)[0], whole[0], "row 0 sees the two past keys and its own");
}

// Since opset 24: a mask of fewer keys, and numbers of keys that count.
TEST(ImportAttention, ShortMasksAndPadding) {
  const Tensor q = f32({2, 1, 1, 1}, {0, 0});
  const Tensor k = f32({2, 1, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor v = f32({2, 1, 4, 1}, {1, 3, 5, 7, 1, 3, 5, 7});
  const auto result = [&](std::vector<std::optional<Tensor>> more) {
    more.insert(more.begin(), {q, k, v});
    return values(run({.opset = 24, .inputs = std::move(more), .attributes = {}})[0]);
  };
  using Values = std::vector<double>;
  EXPECT_EQ(result({f32({1, 2}, {0, 0})}), (Values{2, 2}));
  EXPECT_EQ(result({boolean({2, 1, 1, 3}, {1, 0, 1, 0, 1, 1})}), (Values{3, 4}));
  EXPECT_EQ(result({f32({1, 1}, {0})}), (Values{1, 1}));  // padded, not broadcast
  EXPECT_EQ(result({std::nullopt, std::nullopt, std::nullopt, i64({2}, {1, 3})}), (Values{1, 3}));
  EXPECT_EQ(result({boolean({1, 4}, {0, 1, 1, 1}), std::nullopt, std::nullopt, i64({2}, {2, 3})}), (Values{3, 4}));
  EXPECT_EQ(result({f32({1, 3}, {0, -inf, 0}), std::nullopt, std::nullopt, i64({2}, {2, 4})}), (Values{1, 3}));
  // Integers are added, too.
  const std::vector<Tensor> added =
      run({.inputs = {q, k, v, make(DType::i32, {1, 4}, {0, -1000, -1000, 0})}, .attributes = {}});
  EXPECT_EQ(values(added[0]), (Values{4, 4}));
}

// One element a row: q 1 throughout, scores k, values v. Batch 0 has two valid keys, batch 1 four. The last of three
// queries sees them all.
TEST(ImportAttention, CausalCountsFromTheLastValidKey) {
  const Tensor q = f32({2, 1, 3, 1}, {0, 0, 0, 0, 0, 0});
  const Tensor k = f32({2, 1, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor v = f32({2, 1, 4, 1}, {1, 3, 5, 7, 1, 3, 5, 7});
  const auto result = [&](std::vector<std::optional<Tensor>> more, const Set& attributes) {
    more.insert(more.begin(), {q, k, v});
    return values(run({.opset = 24, .inputs = std::move(more), .attributes = attributes})[0]);
  };
  using Values = std::vector<double>;
  const std::optional<Tensor> counts = i64({2}, {2, 4}), none = std::nullopt;
  const Set causal = with("is_causal", 1);
  // Row 0 of batch 0 comes before its first key.
  EXPECT_EQ(result({none, none, none, counts}, causal), (Values{0, 1, 2, 2, 3, 4}));
  EXPECT_EQ(result({boolean({3, 4}, {1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1}), none, none, counts}, causal),
            (Values{0, 0, 1, 2, 4, 4}));
}

// Windows: one key back, and one ahead.
TEST(ImportAttention, Windows) {
  const Tensor q = f32({2, 1, 3, 1}, {0, 0, 0, 0, 0, 0});
  const Tensor k = f32({2, 1, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor v = f32({2, 1, 4, 1}, {1, 3, 5, 7, 1, 3, 5, 7});
  const auto result = [&](std::vector<std::optional<Tensor>> more, const Set& attributes) {
    more.insert(more.begin(), {q, k, v});
    return values(run({.opset = 25, .inputs = std::move(more), .attributes = attributes})[0]);
  };
  using Values = std::vector<double>;
  const std::optional<Tensor> counts = i64({2}, {2, 4}), none = std::nullopt;
  const Set causal = with("is_causal", 1);
  const Set left = with("left_window_size", 1);
  EXPECT_EQ(result({none, none, none, counts}, both(causal, left)), (Values{0, 1, 2, 2, 4, 6}));
  EXPECT_EQ(result({}, both(left, with("right_window_size", 1))), (Values{2, 3, 5, 2, 3, 5}));
  EXPECT_EQ(result({}, both(causal, left)), (Values{1, 2, 4, 1, 2, 4}));
  EXPECT_EQ(result({}, with("right_window_size", 1)), (Values{2, 3, 4, 2, 3, 4}));
  EXPECT_EQ(result({}, both(with("left_window_size", -1), with("right_window_size", INT64_MAX))),
            (Values{4, 4, 4, 4, 4, 4}));
  refuses({.opset = 25, .inputs = {q, k, v}, .attributes = with("left_window_size", -2)}, "-1 or more is expected");
  refuses({.opset = 24, .inputs = {q, k, v}, .attributes = with("left_window_size", 2)}, "not supported in opset 24");
}

// Whatever kind of mask takes all keys of a row away, and whatever its scores are.
TEST(ImportAttention, RowsWithoutKeysAreZero) {
  const Tensor q = f32({1, 1, 3, 1}, {1, 1, HUGE_VALF});
  const Tensor k = f32({1, 1, 2, 1}, {1, 1});
  const Tensor v = f32({1, 1, 2, 1}, {2, 4});
  for (const Tensor& mask : {boolean({3, 2}, {1, 1, 0, 0, 0, 0}), f32({3, 2}, {0, 0, -inf, -inf, -inf, -inf})}) {
    for (int64_t mode = 0; mode < 4; ++mode) {
      const auto whole = run({.inputs = {q, k, v, mask}, .attributes = {}});
      EXPECT_EQ(values(whole[0]), (std::vector<double>{3, 0, 0})) << name(mask.dtype());
      const auto parts =
          run({.inputs = {q, k, v, mask}, .attributes = with("qk_matmul_output_mode", mode), .outputs = 4});
      EXPECT_EQ(values(parts[0]), (std::vector<double>{3, 0, 0})) << name(mask.dtype());
      if (mode == 3) {
        EXPECT_EQ(values(parts[3]), (std::vector<double>{0.5, 0.5, 0, 0, 0, 0}));
      }
    }
  }
}

TEST(ImportAttention, NothingIsSummedToZero) {
  const std::vector<Tensor> no_keys =
      run({.inputs = {numbers({1, 2, 3, 4}, 1), Tensor(DType::f32, {1, 2, 0, 4}), Tensor(DType::f32, {1, 2, 0, 5})},
           .attributes = {}});
  ASSERT_EQ(no_keys.size(), 1U);
  EXPECT_EQ(no_keys[0].shape(), (Shape{1, 2, 3, 5}));
  EXPECT_EQ(values(no_keys[0]), std::vector<double>(30, 0));
  const std::vector<Tensor> no_elements =
      run({.inputs = {Tensor(DType::f32, {1, 1, 3, 0}), Tensor(DType::f32, {1, 1, 2, 0}), f32({1, 1, 2, 1}, {2, 4})},
           .attributes = {}});
  EXPECT_EQ(values(no_elements[0]), (std::vector<double>{3, 3, 3}));
}

TEST(ImportAttention, Refusals) {
  const Tensor q = numbers({2, 5, 12}, 1);
  const Tensor k = numbers({2, 7, 6}, 2);
  const Tensor v = numbers({2, 7, 10}, 3);
  const Set good = heads(4, 2);
  refuses({.opset = 22, .inputs = {q, k, v}, .attributes = good}, "Attention");
  refuses({.inputs = {q, k, v}, .attributes = {}}, "q_num_heads is 0, a divisor of 12");
  refuses({.inputs = {q, k, v}, .attributes = heads(5, 2)}, "q_num_heads is 5");
  refuses({.inputs = {q, k, v}, .attributes = heads(4, 4)}, "kv_num_heads is 4");
  refuses({.inputs = {q, k, v}, .attributes = heads(2, 2)}, "do not fit");
  refuses({.inputs = {q, k, v}, .attributes = heads(1, 2)}, "1 heads of queries, 2 of keys");
  refuses({.inputs = {q, k, numbers({2, 8, 10}, 1)}, .attributes = good}, "do not fit");
  refuses({.inputs = {q, numbers({1, 7, 6}, 1), numbers({1, 7, 10}, 1)}, .attributes = good}, "do not fit");
  refuses({.inputs = {q, numbers({2, 2, 7, 3}, 1), v}, .attributes = good}, "3 or 4 axes");
  refuses({.inputs = {make(DType::i32, {1, 1, 1}, {0}), k, v}, .attributes = good}, "f16, bf16, f32 or f64");
  refuses({.inputs = {numbers({2, 5, 12}, 1, DType::f64), k, v}, .attributes = good}, "data types differ");
  refuses({.inputs = {numbers({2, 4, 5, 3}, 1), numbers({2, 2, 7, 3}, 1), numbers({2, 1, 7, 3}, 1)}, .attributes = {}},
          "2 of keys and 1 of values");
  refuses({.inputs = {numbers({2, 4, 5, 3}, 1), numbers({2, 2, 7, 3}, 1), numbers({2, 2, 7, 3}, 1)},
           .attributes = with("q_num_heads", 3)},
          "q_num_heads is 3, but there are 4 heads");
  refuses({.inputs = {q, k, v, numbers({5, 6}, 1)}, .attributes = good}, "a mask that broadcasts to [2,4,5,7]");
  refuses({.inputs = {q, k, v, numbers({1, 2, 4, 5, 7}, 1)}, .attributes = good}, "a rank of at most 4");
  refuses({.opset = 24, .inputs = {q, k, v, numbers({5, 8}, 1)}, .attributes = good}, "a mask that broadcasts");
  refuses({.inputs = {q, k, v, fp8({1}, {1})}, .attributes = good}, "bool or numbers");
  refuses({.inputs = {q, k, v, std::nullopt, numbers({2, 2, 1, 3}, 1)}, .attributes = good}, "together");
  refuses({.inputs = {q, k, v, std::nullopt, numbers({2, 2, 1, 4}, 1), numbers({2, 2, 1, 5}, 1)}, .attributes = good},
          "input 4 is f32[2,2,1,4], f32[2,2,1,3] is expected");
  refuses({.inputs = {q, k, v, std::nullopt, numbers({2, 2, 1, 3}, 1), numbers({2, 2, 2, 5}, 1)}, .attributes = good},
          "input 5");
  refuses({.opset = 24,
           .inputs = {q, k, v, std::nullopt, std::nullopt, std::nullopt, i64({3}, {1, 2, 3})},
           .attributes = good},
          "input 6 is i64[3], i64[2] is expected");
  refuses({.opset = 24,
           .inputs = {q, k, v, std::nullopt, numbers({2, 2, 1, 3}, 1), numbers({2, 2, 1, 5}, 1), i64({2}, {1, 2})},
           .attributes = good},
          "exclude each other");
  refuses({.inputs = {q, k, v}, .attributes = both(good, with("qk_matmul_output_mode", 4))}, "0 to 3");
  refuses({.inputs = {q, k, v}, .attributes = both(good, with_float("scale", HUGE_VALF))}, "finite");
  refuses({.inputs = {q, k, v}, .attributes = both(good, with_float("softcap", NAN))}, "finite");
  refuses({.inputs = {q, k, v}, .attributes = both(good, with("softmax_precision", onnx::TensorProto::INT32))},
          "softmax_precision is i32");
}

// One head of four elements, two of which turn by a right angle: (a, b) becomes (-b, a).
TEST(ImportRotaryEmbedding, Pairs) {
  const Tensor x = f32({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor cosines = f32({3, 1}, {9, 1, 0});
  const Tensor sines = f32({3, 1}, {9, 0, 1});
  const Tensor positions = i64({1, 2}, {2, 1});
  const auto rotated = [&](const Set& set) {
    return values(run(Call{.inputs = {x, cosines, sines, positions}, .attributes = set, .op = "RotaryEmbedding"})[0]);
  };
  const Set partly = with("rotary_embedding_dim", 2);
  EXPECT_EQ(rotated(partly), (std::vector<double>{-2, 1, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(rotated(both(partly, with("interleaved", 1))), (std::vector<double>{-2, 1, 3, 4, 5, 6, 7, 8}));
  // All four, by tables for each token, packed.
  const auto whole = [&](const Set& set) {
    return values(
        run(Call{.inputs = {f32({1, 2, 4}, values(x)), f32({1, 2, 2}, {0, 1, 1, 0}), f32({1, 2, 2}, {1, 0, 0, 1})},
                 .attributes = both(set, with("num_heads", 1)),
                 .op = "RotaryEmbedding"})[0]);
  };
  EXPECT_EQ(whole(with("interleaved", 0)), (std::vector<double>{-3, 2, 1, 4, 5, -8, 7, 6}));
  EXPECT_EQ(whole(with("interleaved", 1)), (std::vector<double>{-2, 1, 3, 4, 5, 6, -8, 7}));
}

TEST(ImportRotaryEmbedding, Refusals) {
  const Tensor x = numbers({1, 2, 6}, 1);
  const Tensor table = numbers({1, 2, 3}, 2);
  const auto wrong = [&](std::vector<std::optional<Tensor>> inputs, const Set& set, const std::string& part) {
    refuses({.inputs = std::move(inputs), .attributes = set, .op = "RotaryEmbedding"}, part);
  };
  const Set one_head = with("num_heads", 1);
  wrong({x, table, table}, {}, "num_heads is 0");
  wrong({x, table, table}, with("num_heads", 4), "num_heads is 4");
  wrong({x, table, table}, with("num_heads", 2), "3 of 3 elements");
  wrong({x, table, table}, both(one_head, with("rotary_embedding_dim", 8)), "8 of 6 elements");
  wrong({x, table, table}, both(one_head, with("rotary_embedding_dim", -2)), "-2 of 6 elements");
  wrong({x, numbers({2, 3}, 1), table}, one_head, "input 1 is f32[2,3], [1,2,3] is expected");
  wrong({x, table, numbers({1, 2, 2}, 1)}, one_head, "input 2");
  wrong({x, numbers({9, 3}, 1), numbers({9, 3}, 1), i64({2}, {0, 1})}, one_head, "input 3 is i64[2]");
  wrong({x, numbers({0, 3}, 1), numbers({0, 3}, 1), i64({1, 2}, {0, 1})}, one_head, "[positions,3] is expected");
  wrong({numbers({2, 6}, 1), table, table}, one_head, "3 or 4 axes");
  wrong({x, i64({1, 2, 3}, {0, 0, 0, 0, 0, 0}), table}, one_head, "a table of floats");
}

}  // namespace
}  // namespace low
