// reduce, rowwise, cumulative and gather as the interpreter computes them: small tables by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/interpret/interpret.h"
#include "compiler/interpret/kernels.h"
#include "compiler/low/hand_made.h"

namespace low {
namespace {

using hand_made::f32_tensor;
using hand_made::Maker;
using hand_made::SizedContract;
using hand_made::values_of;
using testing::ElementsAre;
using testing::HasSubstr;

auto near(double value) { return testing::DoubleNear(value, 1e-6); }
uint64_t f32(double value) { return encode(DType::f32, value, Overflow::propagate); }

Expr same(DType dtype) {
  ExprBuilder expr(1);
  return std::move(expr).finish(expr.input(0, dtype));
}

SizedContract reduce(Reduce::Kind kind, DType dtype, const Shape& extents) {
  SizedContract contract;
  contract.family = ReduceKernel{.kind = kind, .accumulate = dtype};
  contract.extents = extents;
  const DType result = leading_type(contract);
  contract.operands = {{dtype, {}}, {result, {}}};
  contract.expr = same(result);
  return contract;
}

std::vector<uint64_t> run(const SizedContract& contract, std::vector<std::vector<uint64_t>> operands) {
  return run_kernel(contract, contract.extents, operands);
}

std::vector<double> run_f32(const SizedContract& contract, const std::vector<double>& x) {
  std::vector<uint64_t> elements;
  for (const double value : x) elements.push_back(f32(value));
  std::vector<double> result;
  for (const uint64_t bits : run(contract, {elements})) result.push_back(decode(contract.operands.back().dtype, bits));
  return result;
}

TEST(GroupKernels, Reductions) {
  const double infinity = HUGE_VAL, nan = std::nan("");
  const std::vector<double> x = {1, 2, 3, 4, -1, 5};  // rows (1, 2, 3) and (4, -1, 5)
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::sum, DType::f32, {2, 3}), x), ElementsAre(6, 8));
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::product, DType::f32, {2, 3}), x), ElementsAre(6, -20));
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::max, DType::f32, {2, 3}), x), ElementsAre(3, 5));
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::min, DType::f32, {2, 3}), x), ElementsAre(1, -1));
  // Of nothing.
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::sum, DType::f32, {2, 0}), {}), ElementsAre(0, 0));
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::product, DType::f32, {1, 0}), {}), ElementsAre(1));
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::max, DType::f32, {1, 0}), {}), ElementsAre(-infinity));
  EXPECT_THAT(run_f32(reduce(Reduce::Kind::min, DType::f32, {1, 0}), {}), ElementsAre(infinity));
  EXPECT_THAT(run(reduce(Reduce::Kind::max, DType::i8, {1, 0}), {{}}), ElementsAre(0x80));
  EXPECT_THAT(run(reduce(Reduce::Kind::min, DType::i8, {1, 0}), {{}}), ElementsAre(0x7f));
  EXPECT_THAT(run(reduce(Reduce::Kind::min, DType::u16, {1, 0}), {{}}), ElementsAre(0xffff));
  // NaN wins.
  EXPECT_TRUE(std::isnan(run_f32(reduce(Reduce::Kind::max, DType::f32, {1, 3}), {1, nan, 2})[0]));
  EXPECT_TRUE(std::isnan(run_f32(reduce(Reduce::Kind::min, DType::f32, {1, 3}), {nan, 1, 2})[0]));
  // Integers wrap: 100 + 100 = 200 - 256; 16 * 16 = 0.
  EXPECT_THAT(run(reduce(Reduce::Kind::sum, DType::i8, {1, 2}), {{100, 100}}), ElementsAre(200));
  EXPECT_THAT(run(reduce(Reduce::Kind::product, DType::u8, {1, 2}), {{16, 16}}), ElementsAre(0));
  // -1 is less than 1 for i8, more for u8.
  EXPECT_THAT(run(reduce(Reduce::Kind::max, DType::i8, {1, 2}), {{0xff, 1}}), ElementsAre(1));
  EXPECT_THAT(run(reduce(Reduce::Kind::max, DType::u8, {1, 2}), {{0xff, 1}}), ElementsAre(0xff));
}

TEST(GroupKernels, PlacesOfExtremes) {
  const double nan = std::nan("");
  const auto places = [](Reduce::Kind kind, bool last, const std::vector<double>& x) {
    SizedContract contract = reduce(kind, DType::f32, {1, static_cast<int64_t>(x.size())});
    contract.get<ReduceKernel>().last = last;
    std::vector<uint64_t> elements;
    for (const double value : x) elements.push_back(f32(value));
    return run(contract, {elements})[0];
  };
  EXPECT_EQ(places(Reduce::Kind::index_max, false, {1, 3, 2, 3, 0}), 1U);
  EXPECT_EQ(places(Reduce::Kind::index_max, true, {1, 3, 2, 3, 0}), 3U);
  EXPECT_EQ(places(Reduce::Kind::index_min, false, {1, 0, 2, 0, 5}), 1U);
  EXPECT_EQ(places(Reduce::Kind::index_min, true, {1, 0, 2, 0, 5}), 3U);
  EXPECT_EQ(places(Reduce::Kind::index_max, false, {1, nan, 9, nan}), 1U);
  EXPECT_EQ(places(Reduce::Kind::index_min, true, {1, nan, 9, nan}), 3U);
}

TEST(GroupKernels, MapAndEpilogue) {
  SizedContract contract = reduce(Reduce::Kind::sum, DType::f32, {2, 3});
  ExprBuilder map(1);
  const uint16_t x = map.input(0, DType::f32);
  contract.get<ReduceKernel>().map = std::move(map).finish(map.binary(ExprOp::mul, x, x));
  ExprBuilder expr(2);
  contract.expr = std::move(expr).finish(
      expr.binary(ExprOp::add, expr.unary(ExprOp::sqrt, expr.input(0, DType::f32)), expr.input(1, DType::f32)));
  contract.operands = {{DType::f32, {}}, {DType::f32, {}}, {DType::f32, {}}};
  // sqrt(4 + 16 + 16) + 10; sqrt(9 + 0 + 16) + 20.
  EXPECT_THAT(run(contract, {{f32(2), f32(4), f32(-4), f32(3), f32(0), f32(4)}, {f32(10), f32(20)}}),
              ElementsAre(f32(16), f32(25)));
}

TEST(GroupKernels, Normalizations) {
  const auto row = [](Rowwise::Kind kind, double epsilon, const std::vector<double>& x) {
    SizedContract contract;
    contract.family = RowwiseKernel{.kind = kind, .epsilon = epsilon};
    contract.extents = {1, static_cast<int64_t>(x.size())};
    contract.operands = {{DType::f32, {}}, {DType::f32, {}}};
    contract.expr = same(DType::f32);
    return run_f32(contract, x);
  };
  const double log2 = std::log(2.0);
  // exp: 1, 2, 1 of 4; also far from 0.
  EXPECT_THAT(row(Rowwise::Kind::softmax, 0, {0, log2, 0}), ElementsAre(near(0.25), near(0.5), near(0.25)));
  EXPECT_THAT(row(Rowwise::Kind::softmax, 0, {1000, 1000}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(row(Rowwise::Kind::log_softmax, 0, {0, 0, 0, 0}), testing::Each(near(-2 * log2)));
  // Mean 3, mean of squares 4, 4 + 5 = 9.
  EXPECT_THAT(row(Rowwise::Kind::layer_norm, 5, {1, 5}), ElementsAre(near(-2.0 / 3), near(2.0 / 3)));
  // (9 + 25) / 2 + 8 = 25.
  EXPECT_THAT(row(Rowwise::Kind::rms_norm, 8, {3, 5}), ElementsAre(near(0.6), near(1)));
  for (const double value : row(Rowwise::Kind::softmax, 0, {-HUGE_VAL, -HUGE_VAL})) EXPECT_TRUE(std::isnan(value));
  EXPECT_THAT(row(Rowwise::Kind::softmax, 0, {-HUGE_VAL, 0}), ElementsAre(0, 1));
  EXPECT_THAT(row(Rowwise::Kind::masked_softmax, 0, {-HUGE_VAL, -HUGE_VAL}), ElementsAre(0, 0));
  EXPECT_THAT(row(Rowwise::Kind::masked_softmax, 0, {-HUGE_VAL, 0}), ElementsAre(0, 1));
  for (const double value : row(Rowwise::Kind::masked_softmax, 0, {std::nan(""), -HUGE_VAL}))
    EXPECT_TRUE(std::isnan(value));
}

TEST(GroupKernels, RunningSums) {
  SizedContract contract;
  contract.family = CumulativeKernel();
  contract.extents = {2, 3};
  contract.operands = {{DType::f32, {}}, {DType::f32, {}}};
  const std::vector<double> x = {1, 2, 3, 10, 20, 30};
  EXPECT_THAT(run_f32(contract, x), ElementsAre(1, 3, 6, 10, 30, 60));
  contract.family = CumulativeKernel{.exclusive = true};
  EXPECT_THAT(run_f32(contract, x), ElementsAre(0, 1, 3, 0, 10, 30));
  contract.family = CumulativeKernel{.exclusive = true, .reverse = true};
  EXPECT_THAT(run_f32(contract, x), ElementsAre(5, 3, 0, 50, 30, 0));
  contract.family = CumulativeKernel{.reverse = true};
  EXPECT_THAT(run_f32(contract, x), ElementsAre(6, 5, 3, 60, 50, 30));
  contract.family = CumulativeKernel{.accumulate = DType::i8};
  contract.operands = {{DType::i8, {}}, {DType::i8, {}}};
  EXPECT_THAT(run(contract, {{100, 100, 100, 1, 1, 1}}), ElementsAre(100, 200, 44, 1, 2, 3));  // modulo 256
}

// result[i, j] = data[indices[i], j], data with rows 0 and 2 written and row 1 not.
Result<TileGraph> gather_graph() {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {2, 2});
  const AllocationId indices = make.input("i", DType::i64, {4});
  const AllocationId data = make.allocation(DType::f32, {3, 2});
  const AllocationId y = make.output("y", DType::f32, {4, 2});
  KernelContract contract;
  contract.family = GatherKernel();
  contract.operands = {{DType::f32, {Access::broadcast, Access::unit, Access::strided}},
                       {DType::i64, {Access::unit, Access::broadcast, Access::broadcast}},
                       {DType::f32, {Access::strided, Access::unit}}};
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.copy(0, x, 0, data, 0, 2);
  make.copy(0, x, 2, data, 4, 2);
  make.builder.end_superstep();
  make.builder.begin_superstep();
  make.run(
      0, make.builder.contract(contract),
      {make.view(data, {1, 2, 3}, {0, 1, 2}), make.view(indices, {4, 2, 1}, {1, 0, 0}), make.view(y, {4, 2}, {2, 1})});
  make.builder.end_superstep();
  make.builder.end_region();
  return make.finish();
}

Tensor i64_tensor(const std::vector<int64_t>& values) {
  Tensor tensor(DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_value(static_cast<int64_t>(i), static_cast<double>(values[i]));
  return tensor;
}

TEST(Interpret, GatherReadsWhatItsIndicesName) {
  const Result<TileGraph> graph = gather_graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const Tensor x = f32_tensor({2, 2}, {1, 2, 3, 4});
  const std::vector<Tensor> good = {x, i64_tensor({2, 0, -1, 7})};  // from the end; clamped
  const auto result = interpret(*graph, good);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(values_of((*result)[0]), ElementsAre(3, 4, 1, 2, 3, 4, 3, 4));
  const std::vector<Tensor> low = {x, i64_tensor({-9, -3, 0, 2})};
  const auto clamped = interpret(*graph, low);
  ASSERT_TRUE(clamped) << clamped.error().message;
  EXPECT_THAT(values_of((*clamped)[0]), ElementsAre(1, 2, 1, 2, 1, 2, 3, 4));
  const std::vector<Tensor> undefined = {x, i64_tensor({0, 1, 0, 0})};
  const auto refused = interpret(*graph, undefined);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("which nothing wrote"));
}

}  // namespace
}  // namespace low
