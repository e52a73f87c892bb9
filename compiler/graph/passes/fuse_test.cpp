#include "compiler/graph/passes/passes.h"

#include "compiler/graph/passes/test_support.h"

namespace low::test {
namespace {

TEST(FoldDequantize, ScalesMoveIntoTheEpilogue) {
  struct Case {
    std::optional<int> a_axis, b_axis;
    bool folds;
  };
  const Case cases[] = {{std::nullopt, std::nullopt, true}, {0, 1, true}, {std::nullopt, 0, false}, {1, 1, false}};
  for (const Case& c : cases) {
    Maker m;
    const ValueId a = m.input("a", {f8, {3, 5}});
    const ValueId b = m.input("b", {f8, {5, 7}});
    const auto scale = [&](const char* label, std::optional<int> axis, ValueId of) {
      return m.input(label, {f32, axis ? Shape{m.type(of).shape[*axis]} : Shape()});
    };
    const ValueId sa = scale("sa", c.a_axis, a);
    const ValueId sb = scale("sb", c.b_axis, b);
    m.output("y", m.product(m.from_f8(a, sa, c.a_axis), m.from_f8(b, sb, c.b_axis)));
    const Graph before = checked(canonicalize(m.done()));
    const Graph out = checked(canonicalize(checked(fold_dequantize(before))));
    expect_same(before, out, 1e-5);
    const bool both = kinds(out).find("dequantize") == std::string::npos;
    EXPECT_EQ(both, c.folds) << print(out);
  }
}

TEST(FoldDequantize, LooksThroughMovement) {
  Maker m;
  const ValueId a = m.input("a", {f8, {4, 2, 3}});  // [k, batch, m]
  const ValueId b = m.input("b", {f8, {7, 2, 2}});  // [n, k1, k2]
  const ValueId sa = m.input("sa", {f32, {2}});
  const ValueId sb = m.input("sb", {f32, {7}});
  const ValueId left = m.transpose(m.from_f8(a, sa, 1), {1, 2, 0});
  const ValueId right = m.expand(m.reshape(m.from_f8(b, sb, 0), {1, 7, 4}), {2, 7, 4});
  m.output("y", m.product(left, right, {.transpose_b = true}));
  const Graph before = checked(canonicalize(m.done()));
  const Graph out = checked(canonicalize(checked(fold_dequantize(before))));
  expect_same(before, out, 1e-5);
  EXPECT_EQ(kinds(out).find("dequantize"), std::string::npos) << print(out);
}

TEST(FoldDequantize, Integers) {
  for (const bool zero_point : {false, true}) {
    Maker m;
    const ValueId a = m.input("a", {DType::u8, {3, 5}});
    const ValueId b = m.input("b", {DType::i8, {5, 7}});
    const ValueId s = m.number(0.01);
    const ValueId left[] = {a, s, m.constant(scalar(DType::u8, zero_point ? 3 : 0))};
    const ValueId right[] = {b, s};
    m.output("y", m.product(m.dequantize({}, left, f32), m.dequantize({}, right, f32)));
    const Graph before = checked(canonicalize(m.done()));
    const Graph out = checked(canonicalize(checked(fold_dequantize(before))));
    expect_same(before, out, 1e-5);
    EXPECT_EQ(kinds(out), zero_point ? "input input dequantize dequantize matmul output" : "input input matmul output");
    if (!zero_point) {
      EXPECT_NE(print(out).find("accumulate=i32"), std::string::npos);
    }
  }
}

TEST(Fuse, ChainsDiamondsAndEpilogues) {
  Maker m;
  const ValueId x = m.input("x", {f32, {5, 6}});
  const ValueId w = m.input("w", {f32, {6, 7}});
  const ValueId bias = m.input("bias", {f32, {7}});
  m.output("y", m.cast(gelu(m, m.apply(ExprOp::add, m.product(gelu(m, x), w), bias)), f16));
  const Graph before = m.done();
  const Graph out = checked(run_passes(before));
  expect_same(before, out);
  EXPECT_EQ(kinds(out), "input input input pointwise matmul output") << print(out);
}

TEST(Fuse, KeepsWhatOthersRead) {
  Maker m;
  const ValueId x = m.input("x", {f32, {5, 6}});
  const ValueId w = m.input("w", {f32, {6, 6}});
  const ValueId y = m.product(x, w);
  const ValueId e = m.apply(ExprOp::exp, y);
  m.output("y", y);
  m.output("e", e);
  m.output("n", m.apply(ExprOp::neg, e));
  const ValueId row = m.apply(ExprOp::exp, m.input("r", {f32, {6}}));  // not cheap, smaller
  m.output("b", m.apply(ExprOp::mul, x, row));
  const ValueId cheap = m.apply(ExprOp::neg, m.input("s", {f32, {6}}));  // cheap and smaller: in both consumers
  m.output("c", m.apply(ExprOp::mul, x, cheap));
  m.output("d", m.apply(ExprOp::add, x, cheap));
  const Graph before = m.done();
  const Graph out = checked(run_passes(before));
  expect_same(before, out);
  EXPECT_EQ(
      kinds(out),
      "input input matmul pointwise output output pointwise output input pointwise pointwise output input pointwise "
      "output pointwise output")
      << print(out);
  // exp is computed once for `e`, not again for `n`, and once for the row.
  const std::string text = print(out);
  size_t exponentials = 0;
  for (size_t at = text.find("exp.f32"); at != std::string::npos; at = text.find("exp.f32", at + 1)) ++exponentials;
  EXPECT_EQ(exponentials, 2u) << text;
}

TEST(Fuse, LimitsInputs) {
  Maker m;
  ValueId sum = m.input("x", {f32, {3}});
  for (int i = 0; i < 20; ++i) sum = m.apply(ExprOp::add, sum, m.input("i", {f32, {3}}));
  m.output("y", sum);
  const Graph before = m.done();
  const Graph out = checked(run_passes(before));
  expect_same(before, out);
  size_t pointwise = 0;
  for (const Op& op : out.ops()) {
    if (!std::holds_alternative<Pointwise>(op.attributes)) continue;
    ++pointwise;
    EXPECT_LE(out.operands(op).size(), 8u);
  }
  EXPECT_EQ(pointwise, 3u);  // 21 values: 8, then 7 more with each operation
}

TEST(Fuse, GatedProductUsesOneEpilogue) {
  Maker m;
  const ValueId x = m.input("x", {f32, {5, 6}});
  const ValueId gate = m.product(x, m.input("g", {f32, {6, 7}}));
  const ValueId up = m.product(x, m.input("u", {f32, {6, 7}}));
  m.output("y", m.apply(ExprOp::mul, m.apply(ExprOp::mul, gate, m.apply(ExprOp::sigmoid, gate)), up));
  const Graph before = m.done();
  const Graph out = checked(run_passes(before));
  expect_same(before, out);
  EXPECT_EQ(kinds(out), "input input matmul input matmul output") << print(out);
}

}  // namespace
}  // namespace low::test
