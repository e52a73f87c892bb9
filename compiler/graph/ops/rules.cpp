#include "compiler/graph/ops/rules.h"

#include <fmt/format.h>

namespace low {

std::string to_string(const Type& type) { return fmt::format("{}{}", name(type.dtype), to_string(type.shape)); }

std::string OpTypes::counts(size_t least, size_t most, size_t expected) const {
  if (operands.size() < least || operands.size() > most) {
    return fmt::format("{} operands; {} are needed", operands.size(),
                       least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most));
  }
  if (this->results.size() != expected) return fmt::format("{} results; {} are needed", this->results.size(), expected);
  return "";
}

std::string OpTypes::expect(const Type& type) const {
  if (result() == type) return "";
  return fmt::format("its result is {}; {} was expected", to_string(result()), to_string(type));
}

std::string OpTypes::broadcasts(size_t i) const {
  const std::optional<Shape> joined = broadcast(operand(i).shape, result().shape);
  if (joined && *joined == result().shape) return "";
  return fmt::format("operand {} {} does not broadcast to {}", i, to_string(operand(i)), to_string(result()));
}

std::string OpTypes::expression(const Expr& expr, std::span<const DType> inputs, DType gives) const {
  if (const Result<void> verified = verify(expr, "expression"); !verified) return verified.error().message;
  if (expr.inputs != inputs.size()) {
    return fmt::format("its expression has {} inputs; {} are given", expr.inputs, inputs.size());
  }
  for (const ExprNode& node : expr.nodes) {
    if (node.op == ExprOp::input && node.dtype != inputs[node.argument]) {
      return fmt::format("its expression reads input {} as {}; it is {}", node.argument, name(node.dtype),
                         name(inputs[node.argument]));
    }
  }
  if (expr.result_type() != gives) {
    return fmt::format("its expression gives {}; {} is needed", name(expr.result_type()), name(gives));
  }
  return "";
}

std::string OpTypes::epilogue(const std::optional<Expr>& expr, DType accumulator, size_t first) const {
  if (!expr) return "";
  std::vector<DType> inputs = {accumulator};
  for (size_t i = first; i < operands.size(); ++i) {
    if (std::string error = broadcasts(i); !error.empty()) return error;
    inputs.push_back(operand(i).dtype);
  }
  return expression(*expr, inputs, result().dtype);
}

bool are_axes(const Shape& axes, int rank) {
  int64_t last = -1;
  for (const int64_t axis : axes) {
    if (axis <= last || axis >= rank) return false;
    last = axis;
  }
  return true;
}

std::optional<Shape> shape_of(std::span<const int64_t> extents) {
  if (extents.size() > static_cast<size_t>(max_rank) || !checked_elements(extents)) return std::nullopt;
  return Shape(extents);
}

}  // namespace low
