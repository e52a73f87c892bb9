#include "compiler/kernels/families/rowwise.h"

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"
#include "compiler/kernels/data/rows.h"

namespace low {

KernelContract kernel_of(const Rowwise& op, std::span<const Type> operands, const Type& result) {
  const RowwiseKernel kernel{
      .kind = op.kind, .accumulate = accumulation_type(operands[0].dtype), .epsilon = op.epsilon};
  KernelContract contract = contract_over(kernel, operands, result);
  contract.expr = op.epilogue ? *op.epilogue : folding::conversion(kernel.accumulate, result.dtype);
  return contract;
}

Shape RowwiseKernel::run_extents(std::span<const Shape> operands) const { return operands[0]; }

Shape RowwiseKernel::operand_extents(const KernelContract&, const Shape& extents, size_t) const { return extents; }

std::string RowwiseKernel::axes_problem(const KernelContract& contract) const {
  return columns_problem(contract, columns);
}

std::string RowwiseKernel::problem(const KernelContract&) const {
  if (static_cast<size_t>(kind) >= rowwise_kinds.size()) return "rowwise of an unknown kind";
  if (accumulate != DType::f32 && accumulate != DType::f64)
    return fmt::format("rowwise cannot compute in {}", low::name(accumulate));
  return "";
}

std::string RowwiseKernel::run_problem(const KernelContract&, const Shape& extents) const {
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}

void RowwiseKernel::configure(const KernelContract& contract, const Shape& extents) {
  columns = column_axis(contract, extents);
  long_rows = !columns && inner_extents(contract, extents).elements() > device::max_kept_row;
}

void RowwiseKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  add_group_work(work, contract, extents, rowwise_work(kind) + expression_work(contract.expr));
}

uint64_t RowwiseKernel::scratch_bytes(const KernelContract& contract, const Shape& extents,
                                      const device::Tiling&) const {
  const long long kept = device::kept_elements(
      columns.has_value(), long_rows, inner_extents(contract, extents).elements(), columns ? extents[*columns] : 1);
  return static_cast<uint64_t>(kept) * byte_size(accumulate);
}

}  // namespace low
