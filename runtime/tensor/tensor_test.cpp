#include "runtime/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace low {
namespace {

constexpr int64_t max_int64 = std::numeric_limits<int64_t>::max();

TEST(Shape, ExtentsAndStrides) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.elements(), 30);
  EXPECT_EQ(shape.row_major_strides(), (Shape{15, 5, 1}));
  EXPECT_EQ(to_string(shape), "[2,3,5]");
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ((Shape{4, 0, 7}).elements(), 0);
  Shape grown;
  grown.append(7);
  EXPECT_EQ(grown, Shape{7});
  EXPECT_FALSE(grown == (Shape{7, 1}));
  EXPECT_FALSE(grown == Shape{8});
}

TEST(Shape, CheckedElements) {
  const auto check = [](std::vector<int64_t> extents) { return checked_elements(extents); };
  EXPECT_EQ(check({}), 1);
  EXPECT_EQ(check({3, 7}), 21);
  EXPECT_EQ(check({3, 0, 7}), 0);
  EXPECT_EQ(check({max_tensor_bytes}), max_tensor_bytes);
  EXPECT_FALSE(check({max_tensor_bytes + 1}));
  EXPECT_FALSE(check({-1}));
  EXPECT_FALSE(check({0, -1}));
  EXPECT_FALSE(check({max_int64, max_int64}));
  EXPECT_FALSE(check({int64_t{1} << 32, int64_t{1} << 32}));  // 2^64 wraps to 0
  EXPECT_FALSE(check({0, max_int64, max_int64}));             // no strides without overflow
  EXPECT_FALSE(check({std::numeric_limits<int64_t>::min(), -1}));
}

TEST(Shape, Broadcast) {
  EXPECT_EQ(broadcast({2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({2, 1, 5}, {7, 1}), (Shape{2, 7, 5}));
  EXPECT_EQ(broadcast({}, {4}), Shape{4});
  EXPECT_EQ(broadcast({0}, {1}), Shape{0});
  EXPECT_FALSE(broadcast({0}, {3}));
  EXPECT_FALSE(broadcast({2, 3}, {2}));
}

TEST(Tensor, StartsAtZeroAndIsAligned) {
  const Tensor tensor(DType::f16, {3, 7});
  EXPECT_EQ(tensor.bytes().size(), 42u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes().data()) % 64, 0u);
  for (int64_t i = 0; i < tensor.elements(); ++i) EXPECT_EQ(tensor.bits(i), 0u);
  EXPECT_EQ(Tensor(DType::i64, {0, 5}).bytes().size(), 0u);
}

TEST(Tensor, ValuesOfEveryType) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    Tensor tensor(type, {3});
    tensor.set_value(1, 1);
    EXPECT_EQ(tensor.value(0), 0) << name(type);
    EXPECT_EQ(tensor.value(1), 1) << name(type);
    EXPECT_EQ(tensor.value(2), 0) << name(type);
    tensor.set_value(1, -1);
    const double expected = is_unsigned_integer(type) ? 0 : type == DType::boolean ? 1 : -1;
    EXPECT_EQ(tensor.value(1), expected) << name(type);
    EXPECT_EQ(tensor.value(2), 0) << name(type);
  }
}

TEST(Tensor, IntegersTruncateAndClamp) {
  const double huge = 1e300;
  const auto stored = [](DType type, double value) {
    Tensor tensor(type, {});
    tensor.set_value(0, value);
    return tensor.integer(0);
  };
  EXPECT_EQ(stored(DType::i8, -1.9), -1);
  EXPECT_EQ(stored(DType::i8, -huge), -128);
  EXPECT_EQ(stored(DType::i16, 32767.9), 32767);
  EXPECT_EQ(stored(DType::i32, huge), 2147483647);
  EXPECT_EQ(stored(DType::i64, 9223372036854775808.0), max_int64);
  EXPECT_EQ(stored(DType::i64, -9223372036854775808.0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(stored(DType::i64, std::nan("")), 0);
  EXPECT_EQ(stored(DType::u8, -0.5), 0);
  EXPECT_EQ(stored(DType::u16, huge), 65535);
  EXPECT_EQ(stored(DType::u32, 4294967295.0), 4294967295);
  EXPECT_EQ(stored(DType::u64, 18446744073709551616.0), -1);  // the maximum, wrapped into int64_t
}

TEST(Tensor, WideIntegersKeepTheirBits) {
  Tensor tensor(DType::u64, {1});
  tensor.set_bits(0, 0xfedcba9876543210u);
  EXPECT_EQ(tensor.bits(0), 0xfedcba9876543210u);
  EXPECT_EQ(tensor.value(0), 18364758544493064720.0);  // rounded to a double, still positive
  EXPECT_EQ(*tensor.data<uint64_t>(), 0xfedcba9876543210u);
}

TEST(Tensor, FloatsSaturate) {
  Tensor tensor(DType::f8e4m3fn, {2});
  tensor.set_value(0, 1e6);
  EXPECT_EQ(tensor.value(0), 448);
  EXPECT_EQ(tensor.bits(0), 0x7eu);
}

TEST(Tensor, Equality) {
  Tensor a(DType::f32, {2, 3});
  Tensor b = a;
  EXPECT_TRUE(a == b);
  b.set_value(5, 1);
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a == Tensor(DType::f32, {3, 2}));
  EXPECT_FALSE(a == Tensor(DType::i32, {2, 3}));
}

TEST(TensorDeathTest, OutOfRange) {
  const Tensor tensor(DType::i16, {3});
  EXPECT_DEATH(static_cast<void>(tensor.bits(3)), "does not hold");
  EXPECT_DEATH(static_cast<void>(tensor.bits(-1)), "does not hold");
}

}  // namespace
}  // namespace low
