#include "compiler/low/touched_intervals.h"

#include <gtest/gtest.h>

#include <random>

namespace low {
namespace {

TouchedInterval access(uint32_t allocation, int64_t first, int64_t last, uint32_t tile, bool write) {
  return {.interval = {.allocation = AllocationId(allocation), .first = first, .last = last},
          .tile = TileId(tile),
          .write = write};
}

// The definition, pair by pair.
bool slow_conflict(const std::vector<TouchedInterval>& earlier, const std::vector<TouchedInterval>& later) {
  for (const TouchedInterval& a : earlier)
    for (const TouchedInterval& b : later) {
      const ByteInterval &x = a.interval, &y = b.interval;
      const bool meet = x.allocation == y.allocation && x.first <= x.last && y.first <= y.last && x.first <= y.last &&
                        y.first <= x.last;
      if (meet && a.tile != b.tile && (a.write || b.write)) return true;
    }
  return false;
}

TEST(TouchedIntervals, AsPairByPair) {
  const uint32_t seed = 20240607;
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  int conflicts = 0;
  for (int round = 0; round < 20000; ++round) {
    const uint32_t tiles = 1 + below(3), space = 4 + below(60), writers = 1 + below(100);
    const auto some = [&] {
      std::vector<TouchedInterval> accesses(below(6));
      for (TouchedInterval& one : accesses) {
        const int64_t first = below(space);
        // Empty ones, too.
        one = access(below(2), first, first + below(7) - 1, below(tiles), below(100) < writers);
      }
      return accesses;
    };
    std::vector<TouchedInterval> earlier;
    TouchedIntervals touched;
    for (uint32_t steps = below(5); steps > 0; --steps) {
      const std::vector<TouchedInterval> more = some();
      touched.add(more);
      earlier.insert(earlier.end(), more.begin(), more.end());
    }
    const std::vector<TouchedInterval> later = some();
    const bool expected = slow_conflict(earlier, later);
    conflicts += expected ? 1 : 0;
    ASSERT_EQ(touched.conflicts_with(later), expected) << "seed " << seed << ", round " << round;
  }
  // Both answers have been seen often.
  EXPECT_GT(conflicts, 2000);
  EXPECT_LT(conflicts, 18000);
}

// 200,000 intervals of one tile that all reach to the end, in steps of 100: pairs would be 2 * 10^10.
TEST(TouchedIntervals, ManyThatReachFar) {
  constexpr int64_t steps = 2000, each = 100, end = steps * each;
  TouchedIntervals touched;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<TouchedInterval> accesses;
    for (int64_t i = 0; i < each; ++i) accesses.push_back(access(0, step * each + i, end, 7, true));
    ASSERT_FALSE(touched.conflicts_with(accesses)) << step;
    touched.add(accesses);
  }
  EXPECT_TRUE(touched.conflicts_with(std::vector{access(0, end, end, 8, false)}));
  EXPECT_FALSE(touched.conflicts_with(std::vector{access(0, end + 1, end + 1, 8, true)}));
  EXPECT_FALSE(touched.conflicts_with(std::vector{access(1, 0, end, 8, true)}));
}

}  // namespace
}  // namespace low
