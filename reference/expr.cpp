#include "reference/expr.h"

#include <cmath>

#include "runtime/base/error.h"

namespace low::reference {
namespace {

double real_unary(ExprOp op, double x) {
  switch (op) {
    case ExprOp::neg:
      return -x;
    case ExprOp::abs:
      return std::fabs(x);
    case ExprOp::sqrt:
      return std::sqrt(x);
    case ExprOp::exp:
      return std::exp(x);
    case ExprOp::log:
      return std::log(x);
    case ExprOp::erf:
      return std::erf(x);
    case ExprOp::tanh:
      return std::tanh(x);
    case ExprOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case ExprOp::round_even:
      return std::nearbyint(x);  // the process never leaves the default mode
    case ExprOp::floor:
      return std::floor(x);
    case ExprOp::ceil:
      return std::ceil(x);
    case ExprOp::sign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case ExprOp::sin:
      return std::sin(x);
    case ExprOp::cos:
      return std::cos(x);
    case ExprOp::reciprocal:
      return 1 / x;
    default:
      LOW_CHECK(false);
  }
}

double real_binary(ExprOp op, double a, double b) {
  switch (op) {
    case ExprOp::add:
      return a + b;
    case ExprOp::sub:
      return a - b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::div:
      return a / b;
    case ExprOp::pow:
      return std::pow(a, b);
    case ExprOp::min:
      return std::isnan(a) || a < b ? a : b;  // b is the result when it is NaN: a < NaN is false
    case ExprOp::max:
      return std::isnan(a) || a > b ? a : b;
    case ExprOp::modulo:
      return std::fmod(a, b);
    default:
      LOW_CHECK(false);
  }
}

uint64_t integer_unary(ExprOp op, DType type, uint64_t x) {
  const bool negative = is_signed_integer(type) && static_cast<int64_t>(x) < 0;
  switch (op) {
    case ExprOp::neg:
      return 0 - x;
    case ExprOp::abs:
      return negative ? 0 - x : x;
    case ExprOp::sign:
      return negative ? ~uint64_t{0} : x != 0 ? 1 : 0;
    default:
      LOW_CHECK(false);
  }
}

// base ^ exponent modulo 2^64; a negative exponent gives the real power, truncated toward zero.
uint64_t integer_power(DType type, uint64_t base, uint64_t exponent) {
  if (is_signed_integer(type) && static_cast<int64_t>(exponent) < 0) {
    if (base == 1) return 1;
    if (base == ~uint64_t{0}) return exponent % 2 == 0 ? 1 : base;
    return 0;
  }
  uint64_t power = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent % 2 != 0) power *= base;
  }
  return power;
}

// Truncated quotient and the remainder that belongs to it (the sign of `a`); both are 0 for x / 0.
struct Division {
  uint64_t quotient;
  uint64_t remainder;
};
Division divide(DType type, uint64_t a, uint64_t b) {
  if (b == 0) return {0, 0};
  if (!is_signed_integer(type)) return {a / b, a % b};
  if (b == ~uint64_t{0}) return {0 - a, 0};  // by -1, without MIN / -1
  const auto x = static_cast<int64_t>(a);
  const auto y = static_cast<int64_t>(b);
  return {static_cast<uint64_t>(x / y), static_cast<uint64_t>(x % y)};
}

bool integer_less(DType type, uint64_t a, uint64_t b) {
  return is_signed_integer(type) ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
}

// One place at a time, over the bits of the type alone.
uint64_t shift(DType type, uint64_t a, uint64_t count, bool left) {
  const uint64_t width = 8 * byte_size(type);
  if (width < 64) a &= (uint64_t{1} << width) - 1;
  for (uint64_t i = 0; i < count && i < width; ++i) a = left ? a * 2 : a / 2;
  return a;
}

uint64_t integer_binary(ExprOp op, DType type, uint64_t a, uint64_t b) {
  switch (op) {
    case ExprOp::add:
      return a + b;
    case ExprOp::sub:
      return a - b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::div:
      return divide(type, a, b).quotient;
    case ExprOp::modulo:
      return divide(type, a, b).remainder;
    case ExprOp::pow:
      return integer_power(type, a, b);
    case ExprOp::min:
      return integer_less(type, a, b) ? a : b;
    case ExprOp::max:
      return integer_less(type, a, b) ? b : a;
    case ExprOp::bit_and:
      return a & b;
    case ExprOp::bit_or:
      return a | b;
    case ExprOp::bit_xor:
      return a ^ b;
    case ExprOp::shift_left:
      return shift(type, a, b, true);
    case ExprOp::shift_right:
      return shift(type, a, b, false);
    default:
      LOW_CHECK(false);
  }
}

// -1: less, 0: equal, 1: greater, 2: unordered.
int order(DType type, const Scalar& a, const Scalar& b) {
  if (is_float(type)) {
    if (std::isnan(a.real) || std::isnan(b.real)) return 2;
    return a.real < b.real ? -1 : a.real > b.real ? 1 : 0;
  }
  if (a.integer == b.integer) return 0;
  return integer_less(type, a.integer, b.integer) ? -1 : 1;
}

bool truth(ExprOp op, DType type, const Scalar& a, const Scalar& b) {
  switch (op) {
    case ExprOp::logical_not:
      return a.integer == 0;
    case ExprOp::logical_and:
      return a.integer != 0 && b.integer != 0;
    case ExprOp::logical_or:
      return a.integer != 0 || b.integer != 0;
    case ExprOp::logical_xor:
      return (a.integer != 0) != (b.integer != 0);
    case ExprOp::is_nan:
      return is_float(type) && std::isnan(a.real);
    case ExprOp::equal:
      return order(type, a, b) == 0;
    case ExprOp::not_equal:
      return order(type, a, b) != 0;
    case ExprOp::less:
      return order(type, a, b) == -1;
    case ExprOp::less_equal:
      return order(type, a, b) <= 0;
    case ExprOp::greater:
      return order(type, a, b) == 1;
    case ExprOp::greater_equal:
      return order(type, a, b) == 0 || order(type, a, b) == 1;
    default:
      LOW_CHECK(false);
  }
}

bool gives_truth(ExprOp op) {
  switch (op) {
    case ExprOp::logical_not:
    case ExprOp::logical_and:
    case ExprOp::logical_or:
    case ExprOp::logical_xor:
    case ExprOp::is_nan:
    case ExprOp::equal:
    case ExprOp::not_equal:
    case ExprOp::less:
    case ExprOp::less_equal:
    case ExprOp::greater:
    case ExprOp::greater_equal:
      return true;
    default:
      return false;
  }
}

Scalar arithmetic(ExprOp op, DType type, const Scalar& a, const Scalar& b) {
  const bool unary = op < ExprOp::add;
  if (is_float(type)) {
    const double value = unary ? real_unary(op, a.real) : real_binary(op, a.real, b.real);
    return {.real = type == DType::f32 ? value : round_to(type, value)};
  }
  const uint64_t value = unary ? integer_unary(op, type, a.integer) : integer_binary(op, type, a.integer, b.integer);
  return {.integer = wrap(type, value)};
}

}  // namespace

Evaluator::Evaluator(const Expr& expr) : expr_(expr), values_(expr.nodes.size()) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const ExprNode& node = expr.nodes[i];
    if (node.op == ExprOp::constant) values_[i] = decode_scalar(node.dtype, node.literal);
  }
}

Scalar Evaluator::operator()(std::span<const Scalar> inputs) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const ExprNode& node = expr_.nodes[i];
    if (node.op == ExprOp::constant) continue;
    if (node.op == ExprOp::input) {
      values_[i] = inputs[node.argument];
      continue;
    }
    const Scalar& a = values_[node.operand[0]];
    const Scalar& b = values_[node.operand[1]];
    const DType operand_type = expr_.nodes[node.operand[0]].dtype;
    if (node.op == ExprOp::convert) {
      values_[i] = convert(a, operand_type, node.dtype, node.overflow);
    } else if (node.op == ExprOp::where) {
      values_[i] = a.integer != 0 ? b : values_[node.operand[2]];
    } else if (gives_truth(node.op)) {
      values_[i] = {.integer = truth(node.op, operand_type, a, b) ? 1U : 0U};
    } else {
      values_[i] = arithmetic(node.op, node.dtype, a, b);
    }
  }
  return values_.back();
}

}  // namespace low::reference
