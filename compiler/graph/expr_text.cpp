// Text of expressions: "t0 = input.f32 0; t1 = constant.f32 0x1p+1; t2 = mul.f32 t0 t1". A leading "inputs N;" is
// printed when the last inputs are not read. The dtype is the node's own; `convert` may end in "saturate".
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "compiler/graph/expr.h"
#include "compiler/graph/literal_text.h"

namespace low {
namespace {

int read_inputs(const Expr& expr) {
  int count = 0;
  for (const ExprNode& node : expr.nodes) {
    if (node.op == ExprOp::input) count = std::max(count, node.argument + 1);
  }
  return count;
}

// Splits off the text before the first `separator` (all of it when there is none) and trims spaces.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  while (part.starts_with(' ')) part.remove_prefix(1);
  while (part.ends_with(' ')) part.remove_suffix(1);
  return part;
}

std::string_view take_word(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  return take(text, ' ');
}

// "t12" -> 12, below `limit`.
std::optional<uint16_t> parse_node(std::string_view text, size_t limit) {
  if (!text.starts_with('t')) return std::nullopt;
  const std::optional<int64_t> index = parse_integer(text.substr(1));
  if (!index || *index < 0 || static_cast<size_t>(*index) >= limit) return std::nullopt;
  return static_cast<uint16_t>(*index);
}

// One "t3 = add.f32 t0 t1" as node `i`, or what is wrong with it.
std::string parse_statement(std::string_view text, size_t i, ExprNode& node) {
  if (take_word(text) != fmt::format("t{}", i)) return "expected its number";
  if (take_word(text) != "=") return "expected '='";
  const std::string_view operation = take_word(text);
  const size_t dot = operation.find('.');
  if (dot == std::string_view::npos) return "expected operation.dtype";
  const std::optional<ExprOp> op = parse_expr_op(operation.substr(0, dot));
  const std::optional<DType> dtype = parse_dtype(operation.substr(dot + 1));
  if (!op) return "unknown operation";
  if (!dtype) return "unknown dtype";
  node.op = *op;
  node.dtype = *dtype;
  if (*op == ExprOp::input) {
    const std::optional<int64_t> argument = parse_integer(take_word(text));
    if (!argument || *argument < 0 || *argument >= UINT16_MAX) return "expected an input's number";
    node.argument = static_cast<uint16_t>(*argument);
  } else if (*op == ExprOp::constant) {
    const std::optional<uint64_t> literal = parse_literal(*dtype, take_word(text));
    if (!literal) return "expected a literal of its dtype";
    node.literal = *literal;
  } else {
    for (int j = 0; j < info(*op).arity; ++j) {
      const std::optional<uint16_t> operand = parse_node(take_word(text), i);
      if (!operand) return "expected an earlier node";
      node.operand[j] = *operand;
    }
    if (const std::string_view mode = take_word(text); mode == "saturate" && *op == ExprOp::convert) {
      node.overflow = Overflow::saturate;
    } else if (!mode.empty()) {
      return "unexpected text at its end";
    }
  }
  return take_word(text).empty() ? "" : "unexpected text at its end";
}

}  // namespace

std::string to_string(const Expr& expr) {
  std::string out;
  if (read_inputs(expr) != expr.inputs) out += fmt::format("inputs {}; ", expr.inputs);
  for (size_t i = 0; i < expr.nodes.size(); ++i) {
    const ExprNode& node = expr.nodes[i];
    out += fmt::format("{}t{} = {}.{}", i == 0 ? "" : "; ", i, info(node.op).name, name(node.dtype));
    if (node.op == ExprOp::input) out += fmt::format(" {}", node.argument);
    if (node.op == ExprOp::constant) {
      out += " " + literal_to_string(node.dtype, node.literal, LiteralStyle::hexadecimal);
    }
    for (int j = 0; j < info(node.op).arity; ++j) out += fmt::format(" t{}", node.operand[j]);
    if (node.overflow == Overflow::saturate) out += " saturate";
  }
  return out;
}

Result<Expr> parse_expr(std::string_view text) {
  Expr expr;
  std::optional<uint16_t> inputs;
  while (!text.empty()) {
    std::string_view statement = take(text, ';');
    if (statement.starts_with("inputs ") && expr.nodes.empty() && !inputs) {
      statement.remove_prefix(7);
      const std::optional<int64_t> count = parse_integer(statement);
      if (!count || *count < 0 || *count > UINT16_MAX)
        return fail(ErrorKind::invalid, "expression: bad number of inputs");
      inputs = static_cast<uint16_t>(*count);
      continue;
    }
    const size_t i = expr.nodes.size();
    if (i >= max_expression_nodes)
      return fail(ErrorKind::invalid, fmt::format("expression: more than {} nodes", max_expression_nodes));
    ExprNode node;
    if (const std::string error = parse_statement(statement, i, node); !error.empty()) {
      return fail(ErrorKind::invalid, fmt::format("expression statement {}: {}", i, error));
    }
    expr.nodes.push_back(node);
  }
  expr.inputs = inputs ? *inputs : static_cast<uint16_t>(read_inputs(expr));
  if (const Result<void> verified = verify(expr, "parsed expression"); !verified) {
    return fail(ErrorKind::invalid, verified.error().message);
  }
  return expr;
}

}  // namespace low
