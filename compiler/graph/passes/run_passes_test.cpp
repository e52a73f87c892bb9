#include "compiler/graph/passes/passes.h"

#include "compiler/graph/passes/test_support.h"
#include "reference/random_graph.h"

namespace low::test {
namespace {

// The block that matters most: FP8 by quantize and dequantize, in the body of a repeat, each layer with its own
// weights.
struct MlpShape {
  Shape x;
  int64_t hidden;
};
Graph quantized_mlp(const MlpShape& shape) {
  const int64_t width = shape.x[shape.x.rank() - 1];
  Maker b;
  const ValueId x = b.input("x", {f32, shape.x});
  const ValueId sh = b.input("sh", {f32, {}});  // invariant: the same in each layer; all that follow are iterated
  const ValueId w1 = b.input("w1", {f8, {width, shape.hidden}});
  const ValueId w2 = b.input("w2", {f8, {shape.hidden, width}});
  const ValueId s1 = b.input("s1", {f32, {shape.hidden}});
  const ValueId s2 = b.input("s2", {f32, {width}});
  const ValueId b1 = b.input("b1", {f32, {shape.hidden}});
  const ValueId b2 = b.input("b2", {f32, {width}});
  const ValueId sx = b.input("sx", {f32, {}});
  const auto through_f8 = [&](ValueId v, ValueId scale) {
    const ValueId operands[] = {b.to_f8(v, scale), scale, b.constant(scalar(f8, 0))};
    return b.dequantize({}, operands, f32);
  };
  const ValueId first = b.product(through_f8(x, sx), b.from_f8(w1, s1, 1));
  const ValueId h = gelu(b, b.apply(ExprOp::add, first, b1));
  const ValueId second = b.product(through_f8(h, sh), b.from_f8(w2, s2, 1));
  b.output("next", b.apply(ExprOp::add, second, b2));
  const auto body = std::make_shared<const Graph>(b.done());

  Maker m;
  const int64_t layers = 3;
  Tensor scales(f32, {layers});
  for (int64_t i = 0; i < layers; ++i) scales.set_value(i, 0.01 * static_cast<double>(i + 1));
  const ValueId operands[] = {m.input("x", {f32, shape.x}),
                              m.number(0.02),
                              m.constant(random_tensor(f8, {layers, width, shape.hidden}, 3)),
                              m.constant(random_tensor(f8, {layers, shape.hidden, width}, 4)),
                              m.constant(random_tensor(f32, {layers, shape.hidden}, 5)),
                              m.constant(random_tensor(f32, {layers, width}, 6)),
                              m.constant(random_tensor(f32, {layers, shape.hidden}, 7)),
                              m.constant(random_tensor(f32, {layers, width}, 8)),
                              m.constant(scales)};
  const Repeat repeat{.count = layers, .carried = 1, .invariant = 1, .iterated = 7, .body = body};
  m.output("y", m.repeat(repeat, operands)[0]);
  return m.done();
}

TEST(RunPasses, QuantizedMlpInARepeat) {
  const MlpShape shapes[] = {{{5, 6}, 11}, {{1, 5, 6}, 11}, {{2, 3, 6}, 7}};
  for (const MlpShape& shape : shapes) {
    const Graph before = quantized_mlp(shape);
    const Graph out = checked(run_passes(before));
    EXPECT_EQ(kinds(out), "input repeat output");
    const Graph* body = nullptr;
    for (const Op& op : out.ops()) {
      if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) body = repeat->body.get();
    }
    ASSERT_NE(body, nullptr);
    std::string computing;
    std::vector<DType> results;
    for (const Op& op : body->ops()) {
      if (!std::holds_alternative<Pointwise>(op.attributes) && !std::holds_alternative<Matmul>(op.attributes) &&
          !std::holds_alternative<Quantize>(op.attributes) && !std::holds_alternative<Dequantize>(op.attributes)) {
        continue;
      }
      computing += std::string(kind_name(op.attributes)) + " ";
      results.push_back(body->type(body->result(op)).dtype);
    }
    EXPECT_EQ(computing, "pointwise matmul matmul ") << print(out);
    EXPECT_EQ(results, (std::vector{f8, f8, f32}));
    // A rounding to FP8 may tip over at another side: 1/8 of a value between 0.03 and a few.
    const std::vector<Tensor> inputs = random_inputs(before, 5);
    const std::vector<Tensor> expected = evaluate_graph(before, inputs);
    const std::vector<Tensor> actual = evaluate_graph(out, inputs);
    double largest = 0;
    for (int64_t i = 0; i < expected[0].elements(); ++i) {
      largest = std::max(largest, std::abs(expected[0].value(i)));
      EXPECT_NEAR(actual[0].value(i), expected[0].value(i), 0.02 + 0.02 * std::abs(expected[0].value(i)));
    }
    EXPECT_GT(largest, 0.2);
    expect_like_reference(before, out, inputs, 0.02, 0.02);
    EXPECT_EQ(print(checked(run_passes(before))), print(out));
    const Result<Graph> parsed = parse_graph(print(out), constants_by_hash(out));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, out);
  }
}

// Random graphs: every pass keeps the meaning.
TEST(RunPasses, RandomGraphs) {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    Maker m;
    std::vector<ValueId> values = {m.input("a", {f32, {2, 3, 4}}),
                                   m.input("b", {f32, {6, 4}}),
                                   m.input("c", {f32, {4}}),
                                   m.constant(random_tensor(f32, {2, 3, 4}, seed)),
                                   m.number(0.5),
                                   m.input("z", {f32, {2, 0, 4}})};
    for (int step = 0; step < 25; ++step) {
      const ValueId v = values[pick(values.size())];
      const Shape shape = m.type(v).shape;
      const int rank = shape.rank();
      switch (pick(8)) {
        case 0: {
          Shape flat{shape.elements()};
          if (rank == 3) flat = {shape[0] * shape[1], shape[2]};
          if (rank == 2 && shape[0] % 2 == 0) flat = {2, shape[0] / 2, shape[1]};
          values.push_back(m.reshape(v, flat));
          break;
        }
        case 1: {
          Shape permutation;
          for (int i = 0; i < rank; ++i) permutation.append((i + 1) % rank);
          values.push_back(m.transpose(v, permutation));
          break;
        }
        case 2: {
          Shape start, step_sizes, extents;
          for (int i = 0; i < rank; ++i) {
            const int64_t n = shape[i];
            const bool reverse = pick(2) == 0 && n > 0;
            start.append(reverse ? n - 1 : 0);
            step_sizes.append(reverse ? -1 : pick(2) == 0 ? 1 : 2);
            extents.append(step_sizes[i] == 2 ? (n + 1) / 2 : n);
          }
          values.push_back(m.slice(v, start, step_sizes, extents));
          break;
        }
        case 3: {
          const ExprOp ops[] = {ExprOp::neg, ExprOp::tanh, ExprOp::abs};
          values.push_back(m.apply(ops[pick(3)], v));
          break;
        }
        case 4:
        case 5: {
          const ValueId w = values[pick(values.size())];
          if (!broadcast(shape, m.type(w).shape)) break;
          const ExprOp ops[] = {ExprOp::add, ExprOp::mul, ExprOp::max, ExprOp::sub};
          values.push_back(m.apply(ops[pick(4)], v, w));
          break;
        }
        case 6: {
          if (rank < 2) break;
          const ValueId w = m.constant(random_tensor(f32, {shape[rank - 1], 4}, seed + 7));
          values.push_back(m.product(v, w));
          break;
        }
        default: {
          const ValueId scale = m.number(0.125);
          values.push_back(m.from_f8(m.to_f8(m.cast(m.cast(v, f16), f32), scale), scale));
        }
      }
    }
    for (size_t i = values.size() - 4; i < values.size(); ++i) m.output("o", values[i]);
    const Graph before = m.done();
    const Graph out = canonical(before);
    expect_same(out, checked(fuse(out)));
    expect_same(before, checked(run_passes(before)), 0.1);
  }
}

// The same with the judge's own graphs: repeats, narrow floats, integers, empty tensors.
TEST(RunPasses, RandomGraphsOfTheReference) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const bool narrow = seed % 4 == 0;
    const reference::RandomGraph random =
        reference::random_graph({.seed = seed, .operations = 4 + static_cast<int>(seed % 16), .narrow_floats = narrow});
    const Graph once = checked(canonicalize(random.graph));
    const Graph out = checked(run_passes(random.graph));
    const std::vector<Tensor> expected = evaluate_graph(random.graph, random.inputs);
    const std::vector<Tensor> actual = evaluate_graph(once, random.inputs);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(actual[i], expected[i]) << print(random.graph) << print(once);
    expect_like_reference(random.graph, out, random.inputs, 4 * random.tolerance + 1e-5, narrow ? 0.2 : 1e-4);
    if (HasFailure()) break;
  }
}

// With attention among the rest: its masks, groups of heads and epilogues.
TEST(RunPasses, RandomGraphsWithAttention) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const reference::RandomGraph random =
        reference::random_graph({.seed = seed, .operations = 8 + static_cast<int>(seed % 16), .attention = true});
    const Graph once = checked(canonicalize(random.graph));
    const Graph out = checked(run_passes(random.graph));
    found += print(out).find("= attention ") != std::string::npos ? 1 : 0;
    expect_like_reference(random.graph, once, random.inputs, random.tolerance, 1e-5);
    expect_like_reference(random.graph, out, random.inputs, 4 * random.tolerance + 1e-5, 1e-4);
    if (HasFailure()) break;
  }
  EXPECT_GT(found, 30);
}

}  // namespace
}  // namespace low::test
