// Products come to have operands as a machine multiplies them, with the same values.
#include "compiler/graph/passes/test_support.h"

namespace low {
namespace {

using namespace test;

constexpr DType e4m3 = DType::f8e4m3fn, e5m2 = DType::f8e5m2, e4m3_fnuz = DType::f8e4m3fnuz,
                e5m2_fnuz = DType::f8e5m2fnuz, bf16 = DType::bf16;
constexpr DType formats[] = {e4m3, e5m2, e4m3_fnuz, e5m2_fnuz};
const std::vector<DType> fnuz = {e4m3_fnuz, e5m2_fnuz}, ocp = {e4m3, e5m2}, none;

// Every code of a format that `take` takes, in turn.
Tensor codes(DType dtype, const Shape& shape, auto take) {
  std::vector<uint64_t> taken;
  for (uint64_t bits = 0; bits < 256; ++bits)
    if (take(bits)) taken.push_back(bits);
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_bits(i, taken[static_cast<size_t>(i) % taken.size()]);
  return tensor;
}
Tensor all_codes(DType dtype, const Shape& shape) {
  return codes(dtype, shape, [](uint64_t) { return true; });
}
Tensor finite_codes(DType dtype, const Shape& shape) {
  return codes(dtype, shape, [&](uint64_t bits) { return std::isfinite(decode(dtype, bits)); });
}

// The same numbers by the reference, NaN where there was NaN. Zeros may change their sign.
void expect_same_values(const Graph& before, const Graph& after, const std::vector<Tensor>& inputs) {
  const auto expected = reference::run(before, inputs), actual = reference::run(after, inputs);
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_TRUE(actual) << actual.error().message;
  ASSERT_EQ(expected->size(), actual->size());
  for (size_t i = 0; i < expected->size(); ++i) {
    ASSERT_EQ((*expected)[i].dtype(), (*actual)[i].dtype());
    ASSERT_EQ((*expected)[i].shape(), (*actual)[i].shape());
    for (int64_t j = 0; j < (*expected)[i].elements(); ++j) {
      const double want = (*expected)[i].value(j), have = (*actual)[i].value(j);
      ASSERT_TRUE(want == have || (std::isnan(want) && std::isnan(have)))
          << "output " << i << ", element " << j << ": " << have << " instead of " << want << "\n"
          << print(after);
    }
  }
}

// The formats of each product's operands, in order: "f8e4m3fnuz*f8e4m3fnuz bf16*bf16".
std::string products(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops()) {
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) text += "{" + products(*repeat->body) + "}";
    const size_t count = std::holds_alternative<Matmul>(op.attributes)      ? 2
                         : std::holds_alternative<Attention>(op.attributes) ? 3
                                                                            : 0;
    if (count == 0) continue;
    if (!text.empty()) text += ' ';
    for (size_t i = 0; i < count; ++i)
      text += (i == 0 ? "" : "*") + std::string(name(graph.type(graph.operands(op)[i]).dtype));
  }
  return text;
}

Graph legal(const Graph& graph, const std::vector<DType>& native) {
  return checked(legalize_products(graph, {.fp8 = native, .matrices = {}}));
}

// Through all passes, too: what the conversions become is equal.
void expect_legal(const Graph& graph, const std::vector<DType>& native, const std::string& expected,
                  const std::vector<Tensor>& inputs) {
  const Graph after = legal(graph, native);
  EXPECT_EQ(products(after), expected) << print(after);
  ASSERT_NO_FATAL_FAILURE(expect_same_values(graph, after, inputs));
  const Graph passed = checked(run_passes(graph, {.products = ProductForms{.fp8 = native, .matrices = {}}}));
  ASSERT_NO_FATAL_FAILURE(expect_same_values(checked(run_passes(graph)), passed, inputs));
}

// All codes times all codes, as inputs of the graph, of which nothing is known.
TEST(LegalizeProducts, AllPairsOfCodesAndFormats) {
  for (const DType a : formats) {
    for (const DType b : formats) {
      SCOPED_TRACE(std::string(name(a)) + " times " + std::string(name(b)));
      Maker m;
      const ValueId left = m.input("a", {a, {256, 1}}), right = m.input("b", {b, {1, 256}});
      m.output("y", m.product(left, right));
      const Graph graph = m.done();
      const std::vector<Tensor> inputs{all_codes(a, {256, 1}), all_codes(b, {1, 256})};
      const std::string as_it_is = products(graph);
      const auto is_fnuz = [](DType type) { return type == e4m3_fnuz || type == e5m2_fnuz; };
      const auto maps = [&](DType type) { return type == e4m3 || is_fnuz(type); };
      const auto on_fnuz = [&](DType type) { return std::string(name(type == e4m3 ? e4m3_fnuz : type)); };
      EXPECT_EQ(products(legal(graph, {e4m3, e5m2, e4m3_fnuz, e5m2_fnuz})), as_it_is);
      EXPECT_EQ(products(legal(graph, ocp)), is_fnuz(a) || is_fnuz(b) ? "bf16*bf16" : as_it_is);
      for (const auto& [native, expected] :
           {std::pair(fnuz, maps(a) && maps(b) ? on_fnuz(a) + "*" + on_fnuz(b) : "bf16*bf16"),
            std::pair(none, std::string("bf16*bf16"))}) {
        const Graph after = legal(graph, native);
        EXPECT_EQ(products(after), expected);
        ASSERT_NO_FATAL_FAILURE(expect_same_values(graph, after, inputs));
      }
    }
  }
}

// By what they hold, and converted here.
TEST(LegalizeProducts, Constants) {
  struct Case {
    DType format;
    const std::vector<DType>& native;
    DType with_all, with_few;  // of all codes, of those that the twin has
    uint64_t without;          // codes with these bits
  };
  for (const Case& c : {Case{e4m3, fnuz, e4m3_fnuz, e4m3_fnuz, 0x80}, Case{e5m2, fnuz, bf16, e5m2_fnuz, 0x7c},
                        Case{e4m3_fnuz, ocp, bf16, e4m3, 0x7f}, Case{e5m2_fnuz, ocp, bf16, e5m2, 0x7c}}) {
    for (const bool all : {true, false}) {
      SCOPED_TRACE(std::string(name(c.format)) + (all ? ", all" : ", few"));
      const Tensor weights =
          codes(c.format, {16, 16}, [&](uint64_t bits) { return all || (bits & c.without) != c.without; });
      const DType other = c.native[0];
      Maker m;
      m.output("y", m.product(m.input("x", {other, {3, 16}}), m.constant(weights)));
      const DType expected = all ? c.with_all : c.with_few;
      expect_legal(m.done(), c.native,
                   std::string(name(expected == bf16 ? bf16 : other)) + "*" + std::string(name(expected)),
                   {finite_codes(other, {3, 16})});
    }
  }
}

// What is moved is converted before, once for all who read it, and stays of its size.
TEST(LegalizeProducts, ConvertsBehindMovements) {
  Maker m;
  const ValueId w = m.constant(finite_codes(e4m3, {2, 5, 4}));
  const ValueId first = m.reshape(m.slice(w, {0, 0, 0}, {1, 1, 1}, {1, 5, 4}), {5, 4});
  const ValueId second = m.transpose(m.reshape(m.slice(w, {1, 0, 0}, {1, 1, 1}, {1, 5, 4}), {5, 4}), {1, 0});
  const ValueId x = m.input("x", {e4m3, {3, 4}});
  m.output("y", m.product(x, m.transpose(first, {1, 0})));
  m.output("z", m.product(x, second));
  m.output("w", m.product(m.expand(m.reshape(x, {1, 3, 4}), {2, 3, 4}), m.transpose(w, {0, 2, 1})));
  const Graph graph = m.done();
  const std::vector<Tensor> inputs{all_codes(e4m3, {3, 4})};
  const std::string pair = "f8e4m3fnuz*f8e4m3fnuz";
  expect_legal(graph, fnuz, pair + " " + pair + " " + pair, inputs);
  const Graph after = checked(canonicalize(legal(graph, fnuz)));
  EXPECT_EQ(kinds(after).find("pointwise"), kinds(after).rfind("pointwise")) << print(after);  // that of x alone
}

// Whether E5M2 can be infinite is seen from what made it.
TEST(LegalizeProducts, SaturatedE5M2) {
  Tensor numbers(f32, {4, 4});
  for (int64_t i = 0; i < 16; ++i) numbers.set_value(i, std::ldexp(i % 2 == 0 ? 1.25 : -1.75, static_cast<int>(i * 3)));
  for (const Overflow overflow : {Overflow::saturate, Overflow::propagate}) {
    for (const bool quantized : {true, false}) {
      Maker m;
      const ValueId x = m.input("x", {f32, {4, 4}});
      const ValueId operands[] = {x, m.number(0.5)};
      const ValueId narrow = quantized ? m.quantize({.overflow = overflow}, operands, e5m2) : m.cast(x, e5m2, overflow);
      m.output("y", m.product(m.transpose(narrow, {1, 0}), m.constant(finite_codes(e4m3, {4, 4}))));
      expect_legal(m.done(), fnuz, overflow == Overflow::saturate ? "f8e5m2fnuz*f8e4m3fnuz" : "bf16*bf16", {numbers});
    }
  }
}

TEST(LegalizeProducts, EpiloguesReadTheirAccumulator) {
  ExprBuilder expr(3);
  const uint16_t sum = expr.input(0, f32);
  const uint16_t scaled = expr.binary(ExprOp::mul, sum, expr.input(1, f32));
  const uint16_t sized = expr.binary(ExprOp::add, scaled, expr.unary(ExprOp::abs, sum));
  const Expr epilogue = std::move(expr).finish(expr.convert(expr.binary(ExprOp::add, sized, expr.input(2, f32)), f16));
  Maker m;
  const ValueId operands[] = {m.input("a", {e4m3, {3, 16}}), m.constant(finite_codes(e5m2, {16, 5})),
                              m.input("s", {f32, {5}}), m.input("t", {f32, {3, 1}})};
  m.output("y", m.matmul({.epilogue = epilogue}, operands, f16));
  m.output("z", m.matmul({}, std::span(operands).first(2), bf16));
  std::vector<Tensor> inputs{random_tensor(e4m3, {3, 16}, 3), random_tensor(f32, {5}, 4),
                             random_tensor(f32, {3, 1}, 5)};
  expect_legal(m.done(), fnuz, "f8e4m3fnuz*f8e5m2fnuz f8e4m3fnuz*f8e5m2fnuz", inputs);
}

TEST(LegalizeProducts, Attention) {
  for (const bool masked : {false, true}) {
    Maker m;
    std::vector<ValueId> operands = {m.input("q", {e4m3, {2, 3, 8}}), m.input("k", {e4m3, {2, 5, 8}}),
                                     m.constant(finite_codes(e4m3, {2, 5, 6}))};
    std::vector<Tensor> inputs = {random_tensor(e4m3, {2, 3, 8}, 1), random_tensor(e4m3, {2, 5, 8}, 2)};
    if (masked) {
      operands.push_back(m.input("mask", {f32, {1, 1, 3, 5}}));
      inputs.push_back(random_tensor(f32, {1, 1, 3, 5}, 6));
    }
    operands.push_back(m.input("bias", {f32, {6}}));
    inputs.push_back(random_tensor(f32, {6}, 3));
    m.output("y", m.attention({.q_heads = 2,
                               .kv_heads = 2,
                               .masked = masked,
                               .scale = 0.375,
                               .softcap = 2,
                               .diagonal = 1,
                               .epilogue = binary(ExprOp::add)},
                              operands, f32));
    const Graph graph = m.done();
    const std::string fast = "f8e4m3fnuz*f8e4m3fnuz*f8e4m3fnuz", slow = "bf16*bf16*bf16";
    expect_legal(graph, fnuz, fast, inputs);
    expect_legal(graph, none, slow, inputs);
    expect_legal(graph, {e5m2}, slow, inputs);
  }
  // One format serves all operands.
  Maker m;
  const ValueId operands[] = {m.input("q", {e4m3, {1, 3, 4}}), m.input("k", {e5m2, {1, 5, 4}}),
                              m.input("v", {e4m3, {1, 5, 4}})};
  m.output("y", m.attention({}, operands, f32));
  expect_legal(
      m.done(), ocp, "bf16*bf16*bf16",
      {random_tensor(e4m3, {1, 3, 4}, 1), random_tensor(e5m2, {1, 5, 4}, 2), random_tensor(e4m3, {1, 5, 4}, 3)});
}

// Constants and inputs that iterations read are converted before the loops, even through two of them; what a body
// computes, in it.
TEST(LegalizeProducts, BodiesAskForTheirOperands) {
  const DType weight_format[] = {e4m3, e5m2};
  for (const DType format : weight_format) {
    Maker inner;  // y = to_f8(x) w_i + x v
    const ValueId x = inner.input("x", {f32, {3, 4}});
    const ValueId v = inner.input("v", {e4m3, {4, 4}});
    const ValueId unused = inner.input("unused", {f32, {3, 4}});
    const ValueId w = inner.input("w", {format, {4, 4}});
    const ValueId step = inner.input("step", {f32, {}});
    const ValueId narrow = inner.to_f8(x, inner.number(0.25));
    const ValueId sum = inner.apply(ExprOp::add, inner.product(narrow, w), inner.product(narrow, v));
    inner.output("next", inner.apply(ExprOp::mul, inner.apply(ExprOp::add, sum, unused), step));
    const auto inner_body = std::make_shared<const Graph>(inner.done());

    Maker outer;
    const ValueId carried = outer.input("x", {f32, {3, 4}});
    const ValueId shared = outer.input("v", {e4m3, {4, 4}});
    const ValueId weights = outer.input("w", {format, {2, 4, 4}});
    const ValueId steps = outer.input("steps", {f32, {2}});
    const ValueId operands[] = {carried, shared, carried, weights, steps};
    const std::vector<ValueId> results =
        outer.repeat({.count = 2, .carried = 1, .invariant = 2, .iterated = 2, .body = inner_body}, operands);
    outer.output("next", results[0]);
    const auto outer_body = std::make_shared<const Graph>(outer.done());

    Maker m;
    const ValueId start = m.input("x", {f32, {3, 4}}), given = m.input("v", {e4m3, {4, 4}});
    Tensor scales(f32, {3, 2});
    for (int64_t i = 0; i < 6; ++i) scales.set_value(i, 0.0625 * static_cast<double>(1 + i));
    const ValueId all[] = {start, given, m.constant(finite_codes(format, {3, 2, 4, 4})), m.constant(scales)};
    m.output("y", m.repeat({.count = 3, .carried = 1, .invariant = 1, .iterated = 2, .body = outer_body}, all)[0]);
    const Graph graph = m.done();
    const std::vector<Tensor> inputs{random_tensor(f32, {3, 4}, 1), random_tensor(e4m3, {4, 4}, 2)};
    const std::string w_name(name(format == e4m3 ? e4m3_fnuz : e5m2_fnuz));
    expect_legal(graph, fnuz, "{{f8e4m3fnuz*" + w_name + " f8e4m3fnuz*f8e4m3fnuz}}", inputs);
    expect_legal(graph, none, "{{bf16*bf16 bf16*bf16}}", inputs);

    const Graph after = checked(canonicalize(legal(graph, fnuz)));
    EXPECT_EQ(kinds(after), "input input pointwise repeat output");
  }
}

TEST(LegalizeProducts, LeavesOtherProductsAlone) {
  Maker m;
  const ValueId a = m.input("a", {e4m3, {3, 4}}), b = m.input("b", {f16, {4, 5}}), c = m.input("c", {f32, {4, 5}});
  m.output("y", m.product(a, b));
  m.output("z", m.product(a, c));
  m.output("a", a);
  const Graph graph = m.done();
  EXPECT_EQ(print(legal(graph, none)), print(graph));
}

// Once for all iterations, together with the conversion of the format; what is no constant, or no matrix instruction's,
// stays.
TEST(LegalizeProducts, TransposesWeights) {
  Maker body;
  const ValueId x = body.input("x", {f32, {3, 5}});
  const ValueId w = body.input("w", {e4m3, {5, 4}}), v = body.input("v", {f32, {4, 5}});
  const ValueId scaled = body.product(body.to_f8(x, body.number(0.25)), w);
  body.output("next", body.product(scaled, v));
  Maker m;
  const ValueId start = m.input("x", {f32, {3, 5}}), given = m.input("g", {f16, {5, 7}});
  const ValueId all[] = {start, m.constant(finite_codes(e4m3, {2, 5, 4})),
                         m.constant(random_tensor(f32, {2, 4, 5}, 4))};
  const ValueId last =
      m.repeat({.count = 2, .carried = 1, .iterated = 2, .body = std::make_shared<const Graph>(body.done())}, all)[0];
  const ValueId half = m.cast(last, f16);
  m.output("y", m.product(half, given));
  m.output("z", m.product(half, m.constant(random_tensor(f16, {3, 5, 33}, 5)), {}, f16));
  const Graph graph = m.done();
  const std::vector<Tensor> inputs{random_tensor(f32, {3, 5}, 1), random_tensor(f16, {5, 7}, 2)};
  const ProductForms forms{.fp8 = fnuz, .matrices = {e4m3_fnuz, f16}};
  const Graph after = checked(canonicalize(checked(legalize_products(graph, forms))));
  ASSERT_NO_FATAL_FAILURE(expect_same_values(graph, after, inputs));
  EXPECT_EQ(products(after), "{f8e4m3fnuz*f8e4m3fnuz f32*f32} f16*f16 f16*f16");
  const auto transposed = [](const Graph& of) {
    std::string text;
    for (const Op& op : of.ops())
      if (const auto* matmul = std::get_if<Matmul>(&op.attributes)) text += matmul->transpose_b ? 't' : '-';
    return text;
  };
  EXPECT_EQ(transposed(after), "-t");
  for (const Op& op : after.ops())
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) EXPECT_EQ(transposed(*repeat->body), "t-");
  EXPECT_EQ(kinds(after).find("transpose"), std::string::npos) << print(after);
}

}  // namespace
}  // namespace low
