#include "compiler/kernels/contract.h"

#include <bit>
#include <concepts>

#include "compiler/base/hash.h"
#include "compiler/base/overloaded.h"
#include "compiler/kernels/contract_fields.h"

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

// --- Extents of a run from those of its operands, and the other way round

Shape extents_from(const GemmKernel&, std::span<const Shape> operands) {
  return {operands[0][0], operands[1][1], operands[0][1]};
}
Shape extents_from(const AttentionKernel& kernel, std::span<const Shape> operands) {
  return {operands[0][0], operands[1][0], kernel.d, kernel.dv};
}
Shape extents_from(const PointwiseKernel&, std::span<const Shape> operands) { return operands.back(); }
Shape extents_from(const ReduceKernel&, std::span<const Shape> operands) { return operands[0]; }
Shape extents_from(const RowwiseKernel&, std::span<const Shape> operands) { return operands[0]; }
Shape extents_from(const CumulativeKernel&, std::span<const Shape> operands) { return operands[0]; }
Shape extents_from(const GatherKernel& kernel, std::span<const Shape> operands) {
  Shape extents = operands.back();
  const Shape& data = operands[0];
  for (int axis = data.rank() - kernel.inner; axis < data.rank(); ++axis) extents.append(data[axis]);
  return extents;
}

Shape extents_of(const KernelContract&, const GemmKernel&, const Shape& extents, size_t index) {
  const int64_t m = extents[0], n = extents[1], k = extents[2];
  return index == 0 ? Shape{m, k} : index == 1 ? Shape{k, n} : Shape{m, n};
}
Shape extents_of(const KernelContract&, const PointwiseKernel&, const Shape& extents, size_t) { return extents; }
Shape extents_of(const KernelContract&, const RowwiseKernel&, const Shape& extents, size_t) { return extents; }
Shape extents_of(const KernelContract&, const CumulativeKernel&, const Shape& extents, size_t) { return extents; }
Shape extents_of(const KernelContract& contract, const ReduceKernel&, const Shape& extents, size_t index) {
  return index == 0 ? extents : outer_extents(contract, extents);
}
Shape extents_of(const KernelContract& contract, const GatherKernel& kernel, const Shape& run, size_t index) {
  Shape extents = outer_extents(contract, run);
  if (index + 1 == contract.operands.size()) return extents;
  if (index == 1) {
    extents.append(kernel.inner);
    return extents;
  }
  const std::vector<Access>& access = contract.operands[index].access;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    if (static_cast<size_t>(axis) < access.size() && access[static_cast<size_t>(axis)] == Access::broadcast)
      extents[axis] = 1;
  }
  for (const int64_t extent : inner_extents(contract, run)) extents.append(extent);
  return extents;
}
Shape extents_of(const KernelContract& contract, const AttentionKernel& kernel, const Shape& extents, size_t index) {
  const int64_t m = extents[0], n = extents[1], d = extents[2], dv = extents[3];
  const AttentionOperands known = attention_operands(kernel);
  if (index == 0) return Shape{m, d};
  if (index == 1) return Shape{n, d};
  if (index == 2) return Shape{n, dv};
  if (index == known.mask) return Shape{m, n};
  if (index == known.diagonal) return Shape{1};
  const bool state = index == known.state || (index + 1 == contract.operands.size() && kernel.partial);
  return Shape{m, state ? dv + 2 : dv};
}

}  // namespace

std::string_view family_name(const KernelContract& contract) { return family_names[contract.family.index()]; }

uint64_t hash_of(const KernelContract& contract) {
  WordHash hash;
  hash.add(contract.family.index());
  visit_fields(contract, FieldHash{hash});
  return hash.result();
}

int iteration_rank(const KernelContract& contract) {
  if (contract.is<GemmKernel>()) return 3;
  if (contract.is<AttentionKernel>()) return 4;
  const OperandContract& whole = contract.is<PointwiseKernel>() ? contract.operands.back() : contract.operands.front();
  return static_cast<int>(whole.access.size());
}

Shape run_extents(const KernelContract& contract, std::span<const Shape> operands) {
  return std::visit([&](const auto& kernel) { return extents_from(kernel, operands); }, contract.family);
}

Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) {
  return std::visit([&](const auto& kernel) { return extents_of(contract, kernel, extents, index); }, contract.family);
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

Shape outer_extents(const KernelContract& contract, const Shape& extents) {
  return Shape(extents.extents().first(static_cast<size_t>(extents.rank() - inner_axes(contract))));
}

Shape inner_extents(const KernelContract& contract, const Shape& extents) {
  return Shape(extents.extents().last(static_cast<size_t>(inner_axes(contract))));
}

DType leading_type(const KernelContract& contract) {
  return std::visit(
      Overloaded{[](const ReduceKernel& kernel) { return kernel.is_index() ? DType::i64 : kernel.accumulate; },
                 [](const auto& kernel) {
                   if constexpr (requires { kernel.accumulate; }) {
                     return kernel.accumulate;
                   } else {
                     return DType::f32;  // nothing leads
                   }
                 }},
      contract.family);
}

ExprOperands expr_operands(const KernelContract& contract) {
  return std::visit(
      Overloaded{
          [](const GemmKernel&) { return ExprOperands{1, 2}; }, [](const ReduceKernel&) { return ExprOperands{1, 1}; },
          [](const RowwiseKernel&) { return ExprOperands{1, 1}; },
          [](const AttentionKernel& kernel) { return ExprOperands{1, attention_operands(kernel).extras}; },
          [](const PointwiseKernel&) { return ExprOperands{}; }, [](const CumulativeKernel&) { return ExprOperands{}; },
          [](const GatherKernel&) { return ExprOperands{}; }},
      contract.family);
}

AttentionOperands attention_operands(const AttentionKernel& kernel) {
  AttentionOperands found;
  if (kernel.masked) found.mask = found.extras++;
  if (kernel.causal) found.diagonal = found.extras++;
  if (kernel.continues) found.state = found.extras++;
  return found;
}

size_t first_in_place(const KernelContract& contract) {
  const size_t none = contract.operands.size();
  return std::visit(
      Overloaded{[](const PointwiseKernel&) { return size_t{0}; }, [](const RowwiseKernel&) { return size_t{0}; },
                 [](const GemmKernel&) { return size_t{2}; },
                 [](const AttentionKernel& kernel) {
                   const AttentionOperands known = attention_operands(kernel);
                   return known.state > 0 ? known.state : known.extras;
                 },
                 [&](const ReduceKernel&) { return none; }, [&](const CumulativeKernel&) { return none; },
                 [&](const GatherKernel&) { return none; }},
      contract.family);
}

double matrix_flop(const KernelContract& contract, const Shape& extents) {
  const auto extent = [&](int axis) { return static_cast<double>(extents[axis]); };
  if (contract.is<GemmKernel>()) return 2 * extent(0) * extent(1) * extent(2);
  if (contract.is<AttentionKernel>()) return 2 * extent(0) * extent(1) * (extent(2) + extent(3));
  return 0;
}

}  // namespace low
