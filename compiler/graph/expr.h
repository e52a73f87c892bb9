// Expression: a DAG of scalar operations over broadcast inputs. It is the body of `pointwise`, and the epilogue of
// `matmul`.
//
// Semantics. Every node has a dtype, and its value is an element of that dtype:
//  - f64 and f32 nodes compute in their own format. f16, bf16 and FP8 nodes compute in f32 from exactly decoded
//    operands and round the result to their format (nearest, ties to even; overflow to infinity, or NaN where there is
//    none) after each node.
//  - Integer arithmetic wraps modulo 2^bits; division truncates toward zero; x / 0 is 0 and MIN / -1 is MIN (C leaves
//    both undefined; a compiled program may not trap).
//  - min and max propagate NaN. Comparisons with NaN are false, except not_equal.
//  - `convert` between floats rounds to nearest even; `overflow` says what becomes of too large values (Overflow in
//    dtype.h). float -> integer truncates toward zero and clamps to the target's range (NaN becomes 0); integer ->
//    integer wraps; anything -> boolean is x != 0 (NaN is true); integer -> float rounds to nearest even.
//  - `round_even` rounds to an integer value, ties to even, and keeps the dtype (floats only).
//  - `modulo` of floats is fmod: exact, with the sign of the dividend. Of integers it is the remainder of the truncated
//    division; x % 0 is 0, and MIN % -1 is 0.
//  - `pow` of integers is repeated multiplication, which wraps (x^0 is 1, also for 0). A negative exponent truncates
//    the real power: 1 for base 1, 1 or -1 for base -1 by the exponent's parity, 0 for any other base (0 included).
//  - `where(c, a, b)`: c is boolean.
//  - bit operations take integers. Shifts move the bit pattern and fill with zeros, also for signed types; a count that
//    is negative or not below the number of bits gives 0.
// No operation is reassociated or contracted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/tensor/dtype.h"

namespace low {

// clang-format off
enum class ExprOp : uint8_t {
  input,     // the element of input `argument`
  constant,  // `literal`: raw bits of one element of the node's dtype
  convert,
  // unary
  neg, abs, sqrt, exp, log, erf, tanh, sigmoid, round_even, floor, ceil, sign, sin, cos, reciprocal, logical_not, is_nan,
  // binary
  add, sub, mul, div, pow, min, max, modulo, equal, not_equal, less, less_equal, greater, greater_equal,
  logical_and, logical_or, logical_xor,
  // ternary
  where,
  // binary
  bit_and, bit_or, bit_xor, shift_left, shift_right,
};
// clang-format on

struct ExprOpInfo {
  ExprOp op;
  std::string_view name;  // as printed
  int arity;
};
// The one table of scalar operations, in the order of ExprOp.
std::span<const ExprOpInfo> expr_ops();
const ExprOpInfo& info(ExprOp op);
std::optional<ExprOp> parse_expr_op(std::string_view name);

struct ExprNode {
  ExprOp op = ExprOp::input;
  DType dtype = DType::f32;
  Overflow overflow = Overflow::propagate;  // of `convert`; `propagate` for all others
  uint16_t argument = 0;                    // of `input`
  uint16_t operand[3] = {0, 0, 0};          // indices of earlier nodes; unused ones are 0
  uint64_t literal = 0;                     // of `constant`
  bool operator==(const ExprNode&) const = default;
};

inline constexpr size_t max_expression_nodes = 4096;

struct Expr {
  std::vector<ExprNode> nodes;  // in dependency order; each node is used by a later one, or is the result
  uint16_t inputs = 0;          // number of inputs; an input may be unused
  // The result is the last node.
  DType result_type() const { return nodes.back().dtype; }
  bool operator==(const Expr&) const = default;
};

// Appends nodes; equal nodes become one (they have no side effects). Not more than 4,096 nodes (checked by add's
// callers via size()).
class ExprBuilder {
 public:
  explicit ExprBuilder(int inputs) { expr_.inputs = static_cast<uint16_t>(inputs); }
  uint16_t input(int argument, DType dtype);
  uint16_t constant(DType dtype, double value);  // encoded with saturation
  uint16_t constant_bits(DType dtype, uint64_t bits);
  uint16_t convert(uint16_t a, DType to,
                   Overflow overflow = Overflow::propagate);  // a itself when the dtype is the same
  uint16_t unary(ExprOp op, uint16_t a);
  uint16_t binary(ExprOp op, uint16_t a, uint16_t b);  // operands of one dtype; comparisons give boolean
  uint16_t where(uint16_t condition, uint16_t a, uint16_t b);
  // Copies `other`'s nodes with its input i replaced by node `arguments[i]`; returns the node of its result.
  uint16_t inline_expr(const Expr& other, std::span<const uint16_t> arguments);
  DType dtype(uint16_t node) const { return expr_.nodes[node].dtype; }
  size_t size() const { return expr_.nodes.size(); }
  // Drops nodes that `result` does not need and makes it the last.
  Expr finish(uint16_t result) &&;

 private:
  uint16_t add(const ExprNode& node);
  Expr expr_;
};

// Types, arities, order. `what` names the owner in the message (ErrorKind::internal).
Result<void> verify(const Expr& expr, std::string_view what);
// One line of numbered nodes, since a DAG shares them: "t0 = input.f32 0; t1 = constant.f32 0x1p+1; t2 = mul.f32 t0
// t1". Float literals print as hexadecimal floats, infinities as inf and -inf, NaNs as nan:0xBITS; integers in decimal.
std::string to_string(const Expr& expr);
Result<Expr> parse_expr(std::string_view text);

// Evaluates one element at native precision. `inputs[i]` are raw bits of the inputs' elements; returns the result's raw
// bits. Used by constant folding and by the interpreter; the reference has its own.
uint64_t evaluate(const Expr& expr, std::span<const uint64_t> inputs);

}  // namespace low
