// The kernels of the canonical models' packages for GPUs: what there is to be checked of them.
#pragma once

#include <span>
#include <vector>

#include "compiler/codegen/codegen.h"
#include "compiler/machine/machine.h"

namespace low::hwtests {

// For each machine all workloads' kernels with their runs and entry points, attention by either algorithm where the
// model writes it out.
Result<std::vector<KernelSet>> workload_kernels(std::span<const Machine> machines, ThreadPool& pool);

}  // namespace low::hwtests
