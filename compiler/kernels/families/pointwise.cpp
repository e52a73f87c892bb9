#include "compiler/kernels/families/pointwise.h"

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"

namespace low {

Shape PointwiseKernel::run_extents(std::span<const Shape> operands) const { return operands.back(); }

Shape PointwiseKernel::operand_extents(const KernelContract&, const Shape& extents, size_t) const { return extents; }

std::string PointwiseKernel::axes_problem(const KernelContract& contract) const {
  return iteration_rank(contract) == 0 ? "pointwise has no axes" : "";
}

std::string PointwiseKernel::problem(const KernelContract&) const { return ""; }

std::string PointwiseKernel::run_problem(const KernelContract&, const Shape& extents) const {
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}

void PointwiseKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  work.expression_nodes = expression_work(contract.expr);
  const int last = extents.rank() - 1;
  work.n = extents[last];
  for (int axis = 0; axis < last; ++axis) work.m *= extents[axis];
  for (size_t i = 0; i + 1 < contract.operands.size(); ++i)
    work.strided = work.strided || contract.operands[i].access[static_cast<size_t>(last)] == Access::strided;
}

Cost elementwise_run_cost(const Machine& machine, const KernelWork& work) {
  const auto m = static_cast<double>(work.m), n = static_cast<double>(work.n);
  const double expression = m * n * static_cast<double>(work.expression_nodes) / machine.vector_flop_per_cycle;
  // The last vector of a row is as expensive as a full one.
  Cost cost;
  cost.compute = expression * padded_to(work.n, machine.vector_lanes) / n;
  cost.padding = cost.compute - expression;
  cost.memory = transfer_cycles(machine, work) * (work.strided ? strided_penalty : 1);
  return cost;
}

}  // namespace low
