#include "compiler/low/expand/pad_segments.h"

#include <algorithm>
#include <limits>

namespace low {
namespace {

int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }

// From one position to the next the source moves by `step`, `count` times in a row.
struct Steps {
  int64_t step = 0;
  int64_t count = std::numeric_limits<int64_t>::max();
};

Steps steps_from(Pad::Mode mode, int64_t position, int64_t extent) {
  if (extent == 1) return {};
  const int64_t last = extent - 1;
  if (mode == Pad::Mode::reflect) {
    const int64_t place = modulo(position, 2 * last);
    return place < last ? Steps{1, last - place} : Steps{-1, 2 * last - place};
  }
  if (mode == Pad::Mode::wrap) {
    const int64_t place = modulo(position, extent);
    return place < last ? Steps{1, last - place} : Steps{-last, 1};
  }
  if (position < 0) return {0, -position};
  return position < last ? Steps{1, last - position} : Steps{};
}

}  // namespace

int64_t pad_source(Pad::Mode mode, int64_t position, int64_t extent) {
  switch (mode) {
    case Pad::Mode::constant:
    case Pad::Mode::edge:
      return std::clamp<int64_t>(position, 0, extent - 1);
    case Pad::Mode::reflect: {
      if (extent == 1) return 0;
      const int64_t place = modulo(position, 2 * extent - 2);
      return place < extent ? place : 2 * extent - 2 - place;
    }
    case Pad::Mode::wrap:
      break;
  }
  return modulo(position, extent);
}

std::vector<AxisPiece> pad_segments(Pad::Mode mode, int64_t before, int64_t extent, int64_t result) {
  std::vector<AxisPiece> segments;
  for (int64_t begin = 0; begin < result;) {
    AxisPiece piece{begin, 1, pad_source(mode, begin - before, extent), 0};
    const Steps steps = steps_from(mode, begin - before, extent);
    if (result - begin > 1 && steps.step >= -1 && steps.step <= 1) {
      piece.size = std::min(steps.count, result - begin - 1) + 1;
      piece.step = steps.step;
    }
    segments.push_back(piece);
    begin += piece.size;
  }
  return segments;
}

double pad_segments_at_least(Pad::Mode mode, int64_t extent, int64_t result) {
  const bool repeats = (mode == Pad::Mode::reflect || mode == Pad::Mode::wrap) && extent > 1;
  // A piece is no longer than the operand, and two neighbours are together at least half of it.
  return repeats ? static_cast<double>(result) / static_cast<double>(extent) : 0;
}

}  // namespace low
