#include "compiler/kernels/families/top_k.h"

#include <bit>

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"
#include "compiler/kernels/data/rows.h"

namespace low {

KernelContract kernel_of(const TopK& op, std::span<const Type> operands, const Type& result) {
  return contract_over(TopKKernel{.smallest = op.smallest}, operands, result);
}

int TopKKernel::iteration_rank(const KernelContract& contract) const {
  return static_cast<int>(contract.operands[0].access.size()) + 1;
}

Shape TopKKernel::run_extents(std::span<const Shape> operands) const {
  Shape extents = operands[0];
  extents.append(operands[1][operands[1].rank() - 1]);
  return extents;
}

Shape TopKKernel::operand_extents(const KernelContract& contract, const Shape& run, size_t index) const {
  Shape extents = outer_extents(contract, run);
  extents.append(run[extents.rank() + (index == 0 ? 0 : 1)]);
  return extents;
}

std::string TopKKernel::axes_problem(const KernelContract& contract) const { return split_problem(contract, 2); }

std::string TopKKernel::problem(const KernelContract& contract) const {
  if (contract.operands[0].dtype == DType::boolean) return "top_k of booleans";
  if (contract.operands[1].dtype != DType::i64)
    return fmt::format("top_k gives places as {}", low::name(contract.operands[1].dtype));
  return "";
}

std::string TopKKernel::run_problem(const KernelContract& contract, const Shape& extents) const {
  const Shape group = inner_extents(contract, extents);
  for (const size_t operand : {0, 1}) {
    if (!checked_elements(operand_extents(contract, extents, operand).extents())) return out_of_range(extents);
  }
  return group[1] > group[0] ? fmt::format("top {} of {} elements", group[1], group[0]) : "";
}

uint64_t TopKKernel::scratch_bytes(const KernelContract& contract, const Shape& extents, const device::Tiling&) const {
  const auto kept = static_cast<uint64_t>(inner_extents(contract, extents)[1]);
  return kept * (device::top_k_value_bytes + sizeof(int64_t));
}

// Most elements are compared with the last one that is kept, and no more.
void TopKKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  const Shape group = inner_extents(contract, extents);
  work.expression_nodes = 4 + std::bit_width(static_cast<uint64_t>(group[1]));
  work.m = outer_extents(contract, extents).elements();
  work.n = group[0];
  work.strided = contract.operands[0].access.back() == Access::strided;
}

}  // namespace low
