// What is wrong with a kernel contract by itself: without a run, views or a machine.
#pragma once

#include <string>

#include "compiler/low/tile_graph.h"

namespace low {

// Empty: nothing.
std::string contract_problem(const KernelContract& contract);

}  // namespace low
