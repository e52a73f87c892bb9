// Evaluation of one element; the semantics are stated in expr.h.
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/graph/expr.h"

namespace low {
namespace {

uint64_t truncate_bits(uint64_t bits, DType type) {
  const size_t width = 8 * byte_size(type);
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

// The 64-bit value of an integer or boolean element: sign-extended for signed types.
uint64_t widen(uint64_t bits, DType type) {
  bits = truncate_bits(bits, type);
  if (!is_signed_integer(type)) return bits;
  const int shift = 64 - 8 * static_cast<int>(byte_size(type));
  return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
}

// An integer as a double that rounds to any float format of up to 24 bits as the integer itself would: when it needs
// more than 53 bits, what is lost sets the last bit (rounding to odd).
double to_double_odd(uint64_t magnitude, bool negative) {
  const int excess = std::bit_width(magnitude) - 53;
  double value = 0;
  if (excess > 0) {
    const uint64_t kept = magnitude >> excess;
    const bool lost = (kept << excess) != magnitude;
    value = std::ldexp(static_cast<double>(kept | (lost ? 1u : 0u)), excess);
  } else {
    value = static_cast<double>(magnitude);
  }
  return negative ? -value : value;
}

uint64_t float_to_integer(double value, DType to) {
  if (std::isnan(value)) return 0;
  const int width = 8 * static_cast<int>(byte_size(to));
  const double truncated = std::trunc(value);
  if (is_signed_integer(to)) {
    const double limit = std::ldexp(1.0, width - 1);  // one above the maximum; exact, as the maximum is not for 64 bits
    const int64_t maximum = static_cast<int64_t>(~uint64_t{0} >> (65 - width));
    if (truncated >= limit) return truncate_bits(static_cast<uint64_t>(maximum), to);
    if (truncated < -limit) return truncate_bits(static_cast<uint64_t>(-maximum - 1), to);
    return truncate_bits(static_cast<uint64_t>(static_cast<int64_t>(truncated)), to);
  }
  if (truncated <= 0) return 0;
  if (truncated >= std::ldexp(1.0, width)) return truncate_bits(~uint64_t{0}, to);
  return static_cast<uint64_t>(truncated);
}

uint64_t convert(uint64_t bits, DType from, DType to, Overflow overflow) {
  if (is_float(from)) {
    const double value = decode(from, bits);
    if (is_float(to)) return encode(to, value, overflow);
    if (to == DType::boolean) return value != 0 ? 1 : 0;  // true for NaN
    return float_to_integer(value, to);
  }
  const uint64_t wide = widen(bits, from);
  if (to == DType::boolean) return wide != 0 ? 1 : 0;
  if (!is_float(to)) return truncate_bits(wide, to);
  const bool negative = is_signed_integer(from) && static_cast<int64_t>(wide) < 0;
  const uint64_t magnitude = negative ? 0 - wide : wide;
  if (to == DType::f64) {
    const auto value = static_cast<double>(magnitude);  // the conversion rounds to nearest even, on either side of zero
    return encode(to, negative ? -value : value, overflow);
  }
  return encode(to, to_double_odd(magnitude, negative), overflow);
}

template <typename T>
T float_unary(ExprOp op, T x) {
  switch (op) {
    case ExprOp::neg:
      return -x;
    case ExprOp::abs:
      return std::abs(x);
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
      return T{1} / (T{1} + std::exp(-x));
    case ExprOp::round_even:
      return std::nearbyint(x);  // in the default rounding mode
    case ExprOp::floor:
      return std::floor(x);
    case ExprOp::ceil:
      return std::ceil(x);
    case ExprOp::sign:
      return x > 0 ? T{1} : x < 0 ? T{-1} : x;  // zeros and NaN are themselves
    case ExprOp::sin:
      return std::sin(x);
    case ExprOp::cos:
      return std::cos(x);
    case ExprOp::reciprocal:
      return T{1} / x;
    default:
      break;
  }
  return std::numeric_limits<T>::quiet_NaN();
}

template <typename T>
T float_binary(ExprOp op, T a, T b) {
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
      return std::isnan(a) ? a : std::isnan(b) || b < a ? b : a;
    case ExprOp::max:
      return std::isnan(a) ? a : std::isnan(b) || b > a ? b : a;
    case ExprOp::modulo:
      return std::fmod(a, b);
    default:
      break;
  }
  return std::numeric_limits<T>::quiet_NaN();
}

template <typename T>
bool compare(ExprOp op, T a, T b) {
  switch (op) {
    case ExprOp::equal:
      return a == b;
    case ExprOp::not_equal:
      return a != b;
    case ExprOp::less:
      return a < b;
    case ExprOp::less_equal:
      return a <= b;
    case ExprOp::greater:
      return a > b;
    case ExprOp::greater_equal:
      return a >= b;
    default:
      break;
  }
  return false;
}

// By repeated squaring, modulo 2^64. A negative exponent truncates the real power: only 1 and -1 have one that is not
// 0.
uint64_t integer_pow(uint64_t base, uint64_t exponent, bool is_signed) {
  if (is_signed && static_cast<int64_t>(exponent) < 0) {
    if (base == 1) return 1;
    if (base == ~uint64_t{0}) return (exponent & 1) != 0 ? base : 1;
    return 0;
  }
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

// Operands are widened; the caller truncates the result.
uint64_t integer_binary(ExprOp op, uint64_t a, uint64_t b, bool is_signed) {
  const auto sa = static_cast<int64_t>(a);
  const auto sb = static_cast<int64_t>(b);
  switch (op) {
    case ExprOp::add:
      return a + b;
    case ExprOp::sub:
      return a - b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::div:
      if (b == 0) return 0;
      if (!is_signed) return a / b;
      return sb == -1 ? 0 - a : static_cast<uint64_t>(sa / sb);
    case ExprOp::modulo:
      if (b == 0) return 0;
      if (!is_signed) return a % b;
      return sb == -1 ? 0 : static_cast<uint64_t>(sa % sb);
    case ExprOp::pow:
      return integer_pow(a, b, is_signed);
    case ExprOp::min:
      return (is_signed ? sb < sa : b < a) ? b : a;
    case ExprOp::max:
      return (is_signed ? sb > sa : b > a) ? b : a;
    default:
      break;
  }
  return 0;
}

// On the low bits of elements. A negative count has its highest bit set: it is beyond the width, too.
uint64_t bitwise(ExprOp op, DType type, uint64_t a, uint64_t b) {
  const bool moves_out = b >= 8 * byte_size(type);
  switch (op) {
    case ExprOp::bit_and:
      return a & b;
    case ExprOp::bit_or:
      return a | b;
    case ExprOp::bit_xor:
      return a ^ b;
    case ExprOp::shift_left:
      return moves_out ? 0 : a << b;
    default:
      return moves_out ? 0 : a >> b;
  }
}

uint64_t integer_unary(ExprOp op, uint64_t a, bool is_signed) {
  const auto sa = static_cast<int64_t>(a);
  switch (op) {
    case ExprOp::neg:
      return 0 - a;
    case ExprOp::abs:
      return is_signed && sa < 0 ? 0 - a : a;
    case ExprOp::sign:
      return is_signed && sa < 0 ? ~uint64_t{0} : a != 0 ? 1 : 0;
    default:
      break;
  }
  return 0;
}

uint64_t evaluate_unary(ExprOp op, DType type, uint64_t a) {
  if (op == ExprOp::logical_not) return a == 0 ? 1 : 0;
  if (op == ExprOp::is_nan) return std::isnan(decode(type, a)) ? 1 : 0;
  if (type == DType::f64) return encode(type, float_unary(op, decode(type, a)), Overflow::propagate);
  if (is_float(type)) {
    return encode(type, double{float_unary(op, static_cast<float>(decode(type, a)))}, Overflow::propagate);
  }
  return truncate_bits(integer_unary(op, widen(a, type), is_signed_integer(type)), type);
}

uint64_t evaluate_binary(ExprOp op, DType type, uint64_t a, uint64_t b) {
  if (op == ExprOp::logical_and) return a & b;
  if (op == ExprOp::logical_or) return a | b;
  if (op == ExprOp::logical_xor) return a ^ b;
  if (op >= ExprOp::bit_and) return truncate_bits(bitwise(op, type, a, b), type);
  const bool comparison = op >= ExprOp::equal && op <= ExprOp::greater_equal;
  if (is_float(type)) {
    const double x = decode(type, a);
    const double y = decode(type, b);
    if (comparison) return compare(op, x, y) ? 1 : 0;
    if (type == DType::f64) return encode(type, float_binary(op, x, y), Overflow::propagate);
    return encode(type, double{float_binary(op, static_cast<float>(x), static_cast<float>(y))}, Overflow::propagate);
  }
  const uint64_t x = widen(a, type);
  const uint64_t y = widen(b, type);
  const bool is_signed = is_signed_integer(type);
  if (comparison) {
    return (is_signed ? compare(op, static_cast<int64_t>(x), static_cast<int64_t>(y)) : compare(op, x, y)) ? 1 : 0;
  }
  return truncate_bits(integer_binary(op, x, y, is_signed), type);
}

}  // namespace

uint64_t evaluate(const Expr& expr, std::span<const uint64_t> inputs) {
  // Most expressions are small: their values stay on the stack.
  constexpr size_t small = 64;
  uint64_t buffer[small];
  std::vector<uint64_t> heap(expr.nodes.size() > small ? expr.nodes.size() : 0);
  uint64_t* const values = heap.empty() ? buffer : heap.data();
  for (size_t i = 0; i < expr.nodes.size(); ++i) {
    const ExprNode& node = expr.nodes[i];
    const DType operand_type = info(node.op).arity > 0 ? expr.nodes[node.operand[0]].dtype : node.dtype;
    const auto operand = [&](int j) { return values[node.operand[j]]; };
    switch (node.op) {
      case ExprOp::input:
        values[i] = truncate_bits(inputs[node.argument], node.dtype);
        break;
      case ExprOp::constant:
        values[i] = node.literal;
        break;
      case ExprOp::convert:
        values[i] = convert(operand(0), operand_type, node.dtype, node.overflow);
        break;
      case ExprOp::where:
        values[i] = operand(0) != 0 ? operand(1) : operand(2);
        break;
      default:
        values[i] = info(node.op).arity == 1 ? evaluate_unary(node.op, operand_type, operand(0))
                                             : evaluate_binary(node.op, operand_type, operand(0), operand(1));
    }
  }
  return values[expr.nodes.size() - 1];
}

}  // namespace low
