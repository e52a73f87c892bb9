#include "runtime/base/within_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/thread_pool.h"

namespace low {
namespace {

TEST(WithinMemory, SaysWhichStageWantedTooMuch) {
  const Result<int> fine = within_memory("search", []() -> Result<int> { return 3; });
  ASSERT_TRUE(fine);
  EXPECT_EQ(*fine, 3);
  const Result<int> bad_alloc = within_memory("search", []() -> Result<int> { throw std::bad_alloc(); });
  ASSERT_FALSE(bad_alloc);
  EXPECT_EQ(bad_alloc.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(bad_alloc.error().message, "search: there is not enough memory for this model");
  const Result<int> length = within_memory("search", []() -> Result<int> {
    return static_cast<int>(std::vector<int>(std::vector<int>().max_size() + 1).size());
  });
  ASSERT_FALSE(length);
  EXPECT_EQ(length.error().kind, ErrorKind::unsupported);
}

TEST(WithinMemory, OfAWorkerToo) {
  ThreadPool pool(3);
  const Result<void> result = within_memory("expand", [&]() -> Result<void> {
    pool.parallel_for(16, [](int64_t i) {
      if (i % 5 == 4) throw std::bad_alloc();
    });
    return {};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "expand: there is not enough memory for this model");
}

}  // namespace
}  // namespace low
