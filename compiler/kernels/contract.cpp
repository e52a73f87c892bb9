#include "compiler/kernels/contract.h"

#include <bit>
#include <concepts>

#include <fmt/format.h>

#include "compiler/base/hash.h"
#include "compiler/graph/graph.h"
#include "compiler/kernels/contract_fields.h"
#include "compiler/kernels/cost.h"

namespace low {
namespace {

// Adds each field that it is given.
struct FieldHash {
  WordHash& hash;

  template <typename T>
    requires(std::integral<T> || std::is_enum_v<T>)
  void operator()(std::string_view, T value) {
    hash.add(value);
  }
  template <typename Kind, typename Names>
  void operator()(std::string_view, Kind kind, const Names&) {
    hash.add(kind);
  }
  void operator()(std::string_view, double value) { hash.add(std::bit_cast<uint64_t>(value)); }
  void operator()(std::string_view, const Expr& expr) {
    hash.add(expr.inputs).add(expr.nodes.size());
    for (const ExprNode& node : expr.nodes) {
      hash.add(node.op).add(node.dtype).add(node.overflow).add(node.argument).add(node.literal).add_list(node.operand);
    }
  }
  void operator()(std::string_view, std::optional<int> value) { hash.add(value.has_value()).add(value.value_or(0)); }
  void operator()(std::string_view field, const std::optional<Expr>& expr) {
    hash.add(expr.has_value());
    if (expr) (*this)(field, *expr);
  }
  void operator()(std::string_view, const std::vector<OperandContract>& operands) {
    for (const OperandContract& operand : operands) hash.add(operand.dtype).add_list(operand.access);
  }
};

}  // namespace

KernelContract contract_over(KernelFamily family, std::span<const Type> operands, const Type& result) {
  KernelContract contract{.family = std::move(family)};
  for (const Type& operand : operands) contract.operands.push_back({operand.dtype, {}});
  contract.operands.push_back({result.dtype, {}});
  return contract;
}

KernelContract kernel_of(const Graph& graph, const Op& op) {
  std::vector<Type> operands;
  for (const ValueId operand : graph.operands(op)) operands.push_back(graph.type(operand));
  return std::visit(
      [&]<typename Kind>(const Kind& kind) -> KernelContract {
        if constexpr (requires { kernel_of(kind, std::span<const Type>(operands), operands[0]); }) {
          return kernel_of(kind, std::span<const Type>(operands), graph.type(graph.result(op)));
        } else {
          LOW_CHECK(false);
        }
      },
      op.attributes);
}

DType accumulation_type(DType element) { return is_float(element) && element != DType::f64 ? DType::f32 : element; }

std::string_view family_name(const KernelContract& contract) { return family_names[contract.family.index()]; }

uint64_t hash_of(const KernelContract& contract) {
  WordHash hash;
  hash.add(contract.family.index());
  visit_fields(contract, FieldHash{hash});
  return hash.result();
}

int iteration_rank(const KernelContract& contract) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { kernel.iteration_rank(contract); }) {
          return kernel.iteration_rank(contract);
        } else if constexpr (requires { kernel.iteration_rank; }) {
          return kernel.iteration_rank;
        } else {  // that of the first operand, or of a result alone
          return static_cast<int>(contract.operands.front().access.size());
        }
      },
      contract.family);
}

int inner_axes(const KernelContract& contract) {
  return std::visit(
      [](const auto& kernel) {
        if constexpr (requires { kernel.inner; }) {
          return kernel.inner;
        } else {
          return 0;
        }
      },
      contract.family);
}

Shape run_extents(const KernelContract& contract, std::span<const Shape> operands) {
  return std::visit([&](const auto& kernel) { return kernel.run_extents(operands); }, contract.family);
}

Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) {
  return std::visit([&](const auto& kernel) { return kernel.operand_extents(contract, extents, index); },
                    contract.family);
}

int64_t elements_that_count(const KernelContract& contract, const Shape& extents, size_t index) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { kernel.elements_that_count(contract, extents, index); }) {
          return kernel.elements_that_count(contract, extents, index);
        } else {
          return kernel.operand_extents(contract, extents, index).elements();
        }
      },
      contract.family);
}

Shape outer_extents(const KernelContract& contract, const Shape& extents) {
  return Shape(extents.extents().first(static_cast<size_t>(extents.rank() - inner_axes(contract))));
}

Shape inner_extents(const KernelContract& contract, const Shape& extents) {
  return Shape(extents.extents().last(static_cast<size_t>(inner_axes(contract))));
}

DType leading_type(const KernelContract& contract) {
  return std::visit(
      [](const auto& kernel) {
        if constexpr (requires { kernel.leading_type(); }) {
          return kernel.leading_type();
        } else if constexpr (requires { kernel.accumulate; }) {
          return kernel.accumulate;
        } else {
          return DType::f32;  // nothing leads
        }
      },
      contract.family);
}

ExprOperands expr_operands(const KernelContract& contract) {
  return std::visit(
      [](const auto& kernel) {
        if constexpr (requires { kernel.expr_operands(); }) {
          return kernel.expr_operands();
        } else {
          return ExprOperands{};
        }
      },
      contract.family);
}

size_t first_in_place(const KernelContract& contract) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { kernel.first_in_place(); }) {
          return kernel.first_in_place();
        } else {
          return contract.operands.size();  // none
        }
      },
      contract.family);
}

size_t picked_operand(const KernelContract& contract) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { kernel.picked_operand(); }) {
          return kernel.picked_operand();
        } else {
          return contract.operands.size();  // none
        }
      },
      contract.family);
}

double matrix_flop(const KernelContract& contract, const Shape& extents) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { kernel.matrix_flop(extents); }) {
          return kernel.matrix_flop(extents);
        } else {
          return 0.0;
        }
      },
      contract.family);
}

void configure(KernelContract& contract, const Shape& extents) {
  std::visit(
      [&](auto& kernel) {
        if constexpr (requires { kernel.configure(contract, extents); }) kernel.configure(contract, extents);
      },
      contract.family);
}

KernelWork work_of(const KernelContract& contract, const Shape& extents) {
  KernelWork work;
  std::visit([&](const auto& kernel) { kernel.add_work(work, contract, extents); }, contract.family);
  return work;
}

static std::string expr_problem(const KernelContract& contract) {
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

std::string problem(const KernelContract& contract) {
  return std::visit(
      [&](const auto& kernel) -> std::string {
        const OperandCount count = kernel.operand_count();
        const size_t operands = contract.operands.size();
        if (operands < count.least || (count.exact && operands > count.least))
          return fmt::format("{} operands, expected {}{}", operands, count.exact ? "" : "at least ", count.least);
        if (iteration_rank(contract) > max_rank)
          return fmt::format("{} axes, at most {}", iteration_rank(contract), max_rank);
        if constexpr (requires { kernel.axes_problem(contract); }) {
          if (std::string found = kernel.axes_problem(contract); !found.empty()) return found;
        }
        Shape extents;  // of the right rank
        for (int axis = 0; axis < iteration_rank(contract); ++axis) extents.append(1);
        for (size_t i = 0; i < operands; ++i) {
          const auto rank = static_cast<size_t>(operand_extents(contract, extents, i).rank());
          if (contract.operands[i].access.size() != rank)
            return fmt::format("operand {} has {} axes, expected {}", i, contract.operands[i].access.size(), rank);
        }
        if (std::string found = kernel.problem(contract); !found.empty()) return found;
        if (count.exact) return contract.expr.nodes.empty() ? "" : "it has an expression";
        return expr_problem(contract);
      },
      contract.family);
}

std::string run_problem(const KernelContract& contract, const Shape& extents) {
  return std::visit([&](const auto& kernel) { return kernel.run_problem(contract, extents); }, contract.family);
}

std::string out_of_range(const Shape& extents) {
  return fmt::format("extents {} are out of range", to_string(extents));
}

bool strided_both_ways(const OperandContract& matrix) {
  return matrix.access[0] == Access::strided && matrix.access[1] == Access::strided;
}

std::string unimplemented(const KernelContract& contract) {
  return std::visit(
      [](const auto& kernel) {
        if constexpr (requires { kernel.unimplemented(); }) {
          return kernel.unimplemented();
        } else {
          return std::string();
        }
      },
      contract.family);
}

bool gains_by_dots(const KernelContract& contract) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { kernel.gains_by_dots(contract); }) {
          return kernel.gains_by_dots(contract);
        } else {
          return false;
        }
      },
      contract.family);
}

uint64_t scratch_bytes(const KernelContract& contract, const Shape& extents, const device::Tiling& tiling) {
  return std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { kernel.scratch_bytes(contract, extents, tiling); }) {
          return kernel.scratch_bytes(contract, extents, tiling);
        } else {
          return uint64_t{0};
        }
      },
      contract.family);
}

}  // namespace low
