// Canonicalization and fusion of concat, pad, gather, reduce, cumulative and rowwise.
#include "compiler/graph/passes/test_support.h"

namespace low::test {
namespace {

Graph canonical(const Graph& graph) { return checked(canonicalize(graph)); }
Graph passed(const Graph& graph) { return checked(run_passes(graph)); }

Tensor integers(const Shape& shape, const std::vector<int64_t>& values) {
  Tensor tensor(DType::i64, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.set_bits(static_cast<int64_t>(i), static_cast<uint64_t>(values[i]));
  }
  return tensor;
}

TEST(CanonicalizeFamilies, DropsWhatDoesNothing) {
  Maker m;
  const ValueId x = m.input("x", {f32, {2, 3}});
  const ValueId fill = m.number(0);
  const ValueId operands[] = {m.concat({&x, 1}, 1), fill};
  ValueId y = m.pad({.before = {0, 0}}, operands, {0, 0});
  y = m.slice(y, {0, 0}, {1, 1}, {2, 1});
  m.output("y", m.cumulative({.axis = 1}, y));
  EXPECT_EQ(kinds(canonical(m.done())), "input slice output");
}

TEST(CanonicalizeFamilies, NestedConcatsAreOne) {
  Maker m;
  const ValueId x = m.input("x", {f32, {2, 3}});
  const ValueId empty = m.input("e", {f32, {2, 0}});
  const ValueId pair[] = {x, x};
  const ValueId inner = m.concat(pair, 1);
  const ValueId outer[] = {x, inner, empty, inner};
  m.output("y", m.concat(outer, 1));
  const ValueId other[] = {inner, inner};  // along the other axis: stays nested
  m.output("z", m.concat(other, 0));
  const Graph before = m.done();
  const Graph after = canonical(before);
  EXPECT_EQ(kinds(after), "input input concat concat output concat output");
  expect_same(before, after);
}

TEST(CanonicalizeFamilies, EvenlySpacedGathersAreSlices) {
  Maker m;
  const ValueId x = m.input("x", {f32, {5, 7}});
  m.output("one", m.gather({.axis = 1}, x, m.constant(integers({}, {-2}))));
  m.output("some", m.gather({.axis = 1}, x, m.constant(integers({2, 2}, {6, 4, 2, 0}))));
  m.output("clamped", m.gather({.axis = 0}, x, m.constant(integers({2}, {3, 99}))));
  const Graph slices = m.done();
  EXPECT_EQ(kinds(canonical(slices)), "input slice reshape output slice reshape output slice output");
  expect_same(slices, canonical(slices));
  Maker n;
  const ValueId y = n.input("y", {f32, {5, 7}});
  n.output("uneven", n.gather({.axis = 0}, y, n.constant(integers({3}, {0, 1, 3}))));
  n.output("same", n.gather({.axis = 0}, y, n.constant(integers({2}, {1, 1}))));
  const Graph gathers = n.done();
  EXPECT_EQ(kinds(canonical(gathers)), "input gather output gather output");
  expect_same(gathers, canonical(gathers));
}

TEST(CanonicalizeFamilies, ReductionsOfSingleElementsArePointwise) {
  Maker m;
  const ValueId x = m.input("x", {f32, {1, 3, 1}});
  const ValueId operands[] = {x, x};
  m.output("y", m.reduce({.axes = {0, 2}, .map = unary(ExprOp::exp), .epilogue = binary(ExprOp::add)}, operands, f32));
  m.output("z", m.reduce({.axes = {0, 1}}, {&x, 1}, f32));
  const Graph before = m.done();
  const Graph after = canonical(before);
  EXPECT_EQ(kinds(after), "input pointwise output reduce output");
  EXPECT_NE(print(after).find("kind=sum axes=[1]"), std::string::npos) << print(after);
  expect_same(before, after);
}

TEST(CanonicalizeFamilies, EqualOperationsAreSharedAndConstantsFolded) {
  Maker m;
  const ValueId x = m.input("x", {f32, {4}});
  const ValueId a = m.rowwise({.axes = {0}}, {&x, 1}, f32);
  const ValueId b = m.rowwise({.axes = {0}}, {&x, 1}, f32);
  const ValueId other = m.rowwise({.kind = Rowwise::Kind::log_softmax, .axes = {0}}, {&x, 1}, f32);
  const ValueId constant = m.constant(random_tensor(f32, {4}, 1));
  const ValueId sum = m.reduce({.axes = {0}}, {&constant, 1}, f32);
  m.output("y", m.apply(ExprOp::add, m.apply(ExprOp::mul, a, b), m.apply(ExprOp::mul, other, sum)));
  EXPECT_EQ(kinds(canonical(m.done())), "input rowwise rowwise pointwise pointwise pointwise output");
}

// Mean of squares: the square is the map, division and root the epilogue.
TEST(FuseFamilies, MapAndEpilogueOfAReduction) {
  Maker m;
  const ValueId x = m.input("x", {f32, {3, 5}});
  const ValueId shift = m.input("b", {f32, {3, 1}});
  const ValueId squares = m.apply(ExprOp::mul, x, x);
  const ValueId sum = m.reduce({.axes = {1}}, {&squares, 1}, f32);
  const ValueId root = m.apply(ExprOp::sqrt, m.apply(ExprOp::div, sum, m.number(5)));
  m.output("y", m.apply(ExprOp::add, root, shift));
  const Graph before = m.done();
  const Graph after = passed(before);
  EXPECT_EQ(kinds(after), "input input reduce output");
  expect_same(before, after);
}

TEST(FuseFamilies, MapsAreOfOneOperandThatNothingElseReads) {
  Maker m;
  const ValueId x = m.input("x", {f32, {3, 5}});
  const ValueId y = m.input("y", {f32, {3, 5}});
  const ValueId product = m.apply(ExprOp::mul, x, y);
  m.output("a", m.reduce({.axes = {1}}, {&product, 1}, f32));
  const ValueId shared = m.apply(ExprOp::exp, x);
  m.output("b", m.reduce({.axes = {1}}, {&shared, 1}, f32));
  m.output("c", shared);
  const Graph before = m.done();
  const Graph after = passed(before);
  EXPECT_EQ(kinds(after), "input input pointwise reduce output pointwise reduce output output");
  expect_same(before, after);
}

TEST(FuseFamilies, ScaleBiasAndQuantizationFollowANorm) {
  Maker m;
  const ValueId x = m.input("x", {f16, {2, 3, 5}});
  const ValueId scale = m.input("s", {f32, {5}});
  const ValueId bias = m.input("b", {f32, {5}});
  const ValueId norm = m.rowwise({.kind = Rowwise::Kind::layer_norm, .axes = {2}, .epsilon = 0.1}, {&x, 1}, f32);
  const ValueId shifted = m.apply(ExprOp::add, m.apply(ExprOp::mul, norm, scale), bias);
  m.output("y", m.to_f8(shifted, m.input("q", {f32, {}})));
  const Graph before = m.done();
  const Graph after = passed(before);
  EXPECT_EQ(kinds(after), "input input input input rowwise output");
  // A scale of 0 among random ones would only test NaN.
  std::vector<Tensor> inputs = random_inputs(before, 3);
  inputs[3].set_value(0, 0.125);
  const std::vector<Tensor> expected = evaluate_graph(before, inputs);
  EXPECT_EQ(evaluate_graph(after, inputs)[0], expected[0]);
  expect_like_reference(before, after, inputs, 1e-6, 0.13);
}

// The position of an extreme goes through its epilogue as i64.
TEST(FuseFamilies, EpilogueOfAnIndex) {
  Maker m;
  const ValueId x = m.input("x", {f32, {3, 5}});
  const ValueId place = m.reduce({.kind = Reduce::Kind::index_max, .axes = {1}}, {&x, 1}, DType::i64);
  m.output("y", m.apply(ExprOp::neg, m.cast(place, DType::i32)));
  const Graph before = m.done();
  const Graph after = passed(before);
  EXPECT_EQ(kinds(after), "input reduce output");
  expect_same(before, after);
}

}  // namespace
}  // namespace low::test
