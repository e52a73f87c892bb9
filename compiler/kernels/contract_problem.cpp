#include <fmt/format.h>

#include <cmath>

#include "compiler/kernels/contract.h"

namespace low {
namespace {

bool accumulates(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 ||
         dtype == DType::u32 || dtype == DType::u64;
}

std::string out_of_range(const KernelContract& contract) {
  return fmt::format("extents {} are out of range", to_string(contract.extents));
}

// --- Extents and `inner`, without which nothing else can be said

std::string check_extents(const KernelContract& contract, const GemmKernel&) {
  if (contract.extents.rank() != 3)
    return fmt::format("gemm has extents {}, expected (m, n, k)", to_string(contract.extents));
  return checked_elements(contract.extents.extents()) ? "" : out_of_range(contract);
}

std::string check_extents(const KernelContract& contract, const PointwiseKernel&) {
  if (contract.extents.rank() == 0) return "pointwise has no axes";
  return checked_elements(contract.extents.extents()) ? "" : out_of_range(contract);
}

// Outer and inner axes: at least `fewest` inner ones and one outer one.
std::string check_split(const KernelContract& contract, int fewest) {
  const int inner = inner_axes(contract), rank = contract.extents.rank();
  if (inner < fewest || inner >= rank)
    return fmt::format("{} has {} inner axes of {}", family_name(contract), inner, rank);
  if (!checked_elements(outer_extents(contract).extents()) || !checked_elements(inner_extents(contract).extents()))
    return out_of_range(contract);
  return "";
}
std::string check_whole(const KernelContract& contract) {
  if (std::string found = check_split(contract, 1); !found.empty()) return found;
  return checked_elements(contract.extents.extents()) ? "" : out_of_range(contract);
}
std::string check_extents(const KernelContract& contract, const ReduceKernel&) { return check_whole(contract); }
std::string check_extents(const KernelContract& contract, const RowwiseKernel&) { return check_whole(contract); }
std::string check_extents(const KernelContract& contract, const CumulativeKernel&) { return check_whole(contract); }
std::string check_extents(const KernelContract& contract, const GatherKernel& kernel) {
  if (kernel.inner >= 0 && contract.extents.rank() - kernel.inner == max_rank) return "gather has no room for an index";
  return check_split(contract, 0);
}

std::string check_extents(const KernelContract& contract, const AttentionKernel&) {
  if (contract.extents.rank() != 4)
    return fmt::format("attention has extents {}, expected (m, n, d, dv)", to_string(contract.extents));
  const int64_t m = contract.extents[0], n = contract.extents[1], d = contract.extents[2], dv = contract.extents[3];
  if (m < 0 || n < 1 || d < 1 || dv < 1 || dv > INT64_MAX - 2) return out_of_range(contract);
  // Scores, rows of a state, and the operands.
  for (const Shape& shape : {Shape{m, n}, Shape{m, d}, Shape{n, d}, Shape{n, dv}, Shape{m, dv + 2}})
    if (!checked_elements(shape.extents())) return out_of_range(contract);
  return "";
}

// --- How many operands, the result included

struct OperandCount {
  size_t least = 2;
  bool exact = false;  // no extras, and no expression
};
OperandCount operand_count(const GemmKernel&) { return {3}; }
OperandCount operand_count(const PointwiseKernel&) { return {1}; }
OperandCount operand_count(const ReduceKernel&) { return {2}; }
OperandCount operand_count(const RowwiseKernel&) { return {2}; }
OperandCount operand_count(const CumulativeKernel&) { return {2, true}; }
OperandCount operand_count(const GatherKernel&) { return {3, true}; }
OperandCount operand_count(const AttentionKernel& kernel) {
  return {attention_operands(kernel).extras + 1, kernel.partial};
}

// --- What the family itself has to say; there are enough operands

std::string check(const KernelContract&, const PointwiseKernel&) { return ""; }

std::string check(const KernelContract&, const GemmKernel& kernel) {
  if (kernel.stage_k < 0) return fmt::format("stage_k is {}", kernel.stage_k);
  if (!accumulates(kernel.accumulate)) return fmt::format("gemm cannot accumulate in {}", name(kernel.accumulate));
  for (const DType math : {kernel.math_a, kernel.math_b}) {
    if (math == DType::boolean || is_float(math) != is_float(kernel.accumulate) ||
        (math == DType::f64 && kernel.accumulate == DType::f32))
      return fmt::format("gemm cannot multiply in {} and accumulate in {}", name(math), name(kernel.accumulate));
  }
  return "";
}

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

std::string check(const KernelContract& contract, const ReduceKernel& kernel) {
  if (static_cast<size_t>(kernel.kind) >= reduce_kinds.size()) return "reduce of an unknown kind";
  const DType sum = kernel.accumulate;
  if (is_float(sum) && sum != DType::f32 && sum != DType::f64)
    return fmt::format("reduce cannot accumulate in {}", name(sum));
  if (kernel.is_index() && (kernel.inner != 1 || contract.extents[contract.extents.rank() - 1] == 0))
    return fmt::format("an index along {}", to_string(inner_extents(contract)));
  return kernel.map ? check_map(*kernel.map, contract.operands[0].dtype, sum) : "";
}

std::string check(const KernelContract&, const RowwiseKernel& kernel) {
  if (static_cast<size_t>(kernel.kind) >= rowwise_kinds.size()) return "rowwise of an unknown kind";
  if (kernel.accumulate != DType::f32 && kernel.accumulate != DType::f64)
    return fmt::format("rowwise cannot compute in {}", name(kernel.accumulate));
  return "";
}

std::string check(const KernelContract&, const CumulativeKernel& kernel) {
  const DType sum = kernel.accumulate;
  if (sum == DType::boolean || (is_float(sum) && sum != DType::f32 && sum != DType::f64))
    return fmt::format("cumulative cannot accumulate in {}", name(sum));
  return "";
}

std::string check(const KernelContract& contract, const GatherKernel&) {
  if (contract.operands[0].dtype != contract.operands[2].dtype) return "gather converts";
  if (contract.operands[1].dtype != DType::i32 && contract.operands[1].dtype != DType::i64)
    return fmt::format("gather has indices of {}", name(contract.operands[1].dtype));
  if (outer_extents(contract).elements() != 0 && inner_extents(contract).elements() == 0)
    return fmt::format("gather along {}", to_string(inner_extents(contract)));
  return "";
}

std::string check(const KernelContract& contract, const AttentionKernel& kernel) {
  const DType sum = kernel.accumulate;
  if (sum != DType::f32 && sum != DType::f64) return fmt::format("attention cannot accumulate in {}", name(sum));
  if (!is_float(kernel.math) || (kernel.math == DType::f64 && sum == DType::f32))
    return fmt::format("attention cannot multiply in {} and accumulate in {}", name(kernel.math), name(sum));
  if (!std::isfinite(kernel.scale)) return "attention has a scale that is not finite";
  if (!std::isfinite(kernel.softcap) || kernel.softcap < 0)
    return "attention has a softcap that is negative or not finite";
  if (std::isnan(kernel.masked_score) || kernel.masked_score > max_finite(DType::f64))
    return fmt::format("attention has a masked_score of {}", kernel.masked_score);
  const AttentionOperands known = attention_operands(kernel);
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const DType dtype = contract.operands[i].dtype;
    if (i < 3 && !is_float(dtype))
      return fmt::format("attention has operand {} of {}, expected a float", i, name(dtype));
    if (i < 3) continue;
    if (i == known.mask && dtype != DType::boolean && !is_float(dtype))
      return fmt::format("attention has a mask of {}, expected bool or a float", name(dtype));
    if (i == known.diagonal && dtype != DType::i32)
      return fmt::format("attention has a diagonal of {}, expected i32", name(dtype));
    if ((i == known.state || (kernel.partial && i + 1 == contract.operands.size())) && dtype != sum)
      return fmt::format("attention has a state of {}, expected {}", name(dtype), name(sum));
  }
  return "";
}

// --- The expression, against what it reads and writes

std::string check_expr(const KernelContract& contract) {
  const Expr& expr = contract.expr;
  if (expr.nodes.empty()) return "its expression has no nodes";
  if (const auto verified = verify(expr, "expression"); !verified) return verified.error().message;
  const auto [leading, first] = expr_operands(contract);
  const size_t inputs = contract.operands.size() - 1 - first + leading;
  if (expr.inputs != inputs) return fmt::format("its expression has {} inputs, expected {}", expr.inputs, inputs);
  for (const ExprNode& node : expr.nodes) {
    if (node.op != ExprOp::input) continue;
    const DType expected =
        node.argument < leading ? leading_type(contract) : contract.operands[node.argument - leading + first].dtype;
    if (node.dtype != expected) {
      return fmt::format("input {} of its expression is {}, the operand is {}", node.argument, name(node.dtype),
                         name(expected));
    }
  }
  if (expr.result_type() != contract.operands.back().dtype) {
    return fmt::format("its expression gives {}, the result is {}", name(expr.result_type()),
                       name(contract.operands.back().dtype));
  }
  return "";
}

}  // namespace

std::string problem(const KernelContract& contract) {
  return std::visit(
      [&](const auto& kernel) -> std::string {
        if (std::string found = check_extents(contract, kernel); !found.empty()) return found;
        const OperandCount count = operand_count(kernel);
        const size_t operands = contract.operands.size();
        if (operands < count.least || (count.exact && operands > count.least))
          return fmt::format("{} operands, expected {}{}", operands, count.exact ? "" : "at least ", count.least);
        for (size_t i = 0; i < operands; ++i) {
          const auto rank = static_cast<size_t>(operand_extents(contract, i).rank());
          if (contract.operands[i].access.size() != rank)
            return fmt::format("operand {} has {} axes, expected {}", i, contract.operands[i].access.size(), rank);
        }
        if (std::string found = check(contract, kernel); !found.empty()) return found;
        if (count.exact) return contract.expr.nodes.empty() ? "" : "it has an expression";
        return check_expr(contract);
      },
      contract.family);
}

}  // namespace low
