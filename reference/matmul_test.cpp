#include <cmath>
#include <random>

#include "reference/test_graphs.h"

namespace low::reference {
namespace {

Tensor random_tensor(DType dtype, const Shape& shape, std::mt19937_64& random) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.set_value(i, (static_cast<double>(random() % 2001) - 1000) / (is_float(dtype) ? 500 : 8));
  }
  return tensor;
}

DType accumulator(DType a) {
  if (a == DType::f64) return DType::f64;
  return is_float(a) ? DType::f32 : DType::i32;
}

// The product by the definition, one element at a time, in long double. a [ba, m, k] and b [bb, k, n] before
// transposition; ba and bb are 1 or equal.
std::vector<double> triple_loop(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  const auto at = [](const Tensor& t, bool transposed, int64_t batch, int64_t i, int64_t j) {
    const int64_t rows = t.shape()[1];
    const int64_t columns = t.shape()[2];
    const int64_t offset = (t.shape()[0] == 1 ? 0 : batch) * rows * columns;
    return static_cast<long double>(t.value(offset + (transposed ? j * columns + i : i * columns + j)));
  };
  const int64_t batches = a.shape()[0] == 1 ? b.shape()[0] : a.shape()[0];
  const int64_t m = a.shape()[transpose_a ? 2 : 1];
  const int64_t k = a.shape()[transpose_a ? 1 : 2];
  const int64_t n = b.shape()[transpose_b ? 1 : 2];
  std::vector<double> result;
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        long double sum = 0;
        for (int64_t p = 0; p < k; ++p) sum += at(a, transpose_a, batch, i, p) * at(b, transpose_b, batch, p, j);
        result.push_back(static_cast<double>(sum));
      }
    }
  }
  return result;
}

struct Sizes {
  int64_t a_batch, b_batch, m, k, n;
};

TEST(MatmulReference, AgainstATripleLoop) {
  constexpr uint64_t seed = 20240607;
  std::mt19937_64 random(seed);
  ThreadPool pool(2);
  const std::vector<Sizes> sizes = {{1, 1, 1, 1, 1},   {1, 1, 2, 3, 5},   {1, 1, 33, 67, 7},  {3, 1, 5, 4, 1},
                                    {1, 3, 1, 5, 513}, {2, 2, 31, 65, 3}, {1, 1, 0, 3, 2},    {1, 1, 2, 0, 3},
                                    {1, 1, 2, 3, 0},   {0, 1, 2, 3, 4},   {1, 1, 32, 128, 64}};
  for (const Sizes& s : sizes) {
    for (const DType dtype : {DType::f64, DType::f32, DType::f8e4m3fn, DType::f16, DType::i8, DType::u8}) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        const bool ta = (transposes & 1) != 0;
        const bool tb = (transposes & 2) != 0;
        const Tensor a = random_tensor(dtype, ta ? Shape{s.a_batch, s.k, s.m} : Shape{s.a_batch, s.m, s.k}, random);
        const Tensor b = random_tensor(dtype, tb ? Shape{s.b_batch, s.n, s.k} : Shape{s.b_batch, s.k, s.n}, random);
        const DType sum = accumulator(dtype);
        const Tensor c = run_one(
            {a, b},
            [&](GraphBuilder& builder, const std::vector<ValueId>& x) {
              return builder.matmul({.accumulate = sum, .transpose_a = ta, .transpose_b = tb}, x, sum);
            },
            &pool);
        const std::vector<double> expected = triple_loop(a, b, ta, tb);
        ASSERT_EQ(static_cast<size_t>(c.elements()), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          // Integers here are below 2^31 and exact. Floats: at most k + 1 roundings of 2^-24 (of the f32 result) and
          // 2^-53.
          const double bound = sum == DType::i32 ? 0 : std::ldexp(1.0, sum == DType::f64 ? -45 : -24) * 1100;
          ASSERT_NEAR(c.value(static_cast<int64_t>(i)), expected[i], bound)
              << "seed " << seed << " " << name(dtype) << " " << s.m << "x" << s.k << "x" << s.n << " element " << i;
        }
      }
    }
  }
}

TEST(MatmulReference, SumIsNotRoundedInBetween) {
  // 2^24 + 1 - 2^24: 1 in double, 0 if the sum were kept in f32.
  const Tensor a = make(DType::f32, {1, 3}, {16777216, 1, -16777216});
  const Tensor b = make(DType::f32, {3, 1}, {1, 1, 1});
  EXPECT_EQ(
      values(run_one({a, b}, [](GraphBuilder& builder, const auto& x) { return builder.matmul({}, x, DType::f32); })),
      std::vector<double>{1});
}

TEST(MatmulReference, MixedFormats) {
  // [1.5, -2] (E4M3) times [4, 8] (f16) = 6 - 16 = -10.
  const Tensor a = make(DType::f8e4m3fn, {1, 2}, {1.5, -2});
  const Tensor b = make(DType::f16, {2, 1}, {4, 8});
  EXPECT_EQ(
      values(run_one({a, b}, [](GraphBuilder& builder, const auto& x) { return builder.matmul({}, x, DType::f32); })),
      std::vector<double>{-10});
}

TEST(MatmulReference, IntegersWrapInTheAccumulator) {
  // 2^16 * 2^16 = 2^32 is 0 in i32.
  const Tensor a = make(DType::i32, {1, 2}, {65536, 3});
  const Tensor b = make(DType::i32, {2, 1}, {65536, 5});
  EXPECT_EQ(
      values(run_one({a, b}, [](GraphBuilder& builder,
                                const auto& x) { return builder.matmul({.accumulate = DType::i32}, x, DType::i32); })),
      std::vector<double>{15});
}

TEST(MatmulReference, NanAndInfinityFlow) {
  // inf * 0 is NaN, in a row of its own; the other row is 0 + 2.
  const Tensor a = make(DType::f32, {2, 2}, {std::numeric_limits<double>::infinity(), 1, 5, 2});
  const Tensor b = make(DType::f32, {2, 1}, {0, 1});
  const Tensor c =
      run_one({a, b}, [](GraphBuilder& builder, const auto& x) { return builder.matmul({}, x, DType::f32); });
  EXPECT_TRUE(std::isnan(c.value(0)));
  EXPECT_EQ(c.value(1), 2);
}

TEST(MatmulReference, EpilogueWithBroadcastExtras) {
  // c = [[1*1 + 2*3, 1*2 + 2*4]] = [[7, 10]]; relu(c - [8, 1]) * [[2]], in f16: [0, 18].
  const Tensor a = make(DType::f32, {1, 2}, {1, 2});
  const Tensor b = make(DType::f32, {2, 2}, {1, 2, 3, 4});
  const Tensor bias = make(DType::f32, {2}, {8, 1});
  const Tensor scale = make(DType::f32, {}, {2});
  ExprBuilder e(3);
  const uint16_t shifted = e.binary(ExprOp::sub, e.input(0, DType::f32), e.input(1, DType::f32));
  const uint16_t relu = e.binary(ExprOp::max, shifted, e.constant(DType::f32, 0));
  const uint16_t result = e.convert(e.binary(ExprOp::mul, relu, e.input(2, DType::f32)), DType::f16);
  const Expr epilogue = std::move(e).finish(result);
  const Tensor c = run_one({a, b, bias, scale}, [&](GraphBuilder& builder, const auto& x) {
    return builder.matmul({.epilogue = epilogue}, x, DType::f16);
  });
  EXPECT_EQ(c.dtype(), DType::f16);
  EXPECT_EQ(values(c), (std::vector<double>{0, 18}));
}

TEST(MatmulReference, DepthZeroRunsTheEpilogueOverZeros) {
  ExprBuilder e(1);
  const Expr epilogue = std::move(e).finish(e.binary(ExprOp::add, e.input(0, DType::f32), e.constant(DType::f32, 3)));
  const Tensor c = run_one(
      {Tensor(DType::f32, {2, 0}), Tensor(DType::f32, {0, 1})},
      [&](GraphBuilder& builder, const auto& x) { return builder.matmul({.epilogue = epilogue}, x, DType::f32); });
  EXPECT_EQ(values(c), (std::vector<double>{3, 3}));
}

TEST(MatmulReference, TwoBatchAxesBroadcastCrosswise) {
  // a [2,1,1,1] = 2, 3; b [1,2,1,1] = 5, 7: the outer product.
  const Tensor a = make(DType::f32, {2, 1, 1, 1}, {2, 3});
  const Tensor b = make(DType::f32, {1, 2, 1, 1}, {5, 7});
  const Tensor c =
      run_one({a, b}, [](GraphBuilder& builder, const auto& x) { return builder.matmul({}, x, DType::f32); });
  EXPECT_EQ(c.shape(), (Shape{2, 2, 1, 1}));
  EXPECT_EQ(values(c), (std::vector<double>{10, 14, 15, 21}));
}

}  // namespace
}  // namespace low::reference
