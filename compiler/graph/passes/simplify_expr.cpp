#include "compiler/graph/passes/simplify_expr.h"

#include <optional>

namespace low {
namespace {

// Significand bits (with the hidden one) and exponent range of a float format, or the bits of an integer.
struct Range {
  int precision;
  int lowest;   // exponent of the smallest subnormal
  int highest;  // exponent of the largest finite value
};

Range range_of(DType type) {
  switch (type) {
    case DType::f64:
      return {53, -1074, 1023};
    case DType::f32:
      return {24, -149, 127};
    case DType::f16:
      return {11, -24, 15};
    case DType::bf16:
      return {8, -133, 127};
    case DType::f8e4m3fn:
      return {4, -9, 8};
    case DType::f8e5m2:
      return {3, -16, 15};
    case DType::f8e4m3fnuz:
      return {4, -10, 7};
    case DType::f8e5m2fnuz:
      return {3, -17, 15};
    default:
      break;
  }
  if (type == DType::boolean) return {1, 0, 0};
  const int bits = 8 * static_cast<int>(byte_size(type)) - (is_signed_integer(type) ? 1 : 0);
  return {bits, 0, is_signed_integer(type) ? bits : bits - 1};  // -2^bits is there for signed ones
}

// Infinities and the sign of zero, which some FP8 formats lack.
bool has_infinity(DType type) { return type <= DType::bf16 || type == DType::f8e5m2; }
bool has_negative_zero(DType type) { return type != DType::f8e4m3fnuz && type != DType::f8e5m2fnuz; }

class Simplifier {
 public:
  explicit Simplifier(const Expr& expr) : expr_(expr), builder_(expr.inputs) {}

  Expr run() && {
    for (const ExprNode& node : expr_.nodes) map_.push_back(add(node));
    return std::move(builder_).finish(map_.back());
  }

 private:
  uint16_t add(const ExprNode& node) {
    const int arity = info(node.op).arity;
    uint16_t operands[3] = {0, 0, 0};
    bool constant = arity > 0;
    for (int j = 0; j < arity; ++j) {
      operands[j] = map_[node.operand[j]];
      constant = constant && literal(operands[j]).has_value();
    }
    if (constant) return evaluated(node, operands);
    const DType type = node.dtype;
    switch (node.op) {
      case ExprOp::convert: {
        const uint16_t a = operands[0];
        const auto* inner = node_of(a);
        if (inner != nullptr && inner->op == ExprOp::convert &&
            is_redundant_conversion(dtype(inner->operand[0]), inner->dtype, type)) {
          return push_convert(inner->operand[0], type, node.overflow);
        }
        if (const auto halved = half_of_twin(a, type, node.overflow)) return *halved;
        return push_convert(a, type, node.overflow);
      }
      case ExprOp::mul:
        if (is_value(operands[1], 1)) return operands[0];
        if (is_value(operands[0], 1)) return operands[1];
        break;
      case ExprOp::div:
        if (is_value(operands[1], 1)) return operands[0];
        break;
      case ExprOp::sub:
        if (is_positive_zero(operands[1])) return operands[0];
        break;
      case ExprOp::neg:
        if (const auto* inner = node_of(operands[0]); inner->op == ExprOp::neg) return inner->operand[0];
        break;
      case ExprOp::where:
        if (operands[1] == operands[2]) return operands[1];
        if (const std::optional<uint64_t> condition = literal(operands[0])) return operands[*condition != 0 ? 1 : 2];
        break;
      default:
        break;
    }
    return push(node, operands);
  }

  uint16_t push(ExprNode node, const uint16_t (&operands)[3]) {
    uint16_t id = 0;
    switch (info(node.op).arity) {
      case 0:
        id = node.op == ExprOp::input ? builder_.input(node.argument, node.dtype)
                                      : builder_.constant_bits(node.dtype, node.literal);
        break;
      case 1:
        id = builder_.unary(node.op, operands[0]);
        break;
      case 2:
        id = builder_.binary(node.op, operands[0], operands[1]);
        break;
      default:
        id = builder_.where(operands[0], operands[1], operands[2]);
    }
    for (int j = 0; j < 3; ++j) node.operand[j] = j < info(node.op).arity ? operands[j] : uint16_t{0};
    return record(id, node);
  }
  uint16_t push_convert(uint16_t a, DType to, Overflow overflow) {
    if (dtype(a) == to) return a;
    const uint16_t id = builder_.convert(a, to, overflow);
    return record(id, {.op = ExprOp::convert, .dtype = to, .overflow = overflow, .operand = {a, 0, 0}});
  }
  // The builder does not show its nodes: this keeps a copy beside it.
  uint16_t record(uint16_t id, const ExprNode& node) {
    if (id >= nodes_.size()) nodes_.resize(id + size_t{1});
    nodes_[id] = node;
    return id;
  }
  uint16_t evaluated(const ExprNode& node, const uint16_t (&operands)[3]) {
    Expr expr;
    ExprNode last = node;
    for (int j = 0; j < info(node.op).arity; ++j) {
      expr.nodes.push_back({.op = ExprOp::constant, .dtype = dtype(operands[j]), .literal = *literal(operands[j])});
      last.operand[j] = static_cast<uint16_t>(j);
    }
    expr.nodes.push_back(last);
    const uint64_t bits = evaluate(expr, {});
    return record(builder_.constant_bits(node.dtype, bits),
                  {.op = ExprOp::constant, .dtype = node.dtype, .literal = bits});
  }

  // To a FNUZ format of half of what was rounded to OCP's of as many digits: the half itself, within the other format's
  // range, is rounded to the same digits.
  std::optional<uint16_t> half_of_twin(uint16_t half, DType to, Overflow overflow) {
    const DType twin = to == DType::f8e4m3fnuz ? DType::f8e4m3fn : DType::f8e5m2;
    if ((to != DType::f8e4m3fnuz && to != DType::f8e5m2fnuz) || overflow != Overflow::saturate) return std::nullopt;
    const ExprNode mul = *node_of(half);
    if (mul.op != ExprOp::mul || mul.dtype != DType::f32) return std::nullopt;
    const bool second = literal(mul.operand[1]).has_value();
    const std::optional<uint64_t> factor = literal(mul.operand[second ? 1 : 0]);
    if (!factor || decode(DType::f32, *factor) != 0.5) return std::nullopt;
    const ExprNode widened = *node_of(mul.operand[second ? 0 : 1]);
    if (widened.op != ExprOp::convert || dtype(widened.operand[0]) != twin) return std::nullopt;
    const ExprNode rounded = *node_of(widened.operand[0]);
    if (rounded.op != ExprOp::convert || rounded.overflow != Overflow::saturate ||
        !is_exact_conversion(dtype(rounded.operand[0]), DType::f32))
      return std::nullopt;
    const uint16_t value = push_convert(rounded.operand[0], DType::f32, Overflow::propagate);
    const auto number = [&](double literal_value) {
      const uint64_t bits = encode(DType::f32, literal_value, Overflow::propagate);
      return record(builder_.constant_bits(DType::f32, bits),
                    {.op = ExprOp::constant, .dtype = DType::f32, .literal = bits});
    };
    const auto binary = [&](ExprOp op, uint16_t a, uint16_t b) {
      return record(builder_.binary(op, a, b), {.op = op, .dtype = DType::f32, .operand = {a, b, 0}});
    };
    const double most = max_finite(twin) / 2;
    const uint16_t all = binary(ExprOp::mul, value, number(0.5));
    return push_convert(binary(ExprOp::min, binary(ExprOp::max, all, number(-most)), number(most)), to, overflow);
  }

  const ExprNode* node_of(uint16_t id) const { return &nodes_[id]; }
  DType dtype(uint16_t id) const { return nodes_[id].dtype; }
  std::optional<uint64_t> literal(uint16_t id) const {
    return nodes_[id].op == ExprOp::constant ? std::optional(nodes_[id].literal) : std::nullopt;
  }
  bool is_value(uint16_t id, int value) const {
    const std::optional<uint64_t> bits = literal(id);
    if (!bits) return false;
    return is_float(dtype(id)) ? decode(dtype(id), *bits) == value : *bits == static_cast<uint64_t>(value);
  }
  bool is_positive_zero(uint16_t id) const { return literal(id) == uint64_t{0}; }

  const Expr& expr_;
  ExprBuilder builder_;
  std::vector<uint16_t> map_;    // old node -> new node
  std::vector<ExprNode> nodes_;  // the builder's nodes
};

}  // namespace

bool is_exact_conversion(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::boolean) return false;
  if (from == DType::boolean) return true;
  const Range a = range_of(from);
  const Range b = range_of(to);
  if (is_float(from)) {
    return is_float(to) && a.precision <= b.precision && a.lowest >= b.lowest && a.highest <= b.highest &&
           (has_infinity(to) || !has_infinity(from)) && (has_negative_zero(to) || !has_negative_zero(from)) &&
           !(is_fp8(from) && is_fp8(to));
  }
  if (is_float(to)) return a.precision <= b.precision && a.highest <= b.highest;
  if (is_signed_integer(from)) return is_signed_integer(to) && a.precision <= b.precision;
  return a.precision <= b.precision;
}

bool is_redundant_conversion(DType from, DType through, DType to) {
  if (!is_exact_conversion(from, through)) return false;
  // An integer that passes through a float is clamped to the last type; directly, it wraps.
  if (!is_float(from) && is_float(through) && !is_float(to) && to != DType::boolean) {
    return is_exact_conversion(from, to);
  }
  return true;
}

Expr simplify_expr(const Expr& expr) { return Simplifier(expr).run(); }

}  // namespace low
