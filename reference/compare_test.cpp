#include <cmath>
#include <limits>

#include "reference/test_graphs.h"

namespace low::reference {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

Comparison compare_values(DType dtype, const std::vector<double>& actual, const std::vector<double>& expected,
                          const Tolerance& tolerance = {}) {
  const Shape shape{static_cast<int64_t>(actual.size())};
  Result<Comparison> result = compare(make(dtype, shape, actual), make(dtype, shape, expected), tolerance);
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  return *result;
}

TEST(Compare, TheBoundIsInclusive) {
  // Allowed at b = 4: 0.5 + 0.25 * 4 = 1.5.
  const Tolerance tolerance{.absolute = 0.5, .relative = 0.25};
  EXPECT_TRUE(compare_values(DType::f64, {5.5}, {4}, tolerance).passed());
  EXPECT_TRUE(compare_values(DType::f64, {2.5}, {4}, tolerance).passed());
  EXPECT_FALSE(compare_values(DType::f64, {5.5000001}, {4}, tolerance).passed());
  // Relative to the reference, not to what was computed: |4 - 5.5| <= 0.5 + 0.25 * 5.5 = 1.875.
  EXPECT_TRUE(compare_values(DType::f64, {4}, {5.875}, tolerance).passed());
}

TEST(Compare, Statistics) {
  // Errors 1, 0, 3; over the tolerance by 0.8 - 0.05, none, and 3 - 0.2 - 0.2 = 2.6.
  const Comparison c = compare_values(DType::f32, {2, 0, 7}, {1, 0, 4});
  EXPECT_EQ(c.elements, 3);
  EXPECT_EQ(c.mismatches, 2);
  EXPECT_EQ(c.worst_index, 2);
  EXPECT_EQ(c.worst_actual, 7);
  EXPECT_EQ(c.worst_expected, 4);
  EXPECT_EQ(c.max_absolute_error, 3);
  EXPECT_EQ(c.max_relative_error, 1);                      // 1 / 1; 3 / 4 is less
  EXPECT_DOUBLE_EQ(c.max_share, 7.5);                      // 3 / (0.2 + 0.2); 1 / 0.25 is less
  EXPECT_DOUBLE_EQ(c.rms_error, std::sqrt(10.0 / 3));      // 1 + 0 + 9
  EXPECT_DOUBLE_EQ(c.rms_reference, std::sqrt(17.0 / 3));  // 1 + 0 + 16
}

TEST(Compare, WorstElementOfAPass) {
  // Both within 0.2 + 0.05 * |b|: 0.1 of 0.25 and 0.1 of 0.7; the first has less left.
  const Comparison c = compare_values(DType::f64, {1.1, 10.1}, {1, 10});
  EXPECT_TRUE(c.passed());
  EXPECT_EQ(c.worst_index, 0);
}

TEST(Compare, NanAndInfinity) {
  EXPECT_TRUE(compare_values(DType::f32, {nan, inf, -inf}, {nan, inf, -inf}).passed());
  EXPECT_EQ(compare_values(DType::f32, {nan, inf, -inf}, {nan, inf, -inf}).worst_index, -1);
  EXPECT_EQ(compare_values(DType::f32, {nan, 1, inf, -inf, 1, inf, nan}, {1, nan, 1, inf, inf, nan, inf}).mismatches,
            7);
  const Comparison c = compare_values(DType::f32, {50, nan, inf}, {1, 1, -inf});
  EXPECT_EQ(c.mismatches, 3);
  EXPECT_EQ(c.nonfinite_mismatches, 2);
  EXPECT_EQ(c.nonfinite_index, 1);
  EXPECT_TRUE(std::isnan(c.nonfinite_actual));
  EXPECT_EQ(c.nonfinite_expected, 1);
  EXPECT_EQ(c.worst_index, 1);
  EXPECT_EQ(c.max_absolute_error, 49);  // finite elements only
}

TEST(Compare, OtherTypes) {
  EXPECT_TRUE(compare_values(DType::f8e4m3fn, {1.125, nan}, {1, nan}).passed());
  EXPECT_FALSE(compare_values(DType::f8e4m3fn, {2}, {1}).passed());
  EXPECT_TRUE(compare_values(DType::i8, {-128, 127}, {-127, 127}, {.absolute = 1, .relative = 0}).passed());
  EXPECT_FALSE(compare_values(DType::boolean, {1}, {0}).passed());
  EXPECT_FALSE(compare_values(DType::u64, {5}, {6}).passed());  // 1 > 0.2 + 0.3
  // Denormals differ by less than any tolerance but 0.
  EXPECT_TRUE(compare_values(DType::f32, {1e-40}, {0}).passed());
  EXPECT_FALSE(compare_values(DType::f32, {1e-40}, {0}, {.absolute = 0, .relative = 0}).passed());
}

TEST(Compare, Empty) {
  const Comparison c = compare_values(DType::f32, {}, {});
  EXPECT_TRUE(c.passed());
  EXPECT_EQ(c.worst_index, -1);
  EXPECT_EQ(c.rms_reference, 0);
}

TEST(Compare, TypesMustAgree) {
  const Tensor a(DType::f32, {2});
  EXPECT_EQ(compare(a, Tensor(DType::f32, {1, 2}), {}).error().kind, ErrorKind::mismatch);
  EXPECT_EQ(compare(a, Tensor(DType::f16, {2}), {}).error().message,
            "the result is f32[2], but the reference is f16[2]");
}

TEST(Compare, Text) {
  EXPECT_EQ(to_string(compare_values(DType::f32, {2, 0, 7}, {1, 0, 4})),
            "FAIL: 3 elements, 2 outside of 0.2 absolute + 0.05 relative\n"
            "worst error: 3 absolute, 1 relative, 750% of what is allowed; RMS of the error 1.82574, of the reference "
            "2.38048\n"
            "worst element: [2] is 7, the reference 4");
  EXPECT_EQ(to_string(compare_values(DType::f32, {0.5}, {0.5})),
            "PASS: 1 elements, 0 outside of 0.2 absolute + 0.05 relative\n"
            "worst error: 0 absolute, 0 relative, 0% of what is allowed; RMS of the error 0, of the reference 0.5\n"
            "worst element: [0] is 0.5, the reference 0.5\n"
            "note: the reference's RMS is below ten times the absolute tolerance, so single elements prove little");
  EXPECT_EQ(
      to_string(compare_values(DType::f32, {30, nan, 41, inf}, {30, 7, 40, -inf}, {.absolute = 3, .relative = 0})),
      "FAIL: 4 elements, 2 outside of 3 absolute + 0 relative\n"
      "2 of them NaN or infinite on one side only; first: [1] is nan, the reference 7\n"
      "worst error of the finite elements: 1 absolute, 0.025 relative, 33.3% of what is allowed; RMS of the error "
      "0.707107, of the reference "
      "35.3553\n"
      "worst element: [1] is nan, the reference 7");
  // Errors 0 and 1 of 30 and 40: an RMS of sqrt(1 / 2) against sqrt(2500 / 2), 1 / 50.
  EXPECT_EQ(to_string(compare_values(DType::f32, {30, 41}, {30, 40}, {.absolute = 2, .relative = 0, .rms = 0.01})),
            "FAIL: 2 elements, 0 outside of 2 absolute + 0 relative\n"
            "worst error: 1 absolute, 0.025 relative, 50% of what is allowed; RMS of the error 0.707107, of the "
            "reference 35.3553\n"
            "RMS of the error: 2% of the reference's, more than 1%\n"
            "worst element: [1] is 41, the reference 40");
  EXPECT_EQ(to_string(Tolerance{.absolute = 0.2, .relative = 0.05, .rms = 0.003}),
            "0.2 absolute, 0.05 relative, RMS 0.3%");
}

TEST(Compare, TheRmsOfTheErrorIsBounded) {
  // 1 / 50, as above, on whatever scale: the squares of the last are beyond a double.
  for (const double scale : {1.0, 1e-30, 1e200}) {
    const auto ratio_passes = [&](double rms) {
      return compare_values(DType::f64, {30 * scale, 41 * scale}, {30 * scale, 40 * scale},
                            {.absolute = 2 * scale, .relative = 0, .rms = rms})
          .passed();
    };
    EXPECT_TRUE(ratio_passes(0.0201)) << scale;
    EXPECT_FALSE(ratio_passes(0.0199)) << scale;
  }
  const Tolerance none{.absolute = 1, .relative = 0, .rms = 0};
  EXPECT_TRUE(compare_values(DType::f32, {1, nan}, {1, nan}, none).passed());
  EXPECT_TRUE(compare_values(DType::f32, {0, 0}, {0, 0}, none).passed());
  EXPECT_FALSE(compare_values(DType::f32, {0, 1e-9}, {0, 0}, {.absolute = 1, .relative = 0, .rms = 1}).passed());
}

}  // namespace
}  // namespace low::reference
