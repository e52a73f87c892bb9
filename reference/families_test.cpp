// Concat, pad, gather, scatter, top_k, reduce, cumulative and rowwise, against arithmetic by hand.
#include <cmath>

#include "reference/test_graphs.h"

namespace low::reference {
namespace {

constexpr DType f32 = DType::f32;
constexpr DType i64 = DType::i64;
const double nan = std::nan("");
using Values = std::vector<double>;
using Operands = const std::vector<ValueId>&;

Tensor reduced(const Tensor& x, const Reduce& attributes, DType to = f32) {
  return run_one({x}, [&](GraphBuilder& b, Operands v) { return b.reduce(attributes, v, to); });
}

void expect_near(const Tensor& actual, const Values& expected) {
  ASSERT_EQ(actual.elements(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual.value(static_cast<int64_t>(i)), expected[i], 1e-6) << "element " << i;
  }
}

TEST(ConcatReference, AlongBothAxes) {
  const Tensor a = make(f32, {2, 1}, {1, 2});
  const Tensor b = make(f32, {2, 2}, {3, 4, 5, 6});
  const auto along = [](int axis) {
    return [axis](GraphBuilder& builder, Operands v) { return builder.concat(v, axis); };
  };
  EXPECT_EQ(values(run_one({a, b, a}, along(1))), (Values{1, 3, 4, 1, 2, 5, 6, 2}));
  EXPECT_EQ(values(run_one({b, make(f32, {1, 2}, {7, 8})}, along(0))), (Values{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(values(run_one({make(f32, {0, 2}, {}), b}, along(0))), values(b));
}

TEST(PadReference, Modes) {
  const Tensor x = make(f32, {1, 3}, {1, 2, 3});
  const auto pad = [&](Pad::Mode mode, const Shape& before, const Shape& after) {
    std::vector<Tensor> operands = {x};
    if (mode == Pad::Mode::constant) operands.push_back(make(f32, {}, {-0.5}));
    return values(run_one(
        operands, [&](GraphBuilder& b, Operands v) { return b.pad({.mode = mode, .before = before}, v, after); }));
  };
  EXPECT_EQ(pad(Pad::Mode::constant, {1, 1}, {0, 1}), (Values{-0.5, -0.5, -0.5, -0.5, -0.5, -0.5, 1, 2, 3, -0.5}));
  EXPECT_EQ(pad(Pad::Mode::edge, {0, 1}, {1, 2}), (Values{1, 1, 2, 3, 3, 3, 1, 1, 2, 3, 3, 3}));
  EXPECT_EQ(pad(Pad::Mode::reflect, {0, 5}, {0, 3}), (Values{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(pad(Pad::Mode::reflect, {2, 0}, {1, 0}), (Values{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(pad(Pad::Mode::wrap, {0, 4}, {0, 4}), (Values{3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}));
}

TEST(GatherReference, Modes) {
  const Tensor x = make(f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto gather = [&](const Gather& attributes, const Tensor& indices) {
    const Tensor result =
        run_one({x, indices}, [&](GraphBuilder& b, Operands v) { return b.gather(attributes, v[0], v[1]); });
    return values(result);
  };
  EXPECT_EQ(gather({.axis = 1}, make(i64, {2}, {-1, 1})), (Values{3, 2, 6, 5}));
  EXPECT_EQ(gather({.axis = 0}, make(DType::i32, {1, 2}, {5, -5})), (Values{4, 5, 6, 1, 2, 3}));  // clamped
  EXPECT_EQ(gather({.mode = Gather::Mode::elements, .axis = 1}, make(i64, {2, 2}, {2, 2, 0, -2})),
            (Values{3, 3, 4, 5}));
  EXPECT_EQ(gather({.mode = Gather::Mode::nd}, make(i64, {3, 1}, {1, 0, 1})), (Values{4, 5, 6, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(gather({.mode = Gather::Mode::nd}, make(i64, {2}, {1, 2})), (Values{6}));
  EXPECT_EQ(gather({.mode = Gather::Mode::nd, .batch_axes = 1}, make(i64, {2, 1}, {1, -1})), (Values{2, 6}));
}

TEST(ScatterReference, KindsAndTypes) {
  const auto scattered = [&](Scatter::Kind kind, const Tensor& data, const Tensor& rows, const Tensor& updates) {
    return values(run_one({data, rows, updates},
                          [&](GraphBuilder& b, Operands v) { return b.add_one(Scatter{kind}, v, b.type(v[0])); }));
  };
  const Tensor data = make(f32, {2, 2}, {1, -2, 3, nan}), rows = make(i64, {4}, {1, 0, -1, 1});
  const Tensor updates = make(f32, {4, 2}, {5, 6, 7, 8, 9, 10, -11, 12});
  EXPECT_EQ(scattered(Scatter::Kind::replace, data, rows, updates), (Values{7, 8, -11, 12}));
  const Values sums = scattered(Scatter::Kind::add, data, rows, updates);
  EXPECT_EQ(Values(sums.begin(), sums.begin() + 3), (Values{8, 6, -3}));
  EXPECT_TRUE(std::isnan(sums[3]));
  EXPECT_EQ(scattered(Scatter::Kind::max, data, rows, updates)[2], 5);
  EXPECT_TRUE(std::isnan(scattered(Scatter::Kind::min, data, rows, updates)[3]));
  // Each sum is rounded: 2048 + 1 is 2048 in f16.
  EXPECT_EQ(scattered(Scatter::Kind::add, make(DType::f16, {1, 1}, {2048}), make(i64, {2}, {0, 0}),
                      make(DType::f16, {2, 1}, {1, 1})),
            (Values{2048}));
  // Integers wrap, and have a sign or none.
  const Tensor one = make(i64, {1}, {0});
  EXPECT_EQ(scattered(Scatter::Kind::mul, make(DType::i8, {1, 1}, {100}), one, make(DType::i8, {1, 1}, {3})),
            (Values{44}));
  EXPECT_EQ(scattered(Scatter::Kind::min, make(DType::u8, {1, 1}, {200}), one, make(DType::u8, {1, 1}, {100})),
            (Values{100}));
  EXPECT_EQ(scattered(Scatter::Kind::min, make(DType::i8, {1, 1}, {-56}), one, make(DType::i8, {1, 1}, {100})),
            (Values{-56}));
}

TEST(TopKReference, TiesNansAndAxes) {
  const auto places = [&](const Tensor& x, const TopK& attributes) {
    return values(run_one({x}, [&](GraphBuilder& b, Operands v) {
      Type type{i64, x.shape()};
      type.shape[attributes.axis] = attributes.k;
      return b.add_one(attributes, v, type);
    }));
  };
  const Tensor x = make(f32, {2, 4}, {3, nan, 3, -1, 0, nan, nan, -INFINITY});
  EXPECT_EQ(places(x, {.axis = 1, .k = 3}), (Values{1, 0, 2, 1, 2, 0}));
  EXPECT_EQ(places(x, {.axis = 1, .k = 4, .smallest = true}), (Values{3, 0, 2, 1, 3, 0, 1, 2}));
  EXPECT_EQ(places(x, {.axis = 0, .k = 1}), (Values{0, 0, 1, 0}));
  EXPECT_EQ(places(make(DType::u8, {3}, {100, 200, 7}), {.axis = 0, .k = 2}), (Values{1, 0}));
  EXPECT_EQ(places(make(DType::i8, {3}, {100, -56, 7}), {.axis = 0, .k = 2}), (Values{0, 2}));
}

TEST(ReduceReference, Kinds) {
  const Tensor x = make(f32, {2, 3}, {1, -2, 3, 4, 5, -6});
  EXPECT_EQ(values(reduced(x, {.axes = {1}})), (Values{2, 3}));
  EXPECT_EQ(values(reduced(x, {.axes = {0, 1}})), (Values{5}));
  EXPECT_EQ(values(reduced(x, {.axes = {}})), values(x));
  EXPECT_EQ(values(reduced(x, {.kind = Reduce::Kind::product, .axes = {0}})), (Values{4, -10, -18}));
  EXPECT_EQ(values(reduced(x, {.kind = Reduce::Kind::max, .axes = {0}})), (Values{4, 5, 3}));
  EXPECT_EQ(values(reduced(x, {.kind = Reduce::Kind::min, .axes = {1}})), (Values{-2, -6}));
  EXPECT_EQ(values(reduced(x, {.kind = Reduce::Kind::index_max, .axes = {1}}, i64)), (Values{2, 1}));
  EXPECT_EQ(values(reduced(x, {.kind = Reduce::Kind::index_min, .axes = {1}}, i64)), (Values{1, 2}));
  const Tensor ties = make(f32, {1, 4}, {3, 7, 7, 3});
  EXPECT_EQ(values(reduced(ties, {.kind = Reduce::Kind::index_max, .axes = {1}}, i64)), (Values{1}));
  EXPECT_EQ(values(reduced(ties, {.kind = Reduce::Kind::index_max, .axes = {1}, .last = true}, i64)), (Values{2}));
  EXPECT_EQ(values(reduced(ties, {.kind = Reduce::Kind::index_min, .axes = {1}, .last = true}, i64)), (Values{3}));
  const Tensor with_nan = make(f32, {4}, {1, nan, 9, nan});
  EXPECT_TRUE(std::isnan(reduced(with_nan, {.kind = Reduce::Kind::min, .axes = {0}}).value(0)));
  EXPECT_EQ(values(reduced(with_nan, {.kind = Reduce::Kind::index_min, .axes = {0}}, i64)), (Values{1}));
  EXPECT_EQ(values(reduced(with_nan, {.kind = Reduce::Kind::index_max, .axes = {0}, .last = true}, i64)), (Values{3}));
}

TEST(ReduceReference, IntegersAndEmptyGroups) {
  const Tensor x = make(DType::u8, {3}, {200, 100, 3});
  EXPECT_EQ(values(reduced(x, {.axes = {0}, .accumulate = DType::u8}, DType::u8)), (Values{47}));  // 303 - 256
  EXPECT_EQ(values(reduced(x, {.axes = {0}, .accumulate = DType::i64}, DType::i64)), (Values{303}));
  EXPECT_EQ(values(reduced(x, {.kind = Reduce::Kind::index_max, .axes = {0}, .accumulate = DType::u8}, i64)),
            (Values{0}));
  const Tensor minus = make(DType::i8, {2}, {-3, -100});
  EXPECT_EQ(values(reduced(minus, {.kind = Reduce::Kind::max, .axes = {0}, .accumulate = DType::i8}, DType::i8)),
            (Values{-3}));
  const Tensor empty(DType::i16, {2, 0});
  const auto identity = [&](Reduce::Kind kind) {
    return values(reduced(empty, {.kind = kind, .axes = {1}, .accumulate = DType::i16}, DType::i16));
  };
  EXPECT_EQ(identity(Reduce::Kind::sum), (Values{0, 0}));
  EXPECT_EQ(identity(Reduce::Kind::product), (Values{1, 1}));
  EXPECT_EQ(identity(Reduce::Kind::max), (Values{-32768, -32768}));
  EXPECT_EQ(identity(Reduce::Kind::min), (Values{32767, 32767}));
}

TEST(ReduceReference, MapAndEpilogue) {
  // sqrt(sum of squares) / extra, of rows (3, 4) and (6, 8).
  ExprBuilder map(1);
  const uint16_t x = map.input(0, DType::f16);
  const uint16_t wide = map.convert(x, f32);
  Reduce attributes{.axes = {1}};
  attributes.map = std::move(map).finish(map.binary(ExprOp::mul, wide, wide));
  ExprBuilder epilogue(2);
  const uint16_t root = epilogue.unary(ExprOp::sqrt, epilogue.input(0, f32));
  attributes.epilogue = std::move(epilogue).finish(epilogue.binary(ExprOp::div, root, epilogue.input(1, f32)));
  const Tensor result = run_one({make(DType::f16, {2, 2}, {3, 4, 6, 8}), make(f32, {2, 1}, {2, 4})},
                                [&](GraphBuilder& b, Operands v) { return b.reduce(attributes, v, f32); });
  EXPECT_EQ(values(result), (Values{2.5, 2.5}));
}

TEST(CumulativeReference, Directions) {
  const Tensor x = make(DType::i32, {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto run = [&](const Cumulative& attributes) {
    return values(run_one({x}, [&](GraphBuilder& b, Operands v) { return b.cumulative(attributes, v[0]); }));
  };
  EXPECT_EQ(run({0, false, false}), (Values{1, 2, 4, 6, 9, 12}));
  EXPECT_EQ(run({0, true, false}), (Values{0, 0, 1, 2, 4, 6}));
  EXPECT_EQ(run({0, false, true}), (Values{9, 12, 8, 10, 5, 6}));
  EXPECT_EQ(run({1, true, true}), (Values{2, 0, 4, 0, 6, 0}));
}

TEST(RowwiseReference, Kinds) {
  const double e = std::exp(1.0);
  const auto run = [](const Tensor& x, const Rowwise& attributes) {
    return run_one({x}, [&](GraphBuilder& b, Operands v) { return b.rowwise(attributes, v, f32); });
  };
  const Tensor x = make(f32, {2, 2}, {0, 1e4, 1, 1e4});
  expect_near(run(x, {.axes = {0}}), {1 / (1 + e), 0.5, e / (1 + e), 0.5});
  expect_near(run(x, {.kind = Rowwise::Kind::log_softmax, .axes = {0}}),
              {-std::log(1 + e), -std::log(2.0), 1 - std::log(1 + e), -std::log(2.0)});
  // Groups (1, 5) and (3, 7) along the first axis: mean 3 and 5, variance 4.
  const Tensor y = make(f32, {2, 2, 1}, {1, 3, 5, 7});
  expect_near(run(y, {.kind = Rowwise::Kind::layer_norm, .axes = {0, 2}, .epsilon = 12}), {-0.5, -0.5, 0.5, 0.5});
  // Mean of squares 84 / 4 = 21.
  expect_near(run(y, {.kind = Rowwise::Kind::rms_norm, .axes = {0, 1, 2}, .epsilon = 4}), {0.2, 0.6, 1, 1.4});
  const double infinity = HUGE_VAL;
  EXPECT_TRUE(std::isnan(run(make(f32, {2}, {-infinity, -infinity}), {.axes = {0}}).value(1)));
  expect_near(run(make(f32, {2}, {-infinity, 3}), {.axes = {0}}), {0, 1});
  const Rowwise masked{.kind = Rowwise::Kind::masked_softmax, .axes = {0}};
  expect_near(run(make(f32, {2, 2}, {-infinity, 3, -infinity, 3}), masked), {0, 0.5, 0, 0.5});
  EXPECT_TRUE(std::isnan(run(make(f32, {2}, {nan, -infinity}), masked).value(1)));
  EXPECT_TRUE(std::isnan(run(make(f32, {2}, {nan, 3}), {.axes = {0}}).value(1)));
  EXPECT_EQ(run(Tensor(f32, {2, 0}), {.axes = {1}}).elements(), 0);
}

}  // namespace
}  // namespace low::reference
