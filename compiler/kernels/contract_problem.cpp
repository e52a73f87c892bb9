#include <fmt/format.h>

#include <cmath>

#include "compiler/graph/graph.h"
#include "compiler/graph/kind_names.h"
#include "compiler/kernels/contract.h"

namespace low {
namespace {

bool accumulates(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 ||
         dtype == DType::u32 || dtype == DType::u64;
}

// Extents and `inner`, without which nothing else can be said.
std::string check_extents(const KernelContract& contract) {
  const int rank = contract.extents.rank();
  switch (contract.family) {
    case Family::gemm:
    case Family::pointwise:
      if (!checked_elements(contract.extents.extents())) break;
      if (contract.inner != 0) return fmt::format("{} has {} inner axes", name(contract.family), contract.inner);
      if (contract.family == Family::gemm && rank != 3)
        return fmt::format("gemm has extents {}, expected (m, n, k)", to_string(contract.extents));
      if (contract.family == Family::pointwise && rank == 0) return "pointwise has no axes";
      return "";
    case Family::reduce:
    case Family::rowwise:
    case Family::cumulative:
    case Family::gather: {
      const int fewest = contract.family == Family::gather ? 0 : 1;
      const int most = contract.family == Family::cumulative ? 1 : rank - 1;
      if (contract.inner < fewest || contract.inner > most || contract.inner >= rank) {
        return fmt::format("{} has {} inner axes of {}", name(contract.family), contract.inner, rank);
      }
      if (contract.family == Family::gather && rank - contract.inner == max_rank)
        return "gather has no room for an index";
      if (!checked_elements(outer_extents(contract).extents()) || !checked_elements(inner_extents(contract).extents()))
        break;
      if (contract.family != Family::gather && !checked_elements(contract.extents.extents())) break;
      return "";
    }
    case Family::attention: {
      if (rank != 4)
        return fmt::format("attention has extents {}, expected (m, n, d, dv)", to_string(contract.extents));
      if (contract.inner != 0) return fmt::format("attention has {} inner axes", contract.inner);
      const int64_t m = contract.extents[0], n = contract.extents[1], d = contract.extents[2], dv = contract.extents[3];
      if (m < 0 || n < 1 || d < 1 || dv < 1 || dv > INT64_MAX - 2) break;
      // Scores, rows of a state, and the operands.
      for (const Shape& shape : {Shape{m, n}, Shape{m, d}, Shape{n, d}, Shape{n, dv}, Shape{m, dv + 2}})
        if (!checked_elements(shape.extents()))
          return fmt::format("extents {} are out of range", to_string(contract.extents));
      return "";
    }
  }
  return fmt::format("extents {} are out of range", to_string(contract.extents));
}

std::string check_attention(const KernelContract& contract) {
  const DType sum = contract.accumulate;
  if (sum != DType::f32 && sum != DType::f64) return fmt::format("attention cannot accumulate in {}", name(sum));
  if (!is_float(contract.math) || (contract.math == DType::f64 && sum == DType::f32))
    return fmt::format("attention cannot multiply in {} and accumulate in {}", name(contract.math), name(sum));
  const KernelContract::AttentionKind& kind = contract.attention;
  if (!std::isfinite(kind.scale)) return "attention has a scale that is not finite";
  if (!std::isfinite(kind.softcap) || kind.softcap < 0) return "attention has a softcap that is negative or not finite";
  if (std::isnan(kind.masked_score) || kind.masked_score > max_finite(DType::f64))
    return fmt::format("attention has a masked_score of {}", kind.masked_score);
  const AttentionOperands known = attention_operands(contract);
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const DType dtype = contract.operands[i].dtype;
    if (i < 3 && !is_float(dtype))
      return fmt::format("attention has operand {} of {}, expected a float", i, name(dtype));
    if (i < 3) continue;
    if (i == known.mask && dtype != DType::boolean && !is_float(dtype))
      return fmt::format("attention has a mask of {}, expected bool or a float", name(dtype));
    if (i == known.diagonal && dtype != DType::i32)
      return fmt::format("attention has a diagonal of {}, expected i32", name(dtype));
    if ((i == known.state || (kind.partial && i + 1 == contract.operands.size())) && dtype != sum)
      return fmt::format("attention has a state of {}, expected {}", name(dtype), name(sum));
  }
  return "";
}

std::string check_family(const KernelContract& contract) {
  switch (contract.family) {
    case Family::gemm:
      if (contract.stage_k < 0) return fmt::format("stage_k is {}", contract.stage_k);
      if (!accumulates(contract.accumulate))
        return fmt::format("gemm cannot accumulate in {}", name(contract.accumulate));
      for (const DType math : {contract.math, contract.math_b}) {
        if (math == DType::boolean || is_float(math) != is_float(contract.accumulate) ||
            (math == DType::f64 && contract.accumulate == DType::f32))
          return fmt::format("gemm cannot multiply in {} and accumulate in {}", name(math), name(contract.accumulate));
      }
      return "";
    case Family::pointwise:
      return "";
    case Family::reduce: {
      if (contract.kind >= reduce_kinds.size()) return "reduce of an unknown kind";
      const DType sum = contract.accumulate;
      if (is_float(sum) && sum != DType::f32 && sum != DType::f64)
        return fmt::format("reduce cannot accumulate in {}", name(sum));
      if (leading_type(contract) != sum && (contract.inner != 1 || contract.extents[contract.extents.rank() - 1] == 0))
        return fmt::format("an index along {}", to_string(inner_extents(contract)));
      if (!contract.map) return "";
      if (contract.map->nodes.empty()) return "its map has no nodes";
      if (const auto verified = verify(*contract.map, "map"); !verified) return verified.error().message;
      if (contract.map->inputs != 1) return fmt::format("its map has {} inputs", contract.map->inputs);
      for (const ExprNode& node : contract.map->nodes) {
        if (node.op == ExprOp::input && node.dtype != contract.operands[0].dtype)
          return fmt::format("its map reads {}, the operand is {}", name(node.dtype), name(contract.operands[0].dtype));
      }
      if (contract.map->result_type() != sum)
        return fmt::format("its map gives {}, it accumulates in {}", name(contract.map->result_type()), name(sum));
      return "";
    }
    case Family::rowwise:
      if (contract.kind >= rowwise_kinds.size()) return "rowwise of an unknown kind";
      if (contract.accumulate != DType::f32 && contract.accumulate != DType::f64)
        return fmt::format("rowwise cannot compute in {}", name(contract.accumulate));
      return "";
    case Family::cumulative: {
      const DType sum = contract.accumulate;
      if (sum == DType::boolean || (is_float(sum) && sum != DType::f32 && sum != DType::f64))
        return fmt::format("cumulative cannot accumulate in {}", name(sum));
      return "";
    }
    case Family::gather:
      if (contract.operands[0].dtype != contract.operands[2].dtype) return "gather converts";
      if (contract.operands[1].dtype != DType::i32 && contract.operands[1].dtype != DType::i64)
        return fmt::format("gather has indices of {}", name(contract.operands[1].dtype));
      if (outer_extents(contract).elements() != 0 && inner_extents(contract).elements() == 0)
        return fmt::format("gather along {}", to_string(inner_extents(contract)));
      return "";
    case Family::attention:
      return check_attention(contract);
  }
  return "";
}

}  // namespace

std::string problem(const KernelContract& contract) {
  if (std::string found = check_extents(contract); !found.empty()) return found;
  const bool attention = contract.family == Family::attention;
  const bool plain = contract.family == Family::cumulative || contract.family == Family::gather ||
                     (attention && contract.attention.partial);
  const size_t minimum = attention ? attention_operands(contract).extras + 1
                         : contract.family == Family::gemm || contract.family == Family::gather ? 3
                         : contract.family == Family::pointwise                                 ? 1
                                                                                                : 2;
  if (contract.operands.size() < minimum || (plain && contract.operands.size() > minimum)) {
    return fmt::format("{} operands, expected {}{}", contract.operands.size(), plain ? "" : "at least ", minimum);
  }
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const auto rank = static_cast<size_t>(operand_extents(contract, i).rank());
    if (contract.operands[i].access.size() != rank) {
      return fmt::format("operand {} has {} axes, expected {}", i, contract.operands[i].access.size(), rank);
    }
  }
  if (std::string found = check_family(contract); !found.empty()) return found;
  if (plain) return contract.expr.nodes.empty() ? "" : "it has an expression";
  if (contract.expr.nodes.empty()) return "its expression has no nodes";
  if (const auto verified = verify(contract.expr, "expression"); !verified) return verified.error().message;
  const auto [leading, first] = expr_operands(contract);
  const size_t inputs = contract.operands.size() - 1 - first + leading;
  if (contract.expr.inputs != inputs) {
    return fmt::format("its expression has {} inputs, expected {}", contract.expr.inputs, inputs);
  }
  for (const ExprNode& node : contract.expr.nodes) {
    if (node.op != ExprOp::input) continue;
    const DType expected =
        node.argument < leading ? leading_type(contract) : contract.operands[node.argument - leading + first].dtype;
    if (node.dtype != expected) {
      return fmt::format("input {} of its expression is {}, the operand is {}", node.argument, name(node.dtype),
                         name(expected));
    }
  }
  if (contract.expr.result_type() != contract.operands.back().dtype) {
    return fmt::format("its expression gives {}, the result is {}", name(contract.expr.result_type()),
                       name(contract.operands.back().dtype));
  }
  return "";
}

}  // namespace low
