#include "compiler/kernels/families/reduce.h"

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"

namespace low {
namespace {

std::string check_map(const Expr& map, DType from, DType to) {
  if (map.nodes.empty()) return "its map has no nodes";
  if (const auto verified = verify(map, "map"); !verified) return verified.error().message;
  if (map.inputs != 1) return fmt::format("its map has {} inputs", map.inputs);
  for (const ExprNode& node : map.nodes) {
    if (node.op == ExprOp::input && node.dtype != from)
      return fmt::format("its map reads {}, the operand is {}", name(node.dtype), name(from));
  }
  if (map.result_type() != to)
    return fmt::format("its map gives {}, it accumulates in {}", name(map.result_type()), name(to));
  return "";
}

}  // namespace

KernelContract kernel_of(const Reduce& op, std::span<const Type> operands, const Type& result) {
  const ReduceKernel kernel{.kind = op.kind, .accumulate = op.accumulate, .last = op.last, .map = op.map};
  KernelContract contract = contract_over(kernel, operands, result);
  contract.expr = op.epilogue ? *op.epilogue : folding::conversion(kernel.leading_type(), result.dtype);
  return contract;
}

Shape ReduceKernel::run_extents(std::span<const Shape> operands) const { return operands[0]; }

Shape ReduceKernel::operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const {
  return index == 0 ? extents : outer_extents(contract, extents);
}

std::string ReduceKernel::axes_problem(const KernelContract& contract) const {
  return columns_problem(contract, columns);
}

std::string ReduceKernel::problem(const KernelContract& contract) const {
  if (static_cast<size_t>(kind) >= reduce_kinds.size()) return "reduce of an unknown kind";
  const DType sum = accumulate;
  if (is_float(sum) && sum != DType::f32 && sum != DType::f64)
    return fmt::format("reduce cannot accumulate in {}", low::name(sum));
  if (is_index() && inner != 1) return fmt::format("an index along {} axes", inner);
  return map ? check_map(*map, contract.operands[0].dtype, sum) : "";
}

std::string ReduceKernel::run_problem(const KernelContract& contract, const Shape& extents) const {
  if (is_index() && extents[extents.rank() - 1] == 0)
    return fmt::format("an index along {}", to_string(inner_extents(contract, extents)));
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}

void ReduceKernel::configure(const KernelContract& contract, const Shape& extents) {
  columns = column_axis(contract, extents);
}

void ReduceKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  add_group_work(work, contract, extents, reduce_work(kind, map));
}

}  // namespace low
