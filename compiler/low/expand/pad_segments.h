// Where a padded axis reads its operand: a few runs of evenly spaced elements, found without walking along the axis.
#pragma once

#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/low/expand/placed.h"

namespace low {

// The operand's element for the result's, `position` counted from the operand's first element; `extent` is at least 1.
// Not for constants.
int64_t pad_source(Pad::Mode mode, int64_t position, int64_t extent);

// The pieces from left to right that [0, result) consists of, each as long as its elements are 0, 1 or -1 apart.
std::vector<AxisPiece> pad_segments(Pad::Mode mode, int64_t before, int64_t extent, int64_t result);
// No more pieces than there are; at least a quarter of them, but for four.
double pad_segments_at_least(Pad::Mode mode, int64_t extent, int64_t result);

}  // namespace low
