// Element by element operators that are formulas: activations, hyperbolic and inverse functions, sums of many inputs,
// bits.
#include <fmt/format.h>

#include <limits>

#include "compiler/frontend/importer.h"
#include "compiler/frontend/terms.h"

namespace low {
namespace {

Result<void> check_float(const Node& node) {
  if (is_arithmetic_float(node.input(0).dtype())) return {};
  return node.invalid(fmt::format("input 0 is {}, f16, bf16, f32 or f64 is expected", to_string(node.input(0).type)));
}

// Inputs of one type, which `accepted` takes.
Result<std::vector<ModelValue>> inputs_of_one_type(const Node& node, bool (*accepted)(DType)) {
  std::vector<ModelValue> values;
  for (int i = 0; i < node.input_count(); ++i) {
    if (!node.has(i)) return node.invalid(fmt::format("input {} is missing", i));
    values.push_back(node.input(i));
    if (!accepted(values[0].dtype())) {
      return node.invalid(fmt::format("input 0 is {}, which this operator does not take", to_string(values[0].type)));
    }
    if (values.back().dtype() != values[0].dtype()) {
      return node.invalid(fmt::format("inputs 0 and {} are {} and {}: their data types differ", i,
                                      to_string(values[0].type), to_string(values.back().type)));
    }
  }
  return values;
}

// The formula for an activation of one input. `alpha` and `beta` are its attributes, in the order of `parameters_of`.
Term activation(std::string_view name, Term x, float first, float second) {
  const auto alpha = static_cast<double>(first);
  const auto beta = static_cast<double>(second);
  if (name == "Softplus") return softplus(x);
  if (name == "Softsign") return x / (1.0 + abs(x));
  if (name == "Elu") return where(x < 0.0, alpha * expm1(x), x);
  if (name == "Selu") return beta * where(x > 0.0, x, alpha * expm1(x));
  if (name == "Celu") return where(x < 0.0, alpha * expm1(x / alpha), x);
  if (name == "LeakyRelu") return where(x < 0.0, alpha * x, x);
  if (name == "HardSigmoid") return max(min(alpha * x + beta, 1.0), 0.0);
  if (name == "HardSwish") return x * max(min(x / 6.0 + 0.5, 1.0), 0.0);
  if (name == "Mish") return x * tanh(softplus(x));
  if (name == "Swish") return x * sigmoid(alpha * x);
  if (name == "ThresholdedRelu") return where(x > alpha, x, number_like(x, 0));
  if (name == "Tan") return tan(x);
  if (name == "Asin") return asin(x);
  if (name == "Acos") return acos(x);
  if (name == "Atan") return atan(x);
  if (name == "Sinh") return sinh(x);
  if (name == "Cosh") return cosh(x);
  if (name == "Asinh") return asinh(x);
  if (name == "Acosh") return acosh(x);
  if (name == "Atanh") return atanh(x);
  LOW_CHECK(false);  // the table of operators names only these
}

struct Parameters {
  std::string_view name;
  std::string_view second;  // the other attribute; the first is always alpha
  float alpha, beta;
};
constexpr Parameters parameters[] = {
    {"Elu", "", 1, 0},
    {"Selu", "gamma", 1.67326319217681884765625F, 1.05070102214813232421875F},
    {"Celu", "", 1, 0},
    {"LeakyRelu", "", 0.01F, 0},
    {"HardSigmoid", "beta", 0.2F, 0.5F},
    {"Swish", "", 1, 0},
    {"ThresholdedRelu", "", 1, 0},
};

Handled import_activation(Node& node) {
  LOW_TRY_VOID(check_float(node));
  float alpha = 0;
  float beta = 0;
  for (const Parameters& entry : parameters) {
    if (entry.name != node.op_type()) continue;
    LOW_TRY(alpha, node.number("alpha", entry.alpha));
    if (!entry.second.empty()) {
      LOW_TRY(beta, node.number(entry.second, entry.beta));
    }
  }
  const ModelValue& x = node.input(0);
  Formula formula(1, compute_type(x.dtype()));
  const Term result = activation(node.op_type(), formula.input(0, x.dtype()), alpha, beta);
  return one(node.emit().pointwise(std::move(formula).finish(result, x.dtype()), std::span(&x, 1)));
}

// x < -lambd: x + bias; x > lambd: x - bias; 0 between.
Handled import_shrink(Node& node) {
  const ModelValue& x = node.input(0);
  if (!is_arithmetic_float(x.dtype()) && !is_integer(x.dtype())) {
    return node.invalid(fmt::format("input 0 is {}, numbers are expected", to_string(x.type)));
  }
  LOW_TRY(const float bias, node.number("bias", 0));
  LOW_TRY(const float lambda, node.number("lambd", 0.5F));
  Formula formula(1, is_integer(x.dtype()) ? DType::f64 : compute_type(x.dtype()));
  const Term value = formula.input(0, x.dtype());
  const auto distance = static_cast<double>(bias);
  const auto limit = static_cast<double>(lambda);
  const Term result =
      where(value < -limit, value + distance, where(value > limit, value - distance, formula.constant(0)));
  return one(node.emit().pointwise(std::move(formula).finish(result, x.dtype()), std::span(&x, 1)));
}

// The slope broadcasts to x, not the other way round.
Handled import_prelu(Node& node) {
  const auto accepted = [](DType type) { return is_arithmetic_float(type) || is_integer(type); };
  LOW_TRY(const std::vector<ModelValue> values, inputs_of_one_type(node, accepted));
  const auto joined = broadcast(values[0].shape(), values[1].shape());
  if (!joined || *joined != values[0].shape()) {
    return node.invalid(
        fmt::format("the slope {} does not broadcast to {}", to_string(values[1].type), to_string(values[0].type)));
  }
  const DType type = values[0].dtype();
  Formula formula(2, is_integer(type) ? type : compute_type(type));
  const Term x = formula.input(0, type);
  const Term slope = formula.input(1, type);
  return one(node.emit().pointwise(std::move(formula).finish(where(x < 0.0, slope * x, x), type), values));
}

// Sum and Mean of any number of inputs.
Handled import_sum(Node& node) {
  constexpr int most_inputs = 1024;
  LOW_TRY(const std::vector<ModelValue> values, inputs_of_one_type(node, is_arithmetic_float));
  if (values.size() > most_inputs) {
    return node.unsupported(fmt::format("more than {} inputs are not supported", most_inputs));
  }
  if (values.size() == 1) return values;
  const DType type = values[0].dtype();
  Formula formula(static_cast<int>(values.size()), compute_type(type));
  Term sum = formula.input(0, type);
  for (size_t i = 1; i < values.size(); ++i) sum = sum + formula.input(static_cast<int>(i), type);
  if (node.op_type() == "Mean") sum = sum / static_cast<double>(values.size());
  return one(node.emit().pointwise(std::move(formula).finish(sum, type), values));
}

Handled import_is_inf(Node& node) {
  const ModelValue& x = node.input(0);
  if (!is_float(x.dtype())) return node.invalid(fmt::format("input 0 is {}, floats are expected", to_string(x.type)));
  LOW_TRY(const int64_t positive, node.integer("detect_positive", 1));
  LOW_TRY(const int64_t negative, node.integer("detect_negative", 1));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  ExprBuilder expr(1);
  const DType compute = compute_type(x.dtype());
  const uint16_t value = expr.convert(expr.input(0, x.dtype()), compute);
  const auto is = [&](double which) {
    const uint64_t bits = encode(compute, which, Overflow::propagate);
    return expr.binary(ExprOp::equal, value, expr.constant_bits(compute, bits));
  };
  uint16_t result = 0;
  if (positive != 0 && negative != 0) {
    const uint16_t above = is(infinity);
    const uint16_t below = is(-infinity);
    result = expr.binary(ExprOp::logical_or, above, below);
  } else if (positive != 0 || negative != 0) {
    result = is(positive != 0 ? infinity : -infinity);
  } else {
    result = expr.constant(DType::boolean, 0);
    const ModelValue& shape_giver = x;
    LOW_TRY(const ModelValue none, node.emit().pointwise(std::move(expr).finish(result), {}));
    return one(node.emit().expand(none, shape_giver.shape()));
  }
  return one(node.emit().pointwise(std::move(expr).finish(result), std::span(&x, 1)));
}

Handled import_bitwise(Node& node) {
  LOW_TRY(const std::vector<ModelValue> values, inputs_of_one_type(node, is_integer));
  const DType type = values[0].dtype();
  const std::string& name = node.op_type();
  ExprBuilder expr(static_cast<int>(values.size()));
  const uint16_t a = expr.input(0, type);
  uint16_t result = 0;
  if (name == "BitwiseNot") {
    const uint64_t ones = ~uint64_t{0} >> (64 - 8 * byte_size(type));
    result = expr.binary(ExprOp::bit_xor, a, expr.constant_bits(type, ones));
  } else {
    ExprOp op = name == "BitwiseAnd" ? ExprOp::bit_and : name == "BitwiseOr" ? ExprOp::bit_or : ExprOp::bit_xor;
    if (name == "BitShift") {
      LOW_TRY(const std::string direction, node.text("direction", ""));
      if (direction != "LEFT" && direction != "RIGHT") {
        return node.invalid(
            fmt::format("attribute direction is {}, \"LEFT\" or \"RIGHT\" is expected", in_quotes(direction)));
      }
      if (!is_unsigned_integer(type) && node.opset() < 28) {
        return node.invalid("unsigned integers are expected before opset 28");
      }
      op = direction == "LEFT" ? ExprOp::shift_left : ExprOp::shift_right;
    }
    const uint16_t b = expr.input(1, type);
    if (op == ExprOp::shift_right && is_signed_integer(type)) {
      // An arithmetic shift: negative numbers are shifted as their complement, so that zeros fill it and -1 is left of
      // it.
      const uint16_t zero = expr.constant(type, 0);
      const uint16_t ones = expr.constant(type, -1);
      const uint16_t is_negative = expr.binary(ExprOp::less, a, zero);
      const uint16_t mask = expr.where(is_negative, ones, zero);
      const uint16_t complement = expr.binary(ExprOp::bit_xor, a, mask);
      const uint16_t shifted = expr.binary(op, complement, b);
      result = expr.binary(ExprOp::bit_xor, shifted, mask);
    } else {
      result = expr.binary(op, a, b);
    }
  }
  return one(node.emit().pointwise(std::move(expr).finish(result), values));
}

}  // namespace

std::span<const OperatorInfo> activation_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Acos", 7, 1, 1, 1, "", import_activation},
      {"", "Acosh", 9, 1, 1, 1, "", import_activation},
      {"", "Asin", 7, 1, 1, 1, "", import_activation},
      {"", "Asinh", 9, 1, 1, 1, "", import_activation},
      {"", "Atan", 7, 1, 1, 1, "", import_activation},
      {"", "Atanh", 9, 1, 1, 1, "", import_activation},
      {"", "BitShift", 11, 2, 2, 1, "direction", import_bitwise},
      {"", "BitwiseAnd", 18, 2, 2, 1, "", import_bitwise},
      {"", "BitwiseNot", 18, 1, 1, 1, "", import_bitwise},
      {"", "BitwiseOr", 18, 2, 2, 1, "", import_bitwise},
      {"", "BitwiseXor", 18, 2, 2, 1, "", import_bitwise},
      {"", "Celu", 12, 1, 1, 1, "alpha", import_activation},
      {"", "Cosh", 9, 1, 1, 1, "", import_activation},
      {"", "Elu", 6, 1, 1, 1, "alpha", import_activation},
      {"", "HardSigmoid", 6, 1, 1, 1, "alpha beta", import_activation},
      {"", "HardSwish", 14, 1, 1, 1, "", import_activation},
      {"", "IsInf", 10, 1, 1, 1, "detect_negative detect_positive", import_is_inf},
      {"", "LeakyRelu", 6, 1, 1, 1, "alpha", import_activation},
      {"", "Mean", 8, 1, any_number, 1, "", import_sum},
      {"", "Mish", 18, 1, 1, 1, "", import_activation},
      {"", "PRelu", 7, 2, 2, 1, "", import_prelu},
      {"", "Selu", 6, 1, 1, 1, "alpha gamma", import_activation},
      {"", "Shrink", 9, 1, 1, 1, "bias lambd", import_shrink},
      {"", "Sinh", 9, 1, 1, 1, "", import_activation},
      {"", "Softplus", 1, 1, 1, 1, "", import_activation},
      {"", "Softsign", 1, 1, 1, 1, "", import_activation},
      {"", "Sum", 8, 1, any_number, 1, "", import_sum},
      {"", "Swish", 24, 1, 1, 1, "alpha", import_activation},
      {"", "Tan", 7, 1, 1, 1, "", import_activation},
      {"", "ThresholdedRelu", 10, 1, 1, 1, "alpha", import_activation},
  };
  return rows;
}

}  // namespace low
