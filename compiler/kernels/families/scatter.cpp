#include "compiler/kernels/families/scatter.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/base/integers.h"
#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"

namespace low {

KernelContract kernel_of(const Scatter& op, std::span<const Type> operands, const Type& result) {
  const Type first{DType::i64, {1}};
  const Type kernel_operands[] = {operands[1], operands[2], first, operands[0]};
  return contract_over(ScatterKernel{.kind = op.kind}, kernel_operands, result);
}

Shape ScatterKernel::run_extents(std::span<const Shape> operands) const {
  const Shape &updates = operands[1], &data = operands[3];
  return {updates[0], data[0], updates[1]};
}

Shape ScatterKernel::operand_extents(const KernelContract&, const Shape& extents, size_t index) const {
  switch (index) {
    case 0:
      return {extents[0]};
    case 1:
      return {extents[0], extents[2]};
    case 2:
      return {1};
    default:
      return {extents[1], extents[2]};
  }
}

std::string ScatterKernel::problem(const KernelContract& contract) const {
  if (static_cast<size_t>(kind) >= scatter_kinds.size()) return "scatter of an unknown kind";
  const DType indices = contract.operands[0].dtype, element = contract.operands[4].dtype;
  if (indices != DType::i32 && indices != DType::i64)
    return fmt::format("scatter has indices of {}", low::name(indices));
  if (contract.operands[2].dtype != DType::i64)
    return fmt::format("scatter's first row is {}", low::name(contract.operands[2].dtype));
  if (contract.operands[1].dtype != element || contract.operands[3].dtype != element) return "scatter converts";
  if (kind != Scatter::Kind::replace && element == DType::boolean) return "scatter combines booleans";
  return "";
}

std::string ScatterKernel::run_problem(const KernelContract&, const Shape& extents) const {
  const int64_t updates[] = {extents[0], extents[2]}, data[] = {extents[1], extents[2]};
  return checked_elements(updates) && checked_elements(data) ? "" : out_of_range(extents);
}

KernelWork updating_run(int64_t rows, int64_t columns, int64_t updates) {
  KernelWork run;
  run.m = rows + std::min(rows, updates) + ceil_div(updates, std::max<int64_t>(columns, 1));
  run.n = columns;
  return run;
}

void ScatterKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  const KernelWork run = updating_run(extents[1], extents[2], extents[0]);
  work.m = run.m;
  work.n = run.n;
  work.expression_nodes = update_work;
  work.strided = contract.operands[3].access[1] == Access::strided;
}

}  // namespace low
