#include "runtime/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace low {
namespace {

TEST(ThreadPool, CountsTheCaller) {
  EXPECT_EQ(ThreadPool(1).threads(), 1);
  EXPECT_EQ(ThreadPool(3).threads(), 3);
  EXPECT_GE(ThreadPool(0).threads(), 1);
  EXPECT_GE(ThreadPool(-5).threads(), 1);
}

TEST(ThreadPool, EveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 2, 7, 1009}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      pool.parallel_for(count, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
      for (const std::atomic<int>& n : calls) EXPECT_EQ(n, 1) << threads << " threads, count " << count;
    }
  }
}

TEST(ThreadPool, NegativeCountDoesNothing) {
  ThreadPool pool(2);
  pool.parallel_for(-3, [](int64_t) { FAIL(); });
}

// Plain variables written in bodies are visible afterwards; many short jobs catch a worker that joins too late.
TEST(ThreadPool, ManyShortJobs) {
  ThreadPool pool(4);
  for (int64_t round = 0; round < 2000; ++round) {
    std::vector<int64_t> values(5, -1);
    pool.parallel_for(5, [&](int64_t i) { values[static_cast<size_t>(i)] = i + round; });
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), 10 + 5 * round);  // 0+1+2+3+4 = 10
  }
}

TEST(ThreadPool, TheWorkersTakePart) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  // Each of the two indices waits for the other: this ends only if two threads run at once.
  pool.parallel_for(2, [&](int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, NestedCallsRunOnTheSameThreadInOrder) {
  ThreadPool pool(3);
  std::atomic<int> inner_calls{0};
  std::atomic<bool> same_thread{true};
  pool.parallel_for(6, [&](int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    int64_t expected = 0;
    pool.parallel_for(11, [&](int64_t j) {
      if (std::this_thread::get_id() != outer || j != expected++) same_thread = false;
      pool.parallel_for(2, [&](int64_t) { ++inner_calls; });
    });
  });
  EXPECT_TRUE(same_thread);
  EXPECT_EQ(inner_calls, 6 * 11 * 2);
}

TEST(ThreadPool, TwoCallersShareOnePool) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  const auto call = [&] {
    for (int round = 0; round < 200; ++round) pool.parallel_for(10, [&](int64_t i) { sum += i; });
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum, 2 * 200 * 45);  // 0+1+...+9 = 45
}

// What a serial run would have met: indices below it are all done, whichever thread throws first.
TEST(ThreadPool, TheExceptionOfTheLowestIndexIsThrown) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int64_t round = 0; round < 500; ++round) {
      const int64_t lowest = round % 17;
      std::vector<int> calls(64);
      try {
        pool.parallel_for(64, [&](int64_t i) {
          calls[static_cast<size_t>(i)] = 1;
          if (i == lowest || i == lowest + 1 || i == 40) throw std::runtime_error(std::to_string(i));
        });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), std::to_string(lowest)) << threads << " threads";
      }
      for (int64_t i = 0; i <= lowest; ++i) EXPECT_EQ(calls[static_cast<size_t>(i)], 1) << i;
    }
    // The pool is as good as before.
    std::atomic<int64_t> sum{0};
    pool.parallel_for(10, [&](int64_t i) { sum += i; });
    EXPECT_EQ(sum, 45);
  }
}

TEST(ThreadPool, AnExceptionOfANestedCallReachesTheOuterCaller) {
  ThreadPool pool(3);
  const auto nested = [&] {
    pool.parallel_for(8, [&](int64_t i) {
      pool.parallel_for(4, [&](int64_t j) {
        if (i >= 2 && j == 3) throw std::bad_alloc();
      });
    });
  };
  EXPECT_THROW(nested(), std::bad_alloc);
  // The threads know that they are outside of bodies again: both take part.
  std::atomic<int> arrived{0};
  pool.parallel_for(2, [&](int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

}  // namespace
}  // namespace low
