#include "compiler/graph/expr.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace low {
namespace {

constexpr std::array table = {
    ExprOpInfo{ExprOp::input, "input", 0},
    ExprOpInfo{ExprOp::constant, "constant", 0},
    ExprOpInfo{ExprOp::convert, "convert", 1},
    ExprOpInfo{ExprOp::neg, "neg", 1},
    ExprOpInfo{ExprOp::abs, "abs", 1},
    ExprOpInfo{ExprOp::sqrt, "sqrt", 1},
    ExprOpInfo{ExprOp::exp, "exp", 1},
    ExprOpInfo{ExprOp::log, "log", 1},
    ExprOpInfo{ExprOp::erf, "erf", 1},
    ExprOpInfo{ExprOp::tanh, "tanh", 1},
    ExprOpInfo{ExprOp::sigmoid, "sigmoid", 1},
    ExprOpInfo{ExprOp::round_even, "round_even", 1},
    ExprOpInfo{ExprOp::floor, "floor", 1},
    ExprOpInfo{ExprOp::ceil, "ceil", 1},
    ExprOpInfo{ExprOp::sign, "sign", 1},
    ExprOpInfo{ExprOp::sin, "sin", 1},
    ExprOpInfo{ExprOp::cos, "cos", 1},
    ExprOpInfo{ExprOp::reciprocal, "reciprocal", 1},
    ExprOpInfo{ExprOp::logical_not, "logical_not", 1},
    ExprOpInfo{ExprOp::is_nan, "is_nan", 1},
    ExprOpInfo{ExprOp::add, "add", 2},
    ExprOpInfo{ExprOp::sub, "sub", 2},
    ExprOpInfo{ExprOp::mul, "mul", 2},
    ExprOpInfo{ExprOp::div, "div", 2},
    ExprOpInfo{ExprOp::pow, "pow", 2},
    ExprOpInfo{ExprOp::min, "min", 2},
    ExprOpInfo{ExprOp::max, "max", 2},
    ExprOpInfo{ExprOp::modulo, "modulo", 2},
    ExprOpInfo{ExprOp::equal, "equal", 2},
    ExprOpInfo{ExprOp::not_equal, "not_equal", 2},
    ExprOpInfo{ExprOp::less, "less", 2},
    ExprOpInfo{ExprOp::less_equal, "less_equal", 2},
    ExprOpInfo{ExprOp::greater, "greater", 2},
    ExprOpInfo{ExprOp::greater_equal, "greater_equal", 2},
    ExprOpInfo{ExprOp::logical_and, "logical_and", 2},
    ExprOpInfo{ExprOp::logical_or, "logical_or", 2},
    ExprOpInfo{ExprOp::logical_xor, "logical_xor", 2},
    ExprOpInfo{ExprOp::where, "where", 3},
    ExprOpInfo{ExprOp::bit_and, "bit_and", 2},
    ExprOpInfo{ExprOp::bit_or, "bit_or", 2},
    ExprOpInfo{ExprOp::bit_xor, "bit_xor", 2},
    ExprOpInfo{ExprOp::shift_left, "shift_left", 2},
    ExprOpInfo{ExprOp::shift_right, "shift_right", 2},
};

constexpr bool in_order() {
  for (size_t i = 0; i < table.size(); ++i) {
    if (static_cast<size_t>(table[i].op) != i) return false;
  }
  return table.size() == static_cast<size_t>(ExprOp::shift_right) + 1;
}
static_assert(in_order());

bool is_comparison(ExprOp op) { return op >= ExprOp::equal && op <= ExprOp::greater_equal; }
bool is_logical(ExprOp op) { return op >= ExprOp::logical_and && op <= ExprOp::logical_xor; }

// Whether `op` takes operands of `type` (not for input, constant, convert and where, which take all).
bool accepts(ExprOp op, DType type) {
  switch (op) {
    case ExprOp::neg:
    case ExprOp::abs:
    case ExprOp::sign:
    case ExprOp::add:
    case ExprOp::sub:
    case ExprOp::mul:
    case ExprOp::div:
    case ExprOp::pow:
    case ExprOp::min:
    case ExprOp::max:
    case ExprOp::modulo:
      return type != DType::boolean;
    case ExprOp::logical_not:
    case ExprOp::logical_and:
    case ExprOp::logical_or:
    case ExprOp::logical_xor:
      return type == DType::boolean;
    case ExprOp::bit_and:
    case ExprOp::bit_or:
    case ExprOp::bit_xor:
    case ExprOp::shift_left:
    case ExprOp::shift_right:
      return is_integer(type);
    default:
      return is_comparison(op) || is_float(type);
  }
}

DType result_of(ExprOp op, DType operand) {
  return is_comparison(op) || is_logical(op) || op == ExprOp::is_nan || op == ExprOp::logical_not ? DType::boolean
                                                                                                  : operand;
}

std::string node_error(const Expr& expr, size_t i, std::string_view what) {
  // Values of enums may be anything here: only names of known ones are looked up.
  const auto op = static_cast<size_t>(expr.nodes[i].op);
  return fmt::format("expression node t{} ({}): {}", i, op < table.size() ? table[op].name : "?", what);
}

// The violation of node i, or "".
std::string check_node(const Expr& expr, size_t i) {
  const ExprNode& node = expr.nodes[i];
  if (static_cast<size_t>(node.op) >= table.size()) return fmt::format("operation {}", static_cast<int>(node.op));
  if (static_cast<int>(node.dtype) >= dtype_count) return fmt::format("dtype {}", static_cast<int>(node.dtype));
  const int arity = info(node.op).arity;
  for (int j = 0; j < 3; ++j) {
    if (j < arity && node.operand[j] >= i) return fmt::format("operand t{} is not an earlier node", node.operand[j]);
    if (j >= arity && node.operand[j] != 0) return "an operand beyond its arity";
  }
  if (node.op != ExprOp::input && node.argument != 0) return "an argument";
  if (node.op != ExprOp::constant && node.literal != 0) return "a literal";
  if (node.op != ExprOp::convert && node.overflow != Overflow::propagate) return "an overflow mode";
  const auto type = [&](int j) { return expr.nodes[node.operand[j]].dtype; };
  switch (node.op) {
    case ExprOp::input:
      if (node.argument >= expr.inputs) {
        return fmt::format("input {} of an expression with {} inputs", node.argument, expr.inputs);
      }
      return "";
    case ExprOp::constant: {
      const size_t bytes = byte_size(node.dtype);
      if (bytes < 8 && node.literal >> (8 * bytes) != 0) return "a literal that is wider than its dtype";
      if (node.dtype == DType::boolean && node.literal > 1) return "a boolean literal that is not 0 or 1";
      return "";
    }
    case ExprOp::convert:
      return "";
    case ExprOp::where:
      if (type(0) != DType::boolean) return fmt::format("its condition is {}, not bool", name(type(0)));
      if (type(1) != node.dtype || type(2) != node.dtype) {
        return fmt::format("operands {} and {} for a result {}", name(type(1)), name(type(2)), name(node.dtype));
      }
      return "";
    default:
      break;
  }
  if (arity == 2 && type(0) != type(1)) return fmt::format("operands {} and {}", name(type(0)), name(type(1)));
  if (!accepts(node.op, type(0))) return fmt::format("an operand {}", name(type(0)));
  if (node.dtype != result_of(node.op, type(0))) return fmt::format("a result {}", name(node.dtype));
  return "";
}

}  // namespace

std::span<const ExprOpInfo> expr_ops() { return table; }
const ExprOpInfo& info(ExprOp op) { return table[static_cast<size_t>(op)]; }
std::optional<ExprOp> parse_expr_op(std::string_view text) {
  for (const ExprOpInfo& entry : table) {
    if (entry.name == text) return entry.op;
  }
  return std::nullopt;
}

uint16_t ExprBuilder::add(const ExprNode& node) {
  // A linear search: expressions have a few dozen nodes.
  const auto found = std::find(expr_.nodes.begin(), expr_.nodes.end(), node);
  if (found != expr_.nodes.end()) return static_cast<uint16_t>(found - expr_.nodes.begin());
  LOW_CHECK(expr_.nodes.size() < UINT16_MAX);
  expr_.nodes.push_back(node);
  return static_cast<uint16_t>(expr_.nodes.size() - 1);
}

uint16_t ExprBuilder::input(int argument, DType dtype) {
  return add({.op = ExprOp::input, .dtype = dtype, .argument = static_cast<uint16_t>(argument)});
}

uint16_t ExprBuilder::constant(DType dtype, double value) {
  // An expression of one conversion, so that there is one definition of the clamping and rounding.
  if (is_float(dtype)) return constant_bits(dtype, encode(dtype, value, Overflow::saturate));
  Expr expr;
  expr.nodes.push_back(
      {.op = ExprOp::constant, .dtype = DType::f64, .literal = encode(DType::f64, value, Overflow::saturate)});
  expr.nodes.push_back({.op = ExprOp::convert, .dtype = dtype});
  return constant_bits(dtype, evaluate(expr, {}));
}

uint16_t ExprBuilder::constant_bits(DType dtype, uint64_t bits) {
  return add({.op = ExprOp::constant, .dtype = dtype, .literal = bits});
}

uint16_t ExprBuilder::convert(uint16_t a, DType to, Overflow overflow) {
  if (dtype(a) == to) return a;
  return add({.op = ExprOp::convert, .dtype = to, .overflow = overflow, .operand = {a, 0, 0}});
}

uint16_t ExprBuilder::unary(ExprOp op, uint16_t a) {
  return add({.op = op, .dtype = result_of(op, dtype(a)), .operand = {a, 0, 0}});
}

uint16_t ExprBuilder::binary(ExprOp op, uint16_t a, uint16_t b) {
  return add({.op = op, .dtype = result_of(op, dtype(a)), .operand = {a, b, 0}});
}

uint16_t ExprBuilder::where(uint16_t condition, uint16_t a, uint16_t b) {
  return add({.op = ExprOp::where, .dtype = dtype(a), .operand = {condition, a, b}});
}

uint16_t ExprBuilder::inline_expr(const Expr& other, std::span<const uint16_t> arguments) {
  std::vector<uint16_t> map;
  map.reserve(other.nodes.size());
  for (ExprNode node : other.nodes) {
    if (node.op == ExprOp::input) {
      map.push_back(arguments[node.argument]);
      continue;
    }
    for (int j = 0; j < info(node.op).arity; ++j) node.operand[j] = map[node.operand[j]];
    map.push_back(add(node));
  }
  return map.back();
}

Expr ExprBuilder::finish(uint16_t result) && {
  // Post-order from the result, operands left to right: equal expressions come out equal, whatever the order of
  // building.
  constexpr uint16_t none = UINT16_MAX;
  std::vector<uint16_t> renamed(expr_.nodes.size(), none);
  struct Frame {
    uint16_t node;
    int next;
  };
  std::vector<Frame> stack = {{result, 0}};
  Expr out;
  out.inputs = expr_.inputs;
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const ExprNode& node = expr_.nodes[frame.node];
    if (frame.next < info(node.op).arity) {
      const uint16_t operand = node.operand[frame.next++];
      if (renamed[operand] == none) stack.push_back({operand, 0});
      continue;
    }
    if (renamed[frame.node] == none) {
      ExprNode copy = node;
      for (int j = 0; j < info(node.op).arity; ++j) copy.operand[j] = renamed[node.operand[j]];
      renamed[frame.node] = static_cast<uint16_t>(out.nodes.size());
      out.nodes.push_back(copy);
    }
    stack.pop_back();
  }
  return out;
}

Result<void> verify(const Expr& expr, std::string_view what) {
  const auto wrong = [&](std::string message) {
    return fail(ErrorKind::internal, fmt::format("{}: {}", what, message));
  };
  if (expr.nodes.empty()) return wrong("an expression without nodes");
  if (expr.nodes.size() > max_expression_nodes) {
    return wrong(
        fmt::format("an expression of {} nodes; at most {} are allowed", expr.nodes.size(), max_expression_nodes));
  }
  std::vector<bool> used(expr.nodes.size());
  std::vector<std::optional<DType>> input_types(expr.inputs);
  for (size_t i = 0; i < expr.nodes.size(); ++i) {
    if (const std::string error = check_node(expr, i); !error.empty()) return wrong(node_error(expr, i, error));
    const ExprNode& node = expr.nodes[i];
    for (int j = 0; j < info(node.op).arity; ++j) used[node.operand[j]] = true;
    if (node.op != ExprOp::input) continue;
    std::optional<DType>& type = input_types[node.argument];
    if (type && *type != node.dtype) {
      return wrong(node_error(
          expr, i, fmt::format("input {} is read as {} and {}", node.argument, name(*type), name(node.dtype))));
    }
    type = node.dtype;
  }
  for (size_t i = 0; i + 1 < expr.nodes.size(); ++i) {
    if (!used[i]) return wrong(node_error(expr, i, "no other node uses it, and it is not the result"));
  }
  return {};
}

}  // namespace low
