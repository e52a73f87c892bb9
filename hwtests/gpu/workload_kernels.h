// The kernels of the canonical models' packages for a GPU: what there is to be checked of them.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/codegen.h"
#include "compiler/machine/machine.h"

namespace low::hwtests {

// All workloads' kernels, attention by either algorithm where the model writes it out; runs and entry points included.
// `pool` plans them.
Result<KernelSet> workload_kernels(const Machine& machine, ThreadPool& pool);

}  // namespace low::hwtests
