#include "compiler/kernels/families/gather.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"

namespace low {

KernelContract kernel_of(const Gather& op, std::span<const Type> operands, const Type& result) {
  const Shape& indices = operands[1].shape;
  const int inner = op.mode == Gather::Mode::nd ? static_cast<int>(indices[indices.rank() - 1]) : 1;
  return contract_over(GatherKernel{.inner = inner}, operands, result);
}

Shape GatherKernel::run_extents(std::span<const Shape> operands) const {
  Shape extents = operands.back();
  const Shape& data = operands[0];
  for (int axis = data.rank() - inner; axis < data.rank(); ++axis) extents.append(data[axis]);
  return extents;
}

Shape GatherKernel::operand_extents(const KernelContract& contract, const Shape& run, size_t index) const {
  Shape extents = outer_extents(contract, run);
  if (index + 1 == contract.operands.size()) return extents;
  if (index == 1) {
    extents.append(inner);
    return extents;
  }
  const std::vector<Access>& access = contract.operands[index].access;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    if (static_cast<size_t>(axis) < access.size() && access[static_cast<size_t>(axis)] == Access::broadcast)
      extents[axis] = 1;
  }
  for (const int64_t extent : inner_extents(contract, run)) extents.append(extent);
  return extents;
}

std::string GatherKernel::axes_problem(const KernelContract& contract) const {
  const int rank = iteration_rank(contract);
  if (inner >= 0 && rank - inner == max_rank) return "gather has no room for an index";
  return split_problem(contract, 0);
}

std::string GatherKernel::problem(const KernelContract& contract) const {
  if (contract.operands[0].dtype != contract.operands[2].dtype) return "gather converts";
  if (contract.operands[1].dtype != DType::i32 && contract.operands[1].dtype != DType::i64)
    return fmt::format("gather has indices of {}", low::name(contract.operands[1].dtype));
  return "";
}

std::string GatherKernel::run_problem(const KernelContract& contract, const Shape& extents) const {
  const Shape outer = outer_extents(contract, extents), indexed = inner_extents(contract, extents);
  if (!checked_elements(outer.extents()) || !checked_elements(indexed.extents())) return out_of_range(extents);
  if (outer.elements() != 0 && indexed.elements() == 0) return fmt::format("gather along {}", to_string(indexed));
  return "";
}

void GatherKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  const Shape outer = outer_extents(contract, extents);
  work.expression_nodes = 1;
  work.n = outer[outer.rank() - 1];
  work.m = outer.elements() / std::max<int64_t>(work.n, 1);
  work.strided = contract.operands[0].access[static_cast<size_t>(outer.rank() - 1)] != Access::unit && work.n > 1;
}

}  // namespace low
