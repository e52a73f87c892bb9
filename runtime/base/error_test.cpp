#include "runtime/base/error.h"

#include <gtest/gtest.h>

namespace low {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorKind::invalid, std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  LOW_TRY(const int first, half(value));
  LOW_TRY(const int second, half(first));
  return second;
}

Result<void> check_even(int value) {
  if (auto result = half(value); !result) return in_context("check", result.error());
  return {};
}

Result<int> checked(int value) {
  LOW_TRY_VOID(check_even(value));
  return value;
}

TEST(Error, TryPassesValuesAndErrors) {
  EXPECT_EQ(quarter(12), 3);
  const Result<int> result = quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  EXPECT_EQ(result.error().message, "3 is odd");
}

TEST(Error, TryVoidAndContext) {
  EXPECT_EQ(checked(4), 4);
  const Result<int> result = checked(5);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "check: 5 is odd");
}

TEST(ErrorDeathTest, CheckPrintsTheCondition) { EXPECT_DEATH(LOW_CHECK(1 + 1 == 3), "1 \\+ 1 == 3 does not hold"); }

}  // namespace
}  // namespace low
