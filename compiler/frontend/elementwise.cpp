// Element by element operators. Each becomes one `pointwise` with an expression that rounds once, at its end: composite
// functions of f16 and bf16 are computed in f32, so that nothing overflows on the way.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/frontend/importer.h"
#include "compiler/frontend/terms.h"

namespace low {
namespace {

// The formats that ONNX computes in: FP8 is for storage.
bool is_arithmetic(DType type) { return is_arithmetic_float(type) || is_integer(type); }

enum class Accepts { floats, numbers, signed_numbers, booleans, any_float };

bool accepts(Accepts what, DType type) {
  switch (what) {
    case Accepts::floats:
      return is_arithmetic_float(type);
    case Accepts::numbers:
      return is_arithmetic(type);
    case Accepts::signed_numbers:
      return is_arithmetic_float(type) || is_signed_integer(type);
    case Accepts::booleans:
      return type == DType::boolean;
    case Accepts::any_float:
      return is_float(type);
  }
  return false;
}

struct ScalarOperator {
  std::string_view name;
  ExprOp op;
  Accepts accepted;
};

constexpr ScalarOperator unary_operators[] = {
    {"Neg", ExprOp::neg, Accepts::signed_numbers},
    {"Abs", ExprOp::abs, Accepts::numbers},
    {"Sqrt", ExprOp::sqrt, Accepts::floats},
    {"Exp", ExprOp::exp, Accepts::floats},
    {"Log", ExprOp::log, Accepts::floats},
    {"Erf", ExprOp::erf, Accepts::floats},
    {"Tanh", ExprOp::tanh, Accepts::floats},
    {"Sigmoid", ExprOp::sigmoid, Accepts::floats},
    {"Reciprocal", ExprOp::reciprocal, Accepts::floats},
    {"Floor", ExprOp::floor, Accepts::floats},
    {"Ceil", ExprOp::ceil, Accepts::floats},
    {"Round", ExprOp::round_even, Accepts::floats},
    {"Sign", ExprOp::sign, Accepts::numbers},
    {"Sin", ExprOp::sin, Accepts::floats},
    {"Cos", ExprOp::cos, Accepts::floats},
    {"Not", ExprOp::logical_not, Accepts::booleans},
    {"IsNaN", ExprOp::is_nan, Accepts::any_float},
};

constexpr ScalarOperator binary_operators[] = {
    {"Add", ExprOp::add, Accepts::numbers},          {"Sub", ExprOp::sub, Accepts::numbers},
    {"Mul", ExprOp::mul, Accepts::numbers},          {"Div", ExprOp::div, Accepts::numbers},
    {"Mod", ExprOp::modulo, Accepts::numbers},       {"Equal", ExprOp::equal, Accepts::numbers},  // and booleans
    {"Less", ExprOp::less, Accepts::numbers},        {"LessOrEqual", ExprOp::less_equal, Accepts::numbers},
    {"Greater", ExprOp::greater, Accepts::numbers},  {"GreaterOrEqual", ExprOp::greater_equal, Accepts::numbers},
    {"And", ExprOp::logical_and, Accepts::booleans}, {"Or", ExprOp::logical_or, Accepts::booleans},
    {"Xor", ExprOp::logical_xor, Accepts::booleans}, {"Min", ExprOp::min, Accepts::numbers},
    {"Max", ExprOp::max, Accepts::numbers},
};

template <size_t n>
const ScalarOperator& lookup(const ScalarOperator (&table)[n], std::string_view name) {
  for (const ScalarOperator& entry : table) {
    if (entry.name == name) return entry;
  }
  LOW_CHECK(false);  // the table of operators names only these
}

// All inputs of one accepted dtype.
Result<void> check_types(const Node& node, Accepts accepted) {
  const ModelValue& first = node.input(0);
  if (!accepts(accepted, first.dtype())) {
    return node.invalid(fmt::format("input 0 is {}, which this operator does not take", to_string(first.type)));
  }
  for (int i = 1; i < node.input_count(); ++i) {
    if (!node.has(i)) return node.invalid(fmt::format("input {} is missing", i));
    if (node.input(i).dtype() != first.dtype()) {
      return node.invalid(fmt::format("inputs 0 and {} are {} and {}: their data types differ", i,
                                      to_string(first.type), to_string(node.input(i).type)));
    }
  }
  return {};
}

std::vector<ModelValue> all_inputs(const Node& node) {
  std::vector<ModelValue> values;
  for (int i = 0; i < node.input_count(); ++i) values.push_back(node.input(i));
  return values;
}

// A bound of Clip: a scalar, or one element, which older exporters write as [1].
Result<ModelValue> scalar_bound(Node& node, int i) {
  const ModelValue& bound = node.input(i);
  if (bound.dtype() != node.input(0).dtype() || bound.shape().elements() != 1) {
    return node.invalid(fmt::format("input {} is {}, a scalar of type {} is expected", i, to_string(bound.type),
                                    name(node.input(0).dtype())));
  }
  return node.emit().reshape(bound, Shape{});
}

Handled import_unary(Node& node) {
  const ScalarOperator& entry = lookup(unary_operators, node.op_type());
  LOW_TRY_VOID(check_types(node, entry.accepted));
  const DType type = node.input(0).dtype();
  if (entry.op == ExprOp::abs && is_unsigned_integer(type)) return std::vector{node.input(0)};
  ExprBuilder expr(1);
  uint16_t x = expr.input(0, type);
  if (is_fp8(type)) x = expr.convert(x, DType::f32);
  const uint16_t result = expr.unary(entry.op, x);
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

Handled import_binary(Node& node) {
  const ScalarOperator& entry = lookup(binary_operators, node.op_type());
  LOW_TRY_VOID(check_types(node, entry.accepted));
  const DType type = node.input(0).dtype();
  ExprBuilder expr(2);
  const uint16_t a = expr.input(0, type);
  const uint16_t b = expr.input(1, type);
  uint16_t result = expr.binary(entry.op, a, b);
  if (entry.op == ExprOp::modulo) {
    LOW_TRY(const int64_t fmod, node.integer("fmod", 0));
    if (fmod == 0 && is_float(type) && node.opset() < 28) {
      return node.invalid("fmod=0 is for integers only before opset 28");
    }
    if (fmod == 0 && !is_unsigned_integer(type)) {
      // The remainder has the divisor's sign: r + b where r is not 0 and its sign is not b's.
      const uint16_t zero = expr.constant(type, 0);
      const uint16_t negative_result = expr.binary(ExprOp::less, result, zero);
      const uint16_t negative_divisor = expr.binary(ExprOp::less, b, zero);
      const uint16_t differ = expr.binary(ExprOp::logical_xor, negative_result, negative_divisor);
      const uint16_t not_zero = expr.binary(ExprOp::not_equal, result, zero);
      const uint16_t adjust = expr.binary(ExprOp::logical_and, not_zero, differ);
      const uint16_t adjusted = expr.binary(ExprOp::add, result, b);
      const uint16_t remainder = result;
      result = expr.where(adjust, adjusted, remainder);
      if (is_float(type)) {
        // A zero has the divisor's sign, too.
        const uint16_t negative_zero = expr.constant(type, -0.0);
        const uint16_t signed_zero = expr.where(negative_divisor, negative_zero, zero);
        const uint16_t is_zero = expr.binary(ExprOp::equal, remainder, zero);
        result = expr.where(is_zero, signed_zero, result);
      }
    }
  }
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

Handled import_comparison(Node& node) {
  const ScalarOperator& entry = lookup(binary_operators, node.op_type());
  const bool booleans = entry.op == ExprOp::equal && node.input(0).dtype() == DType::boolean;
  LOW_TRY_VOID(check_types(node, booleans ? Accepts::booleans : entry.accepted));
  ExprBuilder expr(2);
  const DType type = node.input(0).dtype();
  const uint16_t a = expr.input(0, type);
  const uint16_t b = expr.input(1, type);
  const uint16_t result = expr.binary(entry.op, a, b);
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

Handled import_relu(Node& node) {
  LOW_TRY_VOID(check_types(node, Accepts::signed_numbers));
  const DType type = node.input(0).dtype();
  ExprBuilder expr(1);
  const uint16_t x = expr.input(0, type);
  const uint16_t result = expr.binary(ExprOp::max, x, expr.constant(type, 0));
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

// none: x/2 * (1 + erf(x / sqrt 2)); tanh: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
Handled import_gelu(Node& node) {
  LOW_TRY_VOID(check_types(node, Accepts::floats));
  LOW_TRY(const std::string approximate, node.text("approximate", "none"));
  if (approximate != "none" && approximate != "tanh") {
    return node.invalid(
        fmt::format("attribute approximate is {}, \"none\" or \"tanh\" is expected", in_quotes(approximate)));
  }
  const DType type = node.input(0).dtype();
  const DType compute = compute_type(type);
  ExprBuilder expr(1);
  const auto constant = [&](double value) { return expr.constant(compute, value); };
  const auto mul = [&](uint16_t a, uint16_t b) { return expr.binary(ExprOp::mul, a, b); };
  const auto add = [&](uint16_t a, uint16_t b) { return expr.binary(ExprOp::add, a, b); };
  const uint16_t x = expr.convert(expr.input(0, type), compute);
  // One statement a node: the order of nodes must not depend on the compiler's order of evaluation.
  uint16_t inner = 0;
  if (approximate == "tanh") {
    const uint16_t squared = mul(x, x);
    const uint16_t cubed = mul(squared, x);
    const uint16_t coefficient = constant(0.044715);
    const uint16_t scaled = mul(coefficient, cubed);
    const uint16_t sum = add(x, scaled);
    const uint16_t factor = constant(std::sqrt(2 / std::numbers::pi));
    const uint16_t argument = mul(factor, sum);
    inner = expr.unary(ExprOp::tanh, argument);
  } else {
    const uint16_t factor = constant(std::numbers::sqrt2 / 2);
    const uint16_t argument = mul(x, factor);
    inner = expr.unary(ExprOp::erf, argument);
  }
  const uint16_t half = constant(0.5);
  const uint16_t half_x = mul(half, x);
  const uint16_t unit = constant(1);
  const uint16_t weight = add(unit, inner);
  const uint16_t result = mul(half_x, weight);
  const uint16_t rounded = expr.convert(result, type);
  return one(node.emit().pointwise(std::move(expr).finish(rounded), all_inputs(node)));
}

// The result has the base's dtype. Integers to integers stay integers; everything else is computed in the wider of the
// two floats, f32 at least.
Handled import_pow(Node& node) {
  const DType base = node.input(0).dtype();
  const DType exponent = node.input(1).dtype();
  if (!is_arithmetic(base) || !is_arithmetic(exponent)) {
    return node.invalid(fmt::format("inputs are {} and {}, numbers are expected", to_string(node.input(0).type),
                                    to_string(node.input(1).type)));
  }
  DType compute = DType::f32;
  if (is_integer(base) && is_integer(exponent)) {
    // 64 bits hold any exponent; the wrapped result is the same.
    compute = is_signed_integer(base) || is_signed_integer(exponent) ? DType::i64 : DType::u64;
  } else if (base == DType::f64 || exponent == DType::f64 || base == DType::i64 || base == DType::u64 ||
             base == DType::i32 || base == DType::u32) {
    compute = DType::f64;  // 32-bit integers are not exact in f32
  }
  ExprBuilder expr(2);
  const uint16_t a = expr.convert(expr.input(0, base), compute);
  const uint16_t b = expr.convert(expr.input(1, exponent), compute);
  const uint16_t result = expr.convert(expr.binary(ExprOp::pow, a, b), base);
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

Handled import_min_max(Node& node) {
  constexpr int most_inputs = 1024;
  const ScalarOperator& entry = lookup(binary_operators, node.op_type());
  LOW_TRY_VOID(check_types(node, entry.accepted));
  if (node.input_count() > most_inputs)
    return node.unsupported(fmt::format("more than {} inputs are not supported", most_inputs));
  if (node.input_count() == 1) return std::vector{node.input(0)};
  const DType type = node.input(0).dtype();
  ExprBuilder expr(node.input_count());
  uint16_t result = expr.input(0, type);
  for (int i = 1; i < node.input_count(); ++i) result = expr.binary(entry.op, result, expr.input(i, type));
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

// Before opset 11 the bounds are attributes, by default the finite range of f32.
Handled import_clip_attributes(Node& node) {
  LOW_TRY_VOID(check_types(node, Accepts::floats));
  LOW_TRY(const float low, node.number("min", std::numeric_limits<float>::lowest()));
  LOW_TRY(const float high, node.number("max", std::numeric_limits<float>::max()));
  const DType type = node.input(0).dtype();
  ExprBuilder expr(1);
  const uint16_t x = expr.input(0, type);
  const uint16_t least = expr.constant(type, low);
  const uint16_t raised = expr.binary(ExprOp::max, x, least);
  const uint16_t most = expr.constant(type, high);
  const uint16_t result = expr.binary(ExprOp::min, raised, most);
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

// min(max(x, low), high): where low > high, the result is high.
Handled import_clip(Node& node) {
  const ModelValue x = node.input(0);
  if (!is_arithmetic(x.dtype())) {
    return node.invalid(fmt::format("input 0 is {}, numbers are expected", to_string(x.type)));
  }
  std::vector<ModelValue> operands{x};
  ExprBuilder expr(1 + (node.has(1) ? 1 : 0) + (node.has(2) ? 1 : 0));
  uint16_t result = expr.input(0, x.dtype());
  for (int i = 1; i <= 2; ++i) {
    if (!node.has(i)) continue;
    LOW_TRY(const ModelValue bound, scalar_bound(node, i));
    const uint16_t b = expr.input(static_cast<int>(operands.size()), x.dtype());
    result = expr.binary(i == 1 ? ExprOp::max : ExprOp::min, result, b);
    operands.push_back(bound);
  }
  if (operands.size() == 1) return operands;
  return one(node.emit().pointwise(std::move(expr).finish(result), operands));
}

Handled import_where(Node& node) {
  const DType type = node.input(1).dtype();
  if (node.input(0).dtype() != DType::boolean || node.input(2).dtype() != type) {
    return node.invalid(fmt::format("inputs are {}, {} and {}; a boolean and two of one data type are expected",
                                    to_string(node.input(0).type), to_string(node.input(1).type),
                                    to_string(node.input(2).type)));
  }
  ExprBuilder expr(3);
  const uint16_t condition = expr.input(0, DType::boolean);
  const uint16_t a = expr.input(1, type);
  const uint16_t b = expr.input(2, type);
  const uint16_t result = expr.where(condition, a, b);
  return one(node.emit().pointwise(std::move(expr).finish(result), all_inputs(node)));
}

bool is_fnuz(DType type) { return type == DType::f8e4m3fnuz || type == DType::f8e5m2fnuz; }

// Before opset 24 infinity saturates to NaN in the FNUZ formats, as Overflow::saturate has it; since then to the
// largest finite value. f32 (f64) holds the value and the bound exactly; what the clamp changes would have saturated.
Result<ModelValue> cast_clamped(Node& node, const ModelValue& x, DType to) {
  const DType compute = compute_type(x.dtype());
  ExprBuilder expr(1);
  const uint16_t value = expr.convert(expr.input(0, x.dtype()), compute);
  const uint16_t least = expr.constant(compute, -max_finite(to));
  const uint16_t raised = expr.binary(ExprOp::max, value, least);
  const uint16_t most = expr.constant(compute, max_finite(to));
  const uint16_t clamped = expr.binary(ExprOp::min, raised, most);
  const uint16_t result = expr.convert(clamped, to, Overflow::saturate);
  return node.emit().pointwise(std::move(expr).finish(result), std::span(&x, 1));
}

Handled cast_to(Node& node, DType to) {
  const ModelValue& x = node.input(0);
  LOW_TRY(const int64_t saturate, node.integer("saturate", 1));
  const bool saturates = is_fp8(to) && saturate != 0;
  if (saturates && is_fnuz(to) && is_float(x.dtype()) && x.dtype() != to && node.opset() >= 24) {
    return one(cast_clamped(node, x, to));
  }
  return one(node.emit().cast(x, to, saturates ? Overflow::saturate : Overflow::propagate));
}

Handled import_cast(Node& node) {
  LOW_TRY(const auto to, node.dtype("to"));
  if (!to) return node.invalid("attribute \"to\" is missing");
  return cast_to(node, *to);
}

Handled import_cast_like(Node& node) { return cast_to(node, node.input(1).dtype()); }

}  // namespace

std::span<const OperatorInfo> elementwise_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Abs", 6, 1, 1, 1, "", import_unary},
      {"", "Add", 7, 2, 2, 1, "", import_binary},
      {"", "And", 7, 2, 2, 1, "", import_binary},
      {"", "Cast", 6, 1, 1, 1, "to", import_cast},
      {"", "Cast", 19, 1, 1, 1, "to saturate", import_cast},
      {"", "Cast", 24, 1, 1, 1, "to saturate round_mode", import_cast},  // round_mode is for E8M0 alone
      {"", "CastLike", 15, 2, 2, 1, "", import_cast_like},
      {"", "CastLike", 19, 2, 2, 1, "saturate", import_cast_like},
      {"", "CastLike", 24, 2, 2, 1, "saturate round_mode", import_cast_like},
      {"", "Ceil", 6, 1, 1, 1, "", import_unary},
      {"", "Clip", 6, 1, 1, 1, "min max", import_clip_attributes},
      {"", "Clip", 11, 1, 3, 1, "", import_clip},
      {"", "Cos", 7, 1, 1, 1, "", import_unary},
      {"", "Div", 7, 2, 2, 1, "", import_binary},
      {"", "Equal", 7, 2, 2, 1, "", import_comparison},
      {"", "Erf", 9, 1, 1, 1, "", import_unary},
      {"", "Exp", 6, 1, 1, 1, "", import_unary},
      {"", "Floor", 6, 1, 1, 1, "", import_unary},
      {"", "Gelu", 20, 1, 1, 1, "approximate", import_gelu},
      {"", "Greater", 7, 2, 2, 1, "", import_comparison},
      {"", "GreaterOrEqual", 12, 2, 2, 1, "", import_comparison},
      {"", "IsNaN", 9, 1, 1, 1, "", import_unary},
      {"", "Less", 7, 2, 2, 1, "", import_comparison},
      {"", "LessOrEqual", 12, 2, 2, 1, "", import_comparison},
      {"", "Log", 6, 1, 1, 1, "", import_unary},
      {"", "Max", 6, 1, any_number, 1, "", import_min_max},
      {"", "Min", 6, 1, any_number, 1, "", import_min_max},
      {"", "Mod", 10, 2, 2, 1, "fmod", import_binary},
      {"", "Mul", 7, 2, 2, 1, "", import_binary},
      {"", "Neg", 6, 1, 1, 1, "", import_unary},
      {"", "Not", 1, 1, 1, 1, "", import_unary},
      {"", "Or", 7, 2, 2, 1, "", import_binary},
      {"", "Pow", 7, 2, 2, 1, "", import_pow},
      {"", "Reciprocal", 6, 1, 1, 1, "", import_unary},
      {"", "Relu", 6, 1, 1, 1, "", import_relu},
      {"", "Round", 11, 1, 1, 1, "", import_unary},
      {"", "Sigmoid", 6, 1, 1, 1, "", import_unary},
      {"", "Sign", 9, 1, 1, 1, "", import_unary},
      {"", "Sin", 7, 1, 1, 1, "", import_unary},
      {"", "Sqrt", 6, 1, 1, 1, "", import_unary},
      {"", "Sub", 7, 2, 2, 1, "", import_binary},
      {"", "Tanh", 6, 1, 1, 1, "", import_unary},
      {"", "Where", 9, 3, 3, 1, "", import_where},
      {"", "Xor", 7, 2, 2, 1, "", import_binary},
  };
  return rows;
}

}  // namespace low
