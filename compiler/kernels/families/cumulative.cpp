#include "compiler/kernels/families/cumulative.h"

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"

namespace low {

KernelContract kernel_of(const Cumulative& op, std::span<const Type> operands, const Type& result) {
  return contract_over(
      CumulativeKernel{
          .accumulate = accumulation_type(operands[0].dtype), .exclusive = op.exclusive, .reverse = op.reverse},
      operands, result);
}

Shape CumulativeKernel::run_extents(std::span<const Shape> operands) const { return operands[0]; }

Shape CumulativeKernel::operand_extents(const KernelContract&, const Shape& extents, size_t) const { return extents; }

std::string CumulativeKernel::axes_problem(const KernelContract& contract) const {
  return columns_problem(contract, columns);
}

std::string CumulativeKernel::problem(const KernelContract&) const {
  const DType sum = accumulate;
  if (sum == DType::boolean || (is_float(sum) && sum != DType::f32 && sum != DType::f64))
    return fmt::format("cumulative cannot accumulate in {}", low::name(sum));
  return "";
}

std::string CumulativeKernel::run_problem(const KernelContract&, const Shape& extents) const {
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}

void CumulativeKernel::configure(const KernelContract& contract, const Shape& extents) {
  columns = column_axis(contract, extents);
}

void CumulativeKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  add_group_work(work, contract, extents, 2);
}

}  // namespace low
