// Which contracts the kernel library implements, and what scratch they need.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/device/rows.h"
#include "compiler/codegen/targets.h"
#include "compiler/graph/kind_names.h"
#include "compiler/low/verify_contract.h"

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

// Inputs of an expression against the operands that they read.
std::string check_expr(const KernelContract& contract) {
  const auto [leading, first] = expr_operands(contract);
  const size_t extras = contract.operands.size() - first - 1;
  if (contract.expr.nodes.empty()) return "no expression";
  if (contract.expr.inputs != extras + leading) {
    return fmt::format("an expression with {} inputs for {} operands", contract.expr.inputs, extras);
  }
  for (const ExprNode& node : contract.expr.nodes) {
    if (node.op != ExprOp::input) continue;
    const DType type =
        node.argument < leading ? leading_type(contract) : contract.operands[first + node.argument - leading].dtype;
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
  const DType sum = contract.accumulate;
  for (const DType math : {contract.math, contract.math_b}) {
    const bool f32_sums = sum == DType::f32 && is_float(math) && math != DType::f64;
    if (!f32_sums && !(is_sum(sum) && (sum == DType::f64 ? is_float(math) : is_integer(math))))
      return fmt::format("products of {} accumulated in {}", name(math), name(sum));
  }
  return check_expr(contract);
}

std::string check_pointwise(const KernelContract& contract) {
  if (contract.extents.rank() < 1) return "no axes";
  if (contract.operands.empty()) return "no result";
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const bool result = i + 1 == contract.operands.size();
    if (std::string error = check_operand(contract.operands[i], contract.extents, result); !error.empty()) return error;
  }
  return check_expr(contract);
}

bool is_native_float(DType type) { return type == DType::f32 || type == DType::f64; }

// Families with outer and inner axes.
std::string check_groups(const KernelContract& contract) {
  const bool plain = contract.family == Family::cumulative, gathers = contract.family == Family::gather;
  const int rank = contract.extents.rank(), fewest = gathers ? 0 : 1;
  if (contract.inner < fewest || contract.inner >= rank || (gathers && contract.inner > rank - 1)) {
    return fmt::format("{} inner axes of {}", contract.inner, rank);
  }
  const size_t minimum = gathers ? 3 : 2;
  if (contract.operands.size() < minimum || ((plain || gathers) && contract.operands.size() > minimum)) {
    return fmt::format("{} operands", contract.operands.size());
  }
  if (gathers && rank - contract.inner == max_rank) return "no room for an index";
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const bool result = i + 1 == contract.operands.size();
    if (std::string error = check_operand(contract.operands[i], operand_extents(contract, i), result); !error.empty())
      return error;
  }
  if (gathers) {
    const DType index = contract.operands[1].dtype;
    if (index != DType::i32 && index != DType::i64) return fmt::format("indices of {}", name(index));
    if (contract.operands[0].dtype != contract.operands[2].dtype) return "a result of another type than its data";
    return "";
  }
  const DType sum = contract.accumulate;
  if (is_float(sum) ? !is_native_float(sum) : sum == DType::boolean || contract.family == Family::rowwise) {
    return fmt::format("elements combined in {}", name(sum));
  }
  if (plain) return "";
  if (contract.family == Family::reduce) {
    if (contract.kind >= reduce_kinds.size()) return "an unknown kind";
    // An index counts along one axis of at least one element.
    const bool index = leading_type(contract) != sum || contract.kind > static_cast<uint8_t>(Reduce::Kind::min);
    if (index && (contract.inner != 1 || contract.extents[rank - 1] == 0)) return "an index along several axes or none";
    if (contract.map &&
        (contract.map->nodes.empty() || contract.map->inputs != 1 || contract.map->result_type() != sum))
      return fmt::format("a map that does not give {}", name(sum));
  } else if (contract.kind >= rowwise_kinds.size()) {
    return "an unknown kind";
  }
  return check_expr(contract);
}

// Elements of a row of q, k and v: rows of a key block are kept in scratch.
constexpr int64_t max_head_size = 1 << 16;

std::string check_attention(const KernelContract& contract) {
  if (std::string problem = contract_problem(contract); !problem.empty()) return "a contract in which " + problem;
  for (const int axis : {2, 3}) {
    if (contract.extents[axis] > max_head_size)
      return fmt::format("a head size of {}, above {}", contract.extents[axis], max_head_size);
  }
  return check_operand(contract.operands.back(), operand_extents(contract, contract.operands.size() - 1), true);
}

std::string check_contract(const KernelContract& contract) {
  switch (contract.family) {
    case Family::gemm:
      return check_gemm(contract);
    case Family::pointwise:
      return check_pointwise(contract);
    case Family::attention:
      return check_attention(contract);
    default:
      return check_groups(contract);
  }
}

// Of one run of a contract that was checked.
uint64_t contract_scratch_bytes(const KernelContract& contract, const CodegenTarget& target) {
  if (contract.family == Family::gemm && contract.accumulate == DType::f32) {
    const device::GemmBlocks blocks =
        device::gemm_blocks(target.tiling, contract.extents[0], contract.extents[1], contract.extents[2]);
    return static_cast<uint64_t>(blocks.end) * sizeof(float);
  }
  if (contract.family == Family::attention) {
    const Shape& extents = contract.extents;
    if (contract.accumulate == DType::f64) return static_cast<uint64_t>(extents[3]) * sizeof(double);
    const device::AttentionBlocks blocks = device::attention_blocks(target.tiling, extents[0], extents[1], extents[2],
                                                                    extents[3], contract.attention.masked);
    return static_cast<uint64_t>(blocks.end) * sizeof(float);
  }
  if (contract.family == Family::rowwise) {
    const device::RowPlan plan = device::row_plan(contract.extents.rank(), contract.inner, contract.extents.begin(),
                                                  contract.operands[0].access.data());
    return static_cast<uint64_t>(plan.kept) * byte_size(contract.accumulate);
  }
  return 0;
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
    const std::string error = check_contract(contract);
    if (!error.empty()) {
      return fail(ErrorKind::unsupported, fmt::format("kernel {} has {}, which no kernel of target {} implements",
                                                      kernel_name(kernels, static_cast<uint32_t>(i)), error, target));
    }
    bytes = std::max(bytes, contract_scratch_bytes(contract, *known));
  }
  return (bytes + 63) / 64 * 64;
}

}  // namespace low
