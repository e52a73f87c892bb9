// Expressions written as formulas. A Term is a node of a builder; operators and functions append nodes of the terms'
// dtype. The order in which a formula's parts are appended does not matter: ExprBuilder::finish orders nodes by the
// result.
#pragma once

#include "compiler/graph/expr.h"

namespace low {

struct Term {
  ExprBuilder* builder;
  uint16_t node;
  DType dtype() const { return builder->dtype(node); }
};

// What a composite function of this dtype is computed in: the narrow floats, FP8 included, in f32.
inline DType compute_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

// A formula over inputs; every input is converted to `compute`.
class Formula {
 public:
  Formula(int inputs, DType compute) : builder_(inputs), compute_(compute) {}
  Term input(int i, DType type) { return {&builder_, builder_.convert(builder_.input(i, type), compute_)}; }
  Term constant(double value) { return {&builder_, builder_.constant(compute_, value)}; }
  // The result rounded to `type`.
  Expr finish(Term result, DType type) && {
    const uint16_t node = builder_.convert(result.node, type);
    return std::move(builder_).finish(node);
  }

 private:
  ExprBuilder builder_;
  DType compute_;
};

inline Term number_like(Term a, double value) { return {a.builder, a.builder->constant(a.dtype(), value)}; }
inline Term apply(ExprOp op, Term a) { return {a.builder, a.builder->unary(op, a.node)}; }
inline Term apply(ExprOp op, Term a, Term b) { return {a.builder, a.builder->binary(op, a.node, b.node)}; }

inline Term operator+(Term a, Term b) { return apply(ExprOp::add, a, b); }
inline Term operator-(Term a, Term b) { return apply(ExprOp::sub, a, b); }
inline Term operator*(Term a, Term b) { return apply(ExprOp::mul, a, b); }
inline Term operator/(Term a, Term b) { return apply(ExprOp::div, a, b); }
inline Term operator<(Term a, Term b) { return apply(ExprOp::less, a, b); }
inline Term operator>(Term a, Term b) { return apply(ExprOp::greater, a, b); }
inline Term operator==(Term a, Term b) { return apply(ExprOp::equal, a, b); }
inline Term operator+(Term a, double b) { return a + number_like(a, b); }
inline Term operator+(double a, Term b) { return number_like(b, a) + b; }
inline Term operator-(Term a, double b) { return a - number_like(a, b); }
inline Term operator-(double a, Term b) { return number_like(b, a) - b; }
inline Term operator*(Term a, double b) { return a * number_like(a, b); }
inline Term operator*(double a, Term b) { return number_like(b, a) * b; }
inline Term operator/(Term a, double b) { return a / number_like(a, b); }
inline Term operator/(double a, Term b) { return number_like(b, a) / b; }
inline Term operator<(Term a, double b) { return a < number_like(a, b); }
inline Term operator>(Term a, double b) { return a > number_like(a, b); }
inline Term operator==(Term a, double b) { return a == number_like(a, b); }
inline Term operator-(Term a) { return apply(ExprOp::neg, a); }

inline Term abs(Term a) { return apply(ExprOp::abs, a); }
inline Term sqrt(Term a) { return apply(ExprOp::sqrt, a); }
inline Term exp(Term a) { return apply(ExprOp::exp, a); }
inline Term log(Term a) { return apply(ExprOp::log, a); }
inline Term tanh(Term a) { return apply(ExprOp::tanh, a); }
inline Term sigmoid(Term a) { return apply(ExprOp::sigmoid, a); }
inline Term max(Term a, Term b) { return apply(ExprOp::max, a, b); }
inline Term min(Term a, Term b) { return apply(ExprOp::min, a, b); }
inline Term max(Term a, double b) { return max(a, number_like(a, b)); }
inline Term min(Term a, double b) { return min(a, number_like(a, b)); }
inline Term where(Term condition, Term a, Term b) {
  return {a.builder, a.builder->where(condition.node, a.node, b.node)};
}

// log(1 + x) and exp(x) - 1 with full relative accuracy around 0: the rounding error of 1 + x (of exp(x)) is divided
// out again, as W. Kahan does.
Term log1p(Term x);
Term expm1(Term x);
Term softplus(Term x);  // log(1 + exp(x)), without overflow

// Functions that expressions lack, of f32 or f64 terms (terms.cpp has the formulas).
Term tan(Term x);
Term asin(Term x);
Term acos(Term x);
Term atan(Term x);
Term sinh(Term x);
Term cosh(Term x);
Term asinh(Term x);
Term acosh(Term x);
Term atanh(Term x);

}  // namespace low
