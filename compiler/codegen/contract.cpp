// Which contracts the kernel library implements, and what scratch they need.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/targets.h"

namespace low {
namespace {

bool is_sum(DType type) {
  return type == DType::f64 || type == DType::i32 || type == DType::i64 || type == DType::u32 || type == DType::u64;
}

std::string check_operand(const OperandContract& operand, const Shape& axes, bool result) {
  if (operand.access.size() != static_cast<size_t>(axes.rank())) {
    return fmt::format("an operand with {} axes of {}", operand.access.size(), axes.rank());
  }
  for (int axis = 0; axis < axes.rank(); ++axis) {
    if (result && operand.access[static_cast<size_t>(axis)] == Access::broadcast && axes[axis] > 1) {
      return fmt::format("a result that is broadcast along axis {}", axis);
    }
  }
  return "";
}

// Inputs of the expression against the operands that they read.
std::string check_expr(const KernelContract& contract, size_t first_extra, int leading) {
  const size_t extras = contract.operands.size() - first_extra - 1;
  if (contract.expr.nodes.empty()) return "no expression";
  if (contract.expr.inputs != extras + static_cast<size_t>(leading)) {
    return fmt::format("an expression with {} inputs for {} operands", contract.expr.inputs, extras);
  }
  for (const ExprNode& node : contract.expr.nodes) {
    if (node.op != ExprOp::input) continue;
    const DType type = node.argument < leading
                           ? contract.accumulate
                           : contract.operands[first_extra + node.argument - static_cast<size_t>(leading)].dtype;
    if (node.dtype != type) return fmt::format("an expression that reads {} as {}", name(type), name(node.dtype));
  }
  const DType result = contract.operands.back().dtype;
  if (contract.expr.result_type() != result) {
    return fmt::format("an expression of {} for a result of {}", name(contract.expr.result_type()), name(result));
  }
  return "";
}

std::string check_gemm(const KernelContract& contract) {
  const Shape& extents = contract.extents;
  if (extents.rank() != 3) return fmt::format("{} extents instead of (m, n, k)", extents.rank());
  if (contract.operands.size() < 3) return fmt::format("{} operands", contract.operands.size());
  const Shape axes[3] = {{extents[0], extents[2]}, {extents[2], extents[1]}, {extents[0], extents[1]}};
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const bool result = i + 1 == contract.operands.size();
    if (std::string error = check_operand(contract.operands[i], axes[std::min<size_t>(i, 2)], result); !error.empty())
      return error;
  }
  const DType math = contract.math, sum = contract.accumulate;
  const bool f32_sums = sum == DType::f32 && is_float(math) && math != DType::f64;
  if (!f32_sums && !(is_sum(sum) && (sum == DType::f64 ? is_float(math) : is_integer(math)))) {
    return fmt::format("products of {} accumulated in {}", name(math), name(sum));
  }
  return check_expr(contract, 2, 1);
}

std::string check_pointwise(const KernelContract& contract) {
  if (contract.extents.rank() < 1) return "no axes";
  if (contract.operands.empty()) return "no result";
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const bool result = i + 1 == contract.operands.size();
    if (std::string error = check_operand(contract.operands[i], contract.extents, result); !error.empty()) return error;
  }
  return check_expr(contract, 0, 0);
}

}  // namespace

Result<uint64_t> scratch_bytes(const KernelSet& kernels, std::string_view target) {
  const CodegenTarget* const known = find_target(target);
  if (known == nullptr) {
    return fail(ErrorKind::unsupported,
                fmt::format("no code is generated for target {}; known are {}", target, known_targets()));
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < kernels.contracts.size(); ++i) {
    const KernelContract& contract = kernels.contracts[i];
    const std::string error = contract.family == Family::gemm ? check_gemm(contract) : check_pointwise(contract);
    if (!error.empty()) {
      return fail(ErrorKind::unsupported, fmt::format("kernel {} has {}, which no kernel of target {} implements",
                                                      kernel_name(kernels, static_cast<uint32_t>(i)), error, target));
    }
    if (contract.family != Family::gemm || contract.accumulate != DType::f32) continue;
    const device::GemmBlocks blocks =
        device::gemm_blocks(known->tiling, contract.extents[0], contract.extents[1], contract.extents[2]);
    bytes = std::max(bytes, static_cast<uint64_t>(blocks.end) * sizeof(float));
  }
  return (bytes + 63) / 64 * 64;
}

}  // namespace low
