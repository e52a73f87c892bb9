#include "reference/reference.h"

#include <cmath>
#include <limits>

#include "reference/test_graphs.h"

namespace low::reference {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

std::vector<double> count_up(int64_t n) {
  std::vector<double> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(static_cast<double>(i));
  return result;
}

TEST(Movement, ReshapeTransposeExpand) {
  const Tensor x = make(DType::i16, {2, 3}, count_up(6));
  const Tensor reshaped = run_one({x}, [](GraphBuilder& b, const auto& v) { return b.reshape(v[0], {3, 2}); });
  EXPECT_EQ(reshaped.shape(), (Shape{3, 2}));
  EXPECT_EQ(values(reshaped), count_up(6));
  const Tensor transposed = run_one({x}, [](GraphBuilder& b, const auto& v) { return b.transpose(v[0], {1, 0}); });
  EXPECT_EQ(transposed.shape(), (Shape{3, 2}));
  EXPECT_EQ(values(transposed), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  const Tensor cube = make(DType::f32, {2, 3, 1}, count_up(6));
  // Axis i of the result is axis permutation[i] of the operand: [1,2,3], element (0, i, j) is (i, j, 0).
  const Tensor rotated = run_one({cube}, [](GraphBuilder& b, const auto& v) { return b.transpose(v[0], {2, 0, 1}); });
  EXPECT_EQ(rotated.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(values(rotated), count_up(6));
  const Tensor expanded = run_one({make(DType::f32, {2, 1}, {5, 6})},
                                  [](GraphBuilder& b, const auto& v) { return b.expand(v[0], {2, 2, 3}); });
  EXPECT_EQ(values(expanded), (std::vector<double>{5, 5, 5, 6, 6, 6, 5, 5, 5, 6, 6, 6}));
  const Tensor empty = run_one({make(DType::f32, {1, 2}, {5, 6})},
                               [](GraphBuilder& b, const auto& v) { return b.expand(v[0], {0, 2}); });
  EXPECT_EQ(empty.shape(), (Shape{0, 2}));
}

TEST(Movement, Slice) {
  // Rows 1 and 0 (backwards), columns 1 and 3, of 0 1 2 3 / 4 5 6 7.
  const Tensor x = make(DType::f32, {2, 4}, count_up(8));
  EXPECT_EQ(values(run_one({x}, [](GraphBuilder& b, const auto& v) { return b.slice(v[0], {1, 1}, {-1, 2}, {2, 2}); })),
            (std::vector<double>{5, 7, 1, 3}));
  const Tensor empty =
      run_one({x}, [](GraphBuilder& b, const auto& v) { return b.slice(v[0], {0, 0}, {1, 1}, {0, 4}); });
  EXPECT_EQ(empty.shape(), (Shape{0, 4}));
}

Tensor quantized(const std::vector<Tensor>& operands, DType to, const Quantize& attributes = {}) {
  return run_one(operands, [&](GraphBuilder& b, const auto& v) { return b.quantize(attributes, v, to); });
}
Tensor dequantized(const std::vector<Tensor>& operands, DType to, const Dequantize& attributes = {}) {
  return run_one(operands, [&](GraphBuilder& b, const auto& v) { return b.dequantize(attributes, v, to); });
}
Tensor scalar(DType dtype, double value) { return make(dtype, {}, {value}); }

TEST(Quantization, Integers) {
  // x / 2, ties to even, plus 1, clamped to [-128, 127]: 1 / 2 -> 0, 3 / 2 = 1.5 -> 2, -1 / 2 -> 0, 5 / 2 = 2.5 -> 2.
  const Tensor x = make(DType::f32, {7}, {1, 3, -1, 5, 1000, -1000, inf});
  EXPECT_EQ(values(quantized({x, scalar(DType::f32, 2), scalar(DType::i8, 1)}, DType::i8)),
            (std::vector<double>{1, 3, 1, 3, 127, -128, 127}));
  EXPECT_EQ(values(quantized({x, scalar(DType::f32, 2)}, DType::u8)), (std::vector<double>{0, 2, 0, 2, 255, 0, 255}));
  EXPECT_EQ(
      values(quantized({make(DType::f32, {1}, {-1e9}), scalar(DType::f32, 1), scalar(DType::u16, 5)}, DType::u16)),
      (std::vector<double>{0}));
}

TEST(Quantization, DivisionIsInTheScalesType) {
  // As f32, 0.175 / 0.05 is 0.174999997 / 0.0500000007 = 3.49999989, which is within half a unit of f32 (1.2e-7) of
  // 3.5: the quotient is the tie 3.5 and goes to 4; without that rounding it would be 3. Likewise 0.375 / 0.05 =
  // 7.49999989 -> 7.5 -> 8.
  const Tensor x = make(DType::f32, {2}, {0.175, 0.375});
  EXPECT_EQ(values(quantized({x, scalar(DType::f32, 0.05)}, DType::i8)), (std::vector<double>{4, 8}));
}

TEST(Quantization, Fp8) {
  const Tensor x = make(DType::f32, {6}, {1.0625, 1.1875, 2000, -inf, nan, -0.0});
  // Scale 1: between 1 and 1.125 the tie goes to 1 (even), between 1.125 and 1.25 to 1.25; the rest saturates.
  const Tensor y = quantized({x, scalar(DType::f32, 1)}, DType::f8e4m3fn);
  EXPECT_EQ(all_bits(y), (std::vector<uint64_t>{0x38, 0x3a, 0x7e, 0xfe, 0x7f, 0x80}));
  // The zero point of FP8 is 0; it changes nothing, not even the sign of zero.
  EXPECT_EQ(all_bits(quantized({x, scalar(DType::f32, 1), scalar(DType::f8e4m3fn, 0)}, DType::f8e4m3fn)), all_bits(y));
  const Tensor open = quantized({x, scalar(DType::f32, 1)}, DType::f8e4m3fn, {.overflow = Overflow::propagate});
  EXPECT_EQ(open.bits(2), 0x7fU);
  // FNUZ: infinity is NaN (0x80) even with saturation, and zero has no sign.
  const Tensor fnuz = quantized({x, scalar(DType::f32, 1)}, DType::f8e4m3fnuz);
  EXPECT_EQ(fnuz.value(2), 240);
  EXPECT_EQ(fnuz.bits(3), 0x80U);
  EXPECT_EQ(fnuz.bits(5), 0U);
}

TEST(Quantization, AlongAnAxis) {
  // x [2,3,1]; the scales run along axis 1.
  const Tensor x = make(DType::f32, {2, 3, 1}, {8, 8, 8, -8, -8, -8});
  const Tensor scale = make(DType::f32, {3}, {1, 2, 4});
  const Tensor zero_point = make(DType::i8, {3}, {0, 1, 2});
  const Tensor y = quantized({x, scale, zero_point}, DType::i8, {.axis = 1});
  EXPECT_EQ(values(y), (std::vector<double>{8, 5, 4, -8, -3, 0}));
  EXPECT_EQ(values(dequantized({y, scale, zero_point}, DType::f32, {.axis = 1})), values(x));
}

TEST(Quantization, Dequantize) {
  // The difference leaves the operand's type: -128 - 127 = -255.
  const Tensor x = make(DType::i8, {2}, {-128, 127});
  EXPECT_EQ(values(dequantized({x, scalar(DType::f32, 2), scalar(DType::i8, 127)}, DType::f32)),
            (std::vector<double>{-510, 0}));
  EXPECT_EQ(
      values(dequantized({make(DType::u8, {1}, {3}), scalar(DType::f32, 0.5), scalar(DType::u8, 255)}, DType::f32)),
      (std::vector<double>{-126}));
  EXPECT_EQ(values(dequantized({make(DType::f8e5m2, {2}, {1.5, -inf}), scalar(DType::f32, 3)}, DType::f32)),
            (std::vector<double>{4.5, -inf}));
  EXPECT_EQ(values(dequantized({make(DType::i32, {1}, {1000000}), scalar(DType::f32, 0.25)}, DType::f32)),
            (std::vector<double>{250000}));
}

TEST(CastReference, Overflow) {
  const Tensor x = make(DType::f32, {3}, {500, -500, 1});
  const auto cast_to = [&](DType to, Overflow overflow) {
    return run_one({x}, [&](GraphBuilder& b, const auto& v) { return b.cast(v[0], to, overflow); });
  };
  EXPECT_EQ(values(cast_to(DType::f8e4m3fn, Overflow::saturate)), (std::vector<double>{448, -448, 1}));
  EXPECT_TRUE(std::isnan(cast_to(DType::f8e4m3fn, Overflow::propagate).value(0)));
  EXPECT_EQ(values(cast_to(DType::i8, Overflow::propagate)), (std::vector<double>{127, -128, 1}));
}

// state, step -> state + step, state: an accumulator that also collects what it was.
ValueId add(GraphBuilder& b, ValueId x, ValueId y, DType dtype = DType::f32) {
  ExprBuilder e(2);
  const std::vector<ValueId> operands = {x, y};
  return b.pointwise(std::move(e).finish(e.binary(ExprOp::add, e.input(0, dtype), e.input(1, dtype))), operands);
}

TEST(RepeatReference, AllKindsOfValues) {
  // Two carried values that swap (so that the second shows which was read when), one invariant, one iterated, two
  // collected. (a, b) -> (b + invariant, a + iterated); collected: a, and the iterated element.
  const Type scalar_type{DType::f32, {}};
  const std::shared_ptr<const Graph> body = make_graph(
      {scalar_type, scalar_type, scalar_type, scalar_type}, [](GraphBuilder& b, const std::vector<ValueId>& v) {
        return std::vector{add(b, v[1], v[2]), add(b, v[0], v[3]), v[0], v[3]};
      });
  ASSERT_TRUE(body);
  const auto run_count = [&](int64_t count) {
    std::vector<double> iterated = {10, 20, 30};
    iterated.resize(static_cast<size_t>(count));
    return run_all(
        {scalar(DType::f32, 1), scalar(DType::f32, 2), scalar(DType::f32, 100), make(DType::f32, {count}, iterated)},
        [&](GraphBuilder& b, const std::vector<ValueId>& v) {
          return b.repeat({.count = count, .carried = 2, .invariant = 1, .iterated = 1, .collected = 2, .body = body},
                          v);
        });
  };
  // (1,2) -> (102, 11) -> (111, 122) -> (222, 141)
  const std::vector<Tensor> three = run_count(3);
  ASSERT_EQ(three.size(), 4U);
  EXPECT_EQ(three[0].value(0), 222);
  EXPECT_EQ(three[1].value(0), 141);
  EXPECT_EQ(values(three[2]), (std::vector<double>{1, 102, 111}));
  EXPECT_EQ(values(three[3]), (std::vector<double>{10, 20, 30}));
  const std::vector<Tensor> one = run_count(1);
  EXPECT_EQ(one[0].value(0), 102);
  EXPECT_EQ(one[1].value(0), 11);
  EXPECT_EQ(values(one[2]), std::vector<double>{1});
  const std::vector<Tensor> none = run_count(0);
  EXPECT_EQ(none[0].value(0), 1);
  EXPECT_EQ(none[1].value(0), 2);
  EXPECT_EQ(none[2].shape(), Shape{0});
}

TEST(RepeatReference, IteratedMatricesAreTakenInOrder) {
  // x [1,2] times three different matrices: swap, double, swap. (1,2) -> (2,1) -> (4,2) -> (2,4).
  const std::shared_ptr<const Graph> body = make_graph(
      {{DType::f32, {1, 2}}, {DType::f32, {2, 2}}},
      [](GraphBuilder& b, const std::vector<ValueId>& v) { return std::vector{b.matmul({}, v, DType::f32)}; });
  ASSERT_TRUE(body);
  const Tensor weights = make(DType::f32, {3, 2, 2}, {0, 1, 1, 0, 2, 0, 0, 2, 0, 1, 1, 0});
  const std::vector<Tensor> result =
      run_all({make(DType::f32, {1, 2}, {1, 2}), weights}, [&](GraphBuilder& b, const std::vector<ValueId>& v) {
        return b.repeat({.count = 3, .carried = 1, .iterated = 1, .body = body}, v);
      });
  ASSERT_EQ(result.size(), 1U);
  EXPECT_EQ(values(result[0]), (std::vector<double>{2, 4}));
}

TEST(RepeatReference, Nested) {
  // inner: s -> s + row element, three times, collecting s; outer: over the two rows.
  const Type scalar_type{DType::f32, {}};
  const std::shared_ptr<const Graph> inner =
      make_graph({scalar_type, scalar_type}, [](GraphBuilder& b, const std::vector<ValueId>& v) {
        const ValueId sum = add(b, v[0], v[1]);
        return std::vector{sum, sum};
      });
  ASSERT_TRUE(inner);
  const std::shared_ptr<const Graph> outer =
      make_graph({scalar_type, {DType::f32, {3}}}, [&](GraphBuilder& b, const std::vector<ValueId>& v) {
        return b.repeat({.count = 3, .carried = 1, .iterated = 1, .collected = 1, .body = inner}, v);
      });
  ASSERT_TRUE(outer);
  const std::vector<Tensor> result =
      run_all({scalar(DType::f32, 0), make(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6})},
              [&](GraphBuilder& b, const std::vector<ValueId>& v) {
                return b.repeat({.count = 2, .carried = 1, .iterated = 1, .collected = 1, .body = outer}, v);
              });
  ASSERT_EQ(result.size(), 2U);
  EXPECT_EQ(result[0].value(0), 21);
  EXPECT_EQ(result[1].shape(), (Shape{2, 3}));
  EXPECT_EQ(values(result[1]), (std::vector<double>{1, 3, 6, 10, 15, 21}));
}

TEST(Run, ValuesRoundBetweenOperations) {
  // (x + 1) - x over 2^24 in f32, as two operations: the sum is stored in f32, where it is 2^24.
  const Tensor x = scalar(DType::f32, 16777216);
  const Tensor result = run_one({x, scalar(DType::f32, 1)}, [](GraphBuilder& b, const std::vector<ValueId>& v) {
    ExprBuilder e(2);
    const std::vector<ValueId> operands = {add(b, v[0], v[1]), v[0]};
    return b.pointwise(std::move(e).finish(e.binary(ExprOp::sub, e.input(0, DType::f32), e.input(1, DType::f32))),
                       operands);
  });
  EXPECT_EQ(result.value(0), 0);
}

TEST(Run, SharedAndUnusedValuesAndConstants) {
  // One value read twice, an input that nothing reads, a value that is two outputs.
  const std::vector<Tensor> result =
      run_all({scalar(DType::f32, 3), scalar(DType::f32, 9)}, [](GraphBuilder& b, const std::vector<ValueId>& v) {
        const ValueId twice = add(b, v[0], v[0]);
        const ValueId more = add(b, twice, b.constant(make(DType::f32, {2}, {1, 2})));
        return std::vector{twice, more, twice};
      });
  ASSERT_EQ(result.size(), 3U);
  EXPECT_EQ(values(result[0]), std::vector<double>{6});
  EXPECT_EQ(values(result[1]), (std::vector<double>{7, 8}));
  EXPECT_EQ(values(result[2]), std::vector<double>{6});
}

TEST(Run, InputsMustFit) {
  const std::shared_ptr<const Graph> graph =
      make_graph({{DType::f32, {2}}}, [](GraphBuilder&, const std::vector<ValueId>& v) { return v; });
  ASSERT_TRUE(graph);
  EXPECT_EQ(run(*graph, {}).error().kind, ErrorKind::usage);
  const std::vector<Tensor> wrong = {Tensor(DType::f32, {3})};
  EXPECT_EQ(run(*graph, wrong).error().message, "input 'x0' is f32[2], but a tensor of f32[3] was given");
}

}  // namespace
}  // namespace low::reference
