// How long the search takes, and how good what it finds is.
#pragma once

#include "compiler/lowc/commands.h"
#include "runtime/base/error.h"

namespace low::lowc {

// `lowc compile MODEL --benchmark-search`: a line for each machine, or JSON. A machine that the command names has to be
// one that the model can be planned for; of all others the reason is printed.
Result<void> benchmark_search(const CompileCommand& command);

}  // namespace low::lowc
