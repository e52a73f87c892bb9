#include "compiler/low/expand/pad_segments.h"

#include <gtest/gtest.h>

namespace low {
namespace {

// Element by element: a piece grows as long as its elements are evenly spaced, 0, 1 or -1 apart.
std::vector<AxisPiece> slow_segments(Pad::Mode mode, int64_t before, int64_t extent, int64_t result) {
  std::vector<AxisPiece> segments;
  for (int64_t i = 0; i < result; ++i) {
    const int64_t source = pad_source(mode, i - before, extent);
    if (!segments.empty()) {
      AxisPiece& last = segments.back();
      const int64_t step = source - (last.source + (last.size - 1) * last.step);
      if ((last.size == 1 && step >= -1 && step <= 1) || (last.size > 1 && step == last.step)) {
        last.step = step;
        ++last.size;
        continue;
      }
    }
    segments.push_back({i, 1, source, 0});
  }
  return segments;
}

TEST(PadSegments, AsElementByElement) {
  for (const Pad::Mode mode : {Pad::Mode::edge, Pad::Mode::reflect, Pad::Mode::wrap})
    for (const int64_t extent : {1, 2, 3, 5})
      for (int64_t before = -6; before <= 12; ++before)
        for (int64_t result = 0; result <= 20; ++result) {
          const std::vector<AxisPiece> expected = slow_segments(mode, before, extent, result);
          const std::vector<AxisPiece> found = pad_segments(mode, before, extent, result);
          const std::string what = std::to_string(static_cast<int>(mode)) + " extent " + std::to_string(extent) +
                                   " before " + std::to_string(before) + " result " + std::to_string(result);
          ASSERT_EQ(found.size(), expected.size()) << what;
          for (size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(found[i].begin, expected[i].begin) << what;
            EXPECT_EQ(found[i].size, expected[i].size) << what;
            EXPECT_EQ(found[i].source, expected[i].source) << what;
            EXPECT_EQ(found[i].step, expected[i].step) << what;
          }
          const double least = pad_segments_at_least(mode, extent, result), count = static_cast<double>(found.size());
          EXPECT_LE(least, count) << what;
          EXPECT_LE(count, 4 * least + 4) << what;
        }
}

// 2^40 elements, three pieces.
TEST(PadSegments, LongAxesAreNotWalkedAlong) {
  const int64_t far = int64_t{1} << 40;
  EXPECT_EQ(pad_segments(Pad::Mode::edge, far, 7, 2 * far).size(), 3u);
  EXPECT_EQ(pad_segments(Pad::Mode::wrap, far, 1, 2 * far).size(), 1u);
}

}  // namespace
}  // namespace low
