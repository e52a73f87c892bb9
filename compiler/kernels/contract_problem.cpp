#include <fmt/format.h>

#include <cmath>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/data/tiling.h"

namespace low {
namespace {

bool accumulates(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 ||
         dtype == DType::u32 || dtype == DType::u64;
}

// --- Axes, without which nothing else can be said

// Outer and inner axes: at least `fewest` inner ones and one outer one.
std::string check_split(const KernelContract& contract, int fewest) {
  const int inner = inner_axes(contract), rank = iteration_rank(contract);
  if (inner < fewest || inner >= rank)
    return fmt::format("{} has {} inner axes of {}", family_name(contract), inner, rank);
  return "";
}
// Groups side by side, where x is contiguous.
std::string check_columns(const KernelContract& contract, std::optional<int> columns) {
  if (std::string found = check_split(contract, 1); !found.empty()) return found;
  const int outer = iteration_rank(contract) - inner_axes(contract);
  const OperandContract& x = contract.operands[0];
  if (columns && (*columns < 0 || *columns >= outer || x.access[static_cast<size_t>(*columns)] != Access::unit)) {
    return fmt::format("{} goes along columns of axis {}, where its operand is not contiguous", family_name(contract),
                       *columns);
  }
  return "";
}
std::string check_axes(const KernelContract&, const GemmKernel&) { return ""; }
std::string check_axes(const KernelContract&, const AttentionKernel&) { return ""; }
std::string check_axes(const KernelContract& contract, const PointwiseKernel&) {
  return iteration_rank(contract) == 0 ? "pointwise has no axes" : "";
}
std::string check_axes(const KernelContract& contract, const ReduceKernel& kernel) {
  return check_columns(contract, kernel.columns);
}
std::string check_axes(const KernelContract& contract, const RowwiseKernel& kernel) {
  return check_columns(contract, kernel.columns);
}
std::string check_axes(const KernelContract& contract, const CumulativeKernel& kernel) {
  return check_columns(contract, kernel.columns);
}
std::string check_axes(const KernelContract& contract, const GatherKernel& kernel) {
  const int rank = iteration_rank(contract);
  if (kernel.inner >= 0 && rank - kernel.inner == max_rank) return "gather has no room for an index";
  return check_split(contract, 0);
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
  if (kernel.is_index() && kernel.inner != 1) return fmt::format("an index along {} axes", kernel.inner);
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
  return "";
}

std::string check(const KernelContract& contract, const AttentionKernel& kernel) {
  const DType sum = kernel.accumulate;
  if (kernel.d < 1 || kernel.dv < 1 || kernel.dv > INT64_MAX - 2)
    return fmt::format("attention has head sizes {} and {}", kernel.d, kernel.dv);
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

// --- A run

std::string out_of_range(const Shape& extents) {
  return fmt::format("extents {} are out of range", to_string(extents));
}

std::string check_run(const KernelContract&, const GemmKernel& kernel, const Shape& extents) {
  if (!checked_elements(extents.extents())) return out_of_range(extents);
  if (!kernel.rows) return "";
  if (extents[0] != *kernel.rows) return fmt::format("{} rows, the kernel has {}", extents[0], *kernel.rows);
  if (extents[1] < device::least_unrolled_columns || extents[2] < 1)
    return fmt::format("extents {} of a kernel for few rows", to_string(extents));
  return "";
}
std::string check_run(const KernelContract&, const AttentionKernel& kernel, const Shape& extents) {
  const int64_t m = extents[0], n = extents[1], d = kernel.d, dv = kernel.dv;
  if (m < 0 || n < 1) return out_of_range(extents);
  // Scores, rows of a state, and the operands.
  for (const Shape& shape : {Shape{m, n}, Shape{m, d}, Shape{n, d}, Shape{n, dv}, Shape{m, dv + 2}})
    if (!checked_elements(shape.extents())) return out_of_range(extents);
  return "";
}
std::string check_run(const KernelContract&, const PointwiseKernel&, const Shape& extents) {
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}
std::string check_run(const KernelContract& contract, const ReduceKernel& kernel, const Shape& extents) {
  if (kernel.is_index() && extents[extents.rank() - 1] == 0)
    return fmt::format("an index along {}", to_string(inner_extents(contract, extents)));
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}
std::string check_run(const KernelContract&, const RowwiseKernel&, const Shape& extents) {
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}
std::string check_run(const KernelContract&, const CumulativeKernel&, const Shape& extents) {
  return checked_elements(extents.extents()) ? "" : out_of_range(extents);
}
std::string check_run(const KernelContract& contract, const GatherKernel&, const Shape& extents) {
  const Shape outer = outer_extents(contract, extents), inner = inner_extents(contract, extents);
  if (!checked_elements(outer.extents()) || !checked_elements(inner.extents())) return out_of_range(extents);
  if (outer.elements() != 0 && inner.elements() == 0) return fmt::format("gather along {}", to_string(inner));
  return "";
}

}  // namespace

std::string problem(const KernelContract& contract) {
  return std::visit(
      [&](const auto& kernel) -> std::string {
        const OperandCount count = operand_count(kernel);
        const size_t operands = contract.operands.size();
        if (operands < count.least || (count.exact && operands > count.least))
          return fmt::format("{} operands, expected {}{}", operands, count.exact ? "" : "at least ", count.least);
        if (iteration_rank(contract) > max_rank)
          return fmt::format("{} axes, at most {}", iteration_rank(contract), max_rank);
        if (std::string found = check_axes(contract, kernel); !found.empty()) return found;
        Shape extents;  // of the right rank
        for (int axis = 0; axis < iteration_rank(contract); ++axis) extents.append(1);
        for (size_t i = 0; i < operands; ++i) {
          const auto rank = static_cast<size_t>(operand_extents(contract, extents, i).rank());
          if (contract.operands[i].access.size() != rank)
            return fmt::format("operand {} has {} axes, expected {}", i, contract.operands[i].access.size(), rank);
        }
        if (std::string found = check(contract, kernel); !found.empty()) return found;
        if (count.exact) return contract.expr.nodes.empty() ? "" : "it has an expression";
        return check_expr(contract);
      },
      contract.family);
}

std::string run_problem(const KernelContract& contract, const Shape& extents) {
  return std::visit([&](const auto& kernel) { return check_run(contract, kernel, extents); }, contract.family);
}

}  // namespace low
