#include "compiler/codegen/emit_expr.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

namespace low {
namespace {

// A literal whose value is exactly the element's.
std::string literal(DType type, uint64_t bits) {
  if (type == DType::boolean) return bits != 0 ? "true" : "false";
  if (type == DType::f32 || type == DType::f64) {
    const double value = decode(type, bits);
    const char* const suffix = type == DType::f32 ? "f" : "";
    if (std::isfinite(value)) return fmt::format("{}{:a}{}", std::signbit(value) ? "-" : "", std::abs(value), suffix);
    if (type == DType::f32) return fmt::format("bits_as<f32>(u32{{{:#x}u}})", bits);
    return fmt::format("bits_as<f64>(u64{{{:#x}ull}})", bits);
  }
  if (is_float(type)) return fmt::format("{}{{{:#x}}}", name(type), bits);
  if (is_signed_integer(type)) {
    const int shift = 64 - 8 * static_cast<int>(byte_size(type));
    const int64_t value = static_cast<int64_t>(bits << shift) >> shift;
    if (value == INT64_MIN) return "i64{-0x7fffffffffffffffll - 1}";
    return fmt::format("{}{{{}{}}}", name(type), value, byte_size(type) == 8 ? "ll" : "");
  }
  return fmt::format("{}{{{}{}}}", name(type), bits, byte_size(type) == 8 ? "ull" : "u");
}

}  // namespace

std::string_view storage_type(DType type) { return type == DType::boolean ? "boolean" : name(type); }
std::string_view value_type(DType type) { return type == DType::boolean ? "bool" : name(type); }

std::string emit_expr(const Expr& expr, std::span<const std::string> inputs) {
  const auto operand = [&](const ExprNode& node, int j) {
    const uint16_t index = node.operand[j];
    const ExprNode& from = expr.nodes[index];
    if (from.op == ExprOp::input) return inputs[from.argument];
    if (from.op == ExprOp::constant) return literal(from.dtype, from.literal);
    return fmt::format("t{}", index);
  };
  const auto value = [&](const ExprNode& node) -> std::string {
    switch (node.op) {
      case ExprOp::input:
        return inputs[node.argument];
      case ExprOp::constant:
        return literal(node.dtype, node.literal);
      case ExprOp::convert:
        return fmt::format("convert<{}{}>({})", value_type(node.dtype),
                           node.overflow == Overflow::saturate ? ", Overflow::saturate" : "", operand(node, 0));
      case ExprOp::pow: {
        // x^2 and x^3 are frequent (the tanh form of GELU), and products are as exact.
        const ExprNode& exponent = expr.nodes[node.operand[1]];
        if (exponent.op != ExprOp::constant || (node.dtype != DType::f32 && node.dtype != DType::f64)) break;
        const double power = decode(exponent.dtype, exponent.literal);
        if (power == 2) return fmt::format("square({})", operand(node, 0));
        if (power == 3) return fmt::format("cube({})", operand(node, 0));
        break;
      }
      default:
        break;
    }
    std::string text = fmt::format("{}(", info(node.op).name);
    for (int j = 0; j < info(node.op).arity; ++j) {
      if (j > 0) text += ", ";
      text += operand(node, j);
    }
    return text + ")";
  };
  std::string text;
  for (size_t i = 0; i < expr.nodes.size(); ++i) {
    const ExprNode& node = expr.nodes[i];
    if (i + 1 == expr.nodes.size()) {
      text += fmt::format("    return {};\n", value(node));
    } else if (node.op != ExprOp::input && node.op != ExprOp::constant) {
      text += fmt::format("    const {} t{} = {};\n", value_type(node.dtype), i, value(node));
    }
  }
  return text;
}

}  // namespace low
