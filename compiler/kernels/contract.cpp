#include "compiler/kernels/contract.h"

#include <array>
#include <bit>

#include "compiler/base/hash.h"
#include "compiler/graph/graph.h"
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
  template <typename Names>
  void operator()(std::string_view, uint8_t kind, const Names&) {
    hash.add(kind);
  }
  void operator()(std::string_view, double value) { hash.add(std::bit_cast<uint64_t>(value)); }
  void operator()(std::string_view, const Shape& shape) { hash.add_list(shape); }
  void operator()(std::string_view, const Expr& expr) {
    hash.add(expr.inputs).add(expr.nodes.size());
    for (const ExprNode& node : expr.nodes) {
      hash.add(node.op).add(node.dtype).add(node.overflow).add(node.argument).add(node.literal).add_list(node.operand);
    }
  }
  void operator()(std::string_view field, const std::optional<Expr>& expr) {
    hash.add(expr.has_value());
    if (expr) (*this)(field, *expr);
  }
  void operator()(std::string_view, const std::vector<OperandContract>& operands) {
    for (const OperandContract& operand : operands) hash.add(operand.dtype).add_list(operand.access);
  }
};

}  // namespace

std::string_view name(Family family) { return family_names[static_cast<size_t>(family)]; }

uint64_t hash_of(const KernelContract& contract) {
  WordHash hash;
  hash.add(contract.family);
  visit_fields(contract, FieldHash{hash});
  return hash.result();
}

Shape outer_extents(const KernelContract& contract) {
  return Shape(contract.extents.extents().first(static_cast<size_t>(contract.extents.rank() - contract.inner)));
}

Shape inner_extents(const KernelContract& contract) {
  return Shape(contract.extents.extents().last(static_cast<size_t>(contract.inner)));
}

Shape operand_extents(const KernelContract& contract, size_t index) {
  const bool result = index + 1 == contract.operands.size();
  switch (contract.family) {
    case Family::gemm: {
      const int64_t m = contract.extents[0], n = contract.extents[1], k = contract.extents[2];
      return index == 0 ? Shape{m, k} : index == 1 ? Shape{k, n} : Shape{m, n};
    }
    case Family::reduce:
      return index == 0 ? contract.extents : outer_extents(contract);
    case Family::gather: {
      Shape extents = outer_extents(contract);
      if (result) return extents;
      if (index == 1) {
        extents.append(contract.inner);
        return extents;
      }
      const std::vector<Access>& access = contract.operands[index].access;
      for (int axis = 0; axis < extents.rank(); ++axis) {
        if (static_cast<size_t>(axis) < access.size() && access[static_cast<size_t>(axis)] == Access::broadcast)
          extents[axis] = 1;
      }
      for (const int64_t extent : inner_extents(contract)) extents.append(extent);
      return extents;
    }
    case Family::attention: {
      const int64_t m = contract.extents[0], n = contract.extents[1], d = contract.extents[2], dv = contract.extents[3];
      const AttentionOperands known = attention_operands(contract);
      if (index == 0) return Shape{m, d};
      if (index == 1) return Shape{n, d};
      if (index == 2) return Shape{n, dv};
      if (index == known.mask) return Shape{m, n};
      if (index == known.diagonal) return Shape{1};
      const bool state = index == known.state || (result && contract.attention.partial);
      return Shape{m, state ? dv + 2 : dv};
    }
    case Family::pointwise:
    case Family::rowwise:
    case Family::cumulative:
      break;
  }
  return contract.extents;
}

DType leading_type(const KernelContract& contract) {
  const bool index =
      contract.family == Family::reduce && (contract.kind == static_cast<uint8_t>(Reduce::Kind::index_max) ||
                                            contract.kind == static_cast<uint8_t>(Reduce::Kind::index_min));
  return index ? DType::i64 : contract.accumulate;
}

ExprOperands expr_operands(const KernelContract& contract) {
  switch (contract.family) {
    case Family::gemm:
      return {1, 2};
    case Family::reduce:
    case Family::rowwise:
      return {1, 1};
    case Family::attention:
      return {1, attention_operands(contract).extras};
    default:
      return {0, 0};
  }
}

AttentionOperands attention_operands(const KernelContract& contract) {
  AttentionOperands found;
  if (contract.attention.masked) found.mask = found.extras++;
  if (contract.attention.causal) found.diagonal = found.extras++;
  if (contract.attention.continues) found.state = found.extras++;
  return found;
}

double matrix_flop(const KernelContract& contract) {
  const auto extent = [&](int axis) { return static_cast<double>(contract.extents[axis]); };
  if (contract.family == Family::gemm) return 2 * extent(0) * extent(1) * extent(2);
  if (contract.family == Family::attention) return 2 * extent(0) * extent(1) * (extent(2) + extent(3));
  return 0;
}

}  // namespace low
