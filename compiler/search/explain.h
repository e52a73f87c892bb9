// The itemised explanation of a plan's predicted cost.
#pragma once

#include <string>

#include "compiler/search/search.h"

namespace low {

// "matmul 3 (fc1) f32[1458,4304]"
std::string describe(const Graph& graph, size_t op);
// "grid 1x4x4x1 of 365x1076, block 365x538x256"
std::string describe(const OpPlan& plan);

// One line an operation, then the total; times in microseconds of the machine's clock.
std::string explain(const Machine& machine, const Finalist& finalist);

}  // namespace low
