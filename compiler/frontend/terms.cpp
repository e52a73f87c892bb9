#include "compiler/frontend/terms.h"

#include <limits>
#include <numbers>

namespace low {
namespace {

// f(|x|) with the sign of x, for odd functions.
Term with_sign_of(Term x, Term magnitude) { return where(x < 0.0, -magnitude, magnitude); }

// z - z^3/3 + z^5/5 - …, for |z| <= tan(pi/8), where z^2 < 0.172: the first term left out is below half a unit in the
// last place.
Term arctangent_series(Term z) {
  const int terms = z.dtype() == DType::f64 ? 21 : 10;
  const Term square = z * z;
  Term sum = number_like(z, 1.0 / (2 * terms - 1));
  for (int i = terms - 1; i-- > 0;) sum = 1.0 / (2 * i + 1) - square * sum;
  return z * sum;
}

// From here on, log(2 x): the square would overflow, and what is left out is below the last place.
double large_argument(Term x) { return x.dtype() == DType::f64 ? 1e9 : 1e4; }

}  // namespace

Term log1p(Term x) {
  const Term u = 1.0 + x;
  const Term corrected = where(u == 1.0, x, log(u) * (x / (u - 1.0)));
  return where(x < 1.0, corrected, log(u));
}

Term expm1(Term x) {
  const Term u = exp(x);
  const Term corrected = where(u == 1.0, x, (u - 1.0) * (x / log(u)));
  return where(abs(x) < 0.5, corrected, u - 1.0);
}

Term softplus(Term x) { return max(x, 0.0) + log1p(exp(-abs(x))); }

Term tan(Term x) { return apply(ExprOp::sin, x) / apply(ExprOp::cos, x); }

// atan(a) = pi/2 + atan(-1/a) = pi/4 + atan((a - 1) / (a + 1)).
Term atan(Term x) {
  const Term a = abs(x);
  const Term is_large = a > 1 + std::numbers::sqrt2;   // tan(3 pi/8)
  const Term is_middle = a > std::numbers::sqrt2 - 1;  // tan(pi/8)
  const Term z = where(is_large, -1.0 / a, where(is_middle, (a - 1.0) / (a + 1.0), a));
  const Term base = where(is_large, number_like(a, std::numbers::pi / 2),
                          where(is_middle, number_like(a, std::numbers::pi / 4), number_like(a, 0)));
  return with_sign_of(x, base + arctangent_series(z));
}

Term asin(Term x) { return atan(x / sqrt((1.0 - x) * (1.0 + x))); }
Term acos(Term x) { return 2.0 * atan(sqrt((1.0 - x) / (1.0 + x))); }

// Beyond 20 the smaller of exp(x) and exp(-x) is lost anyway; in two factors, the larger one overflows where the result
// does.
Term sinh(Term x) {
  const Term a = abs(x);
  const Term t = expm1(a);
  const Term half = exp(0.5 * a);
  return with_sign_of(x, where(a > 20.0, 0.5 * half * half, 0.5 * (t + t / (t + 1.0))));
}

Term cosh(Term x) {
  const Term a = abs(x);
  const Term e = exp(a);
  const Term half = exp(0.5 * a);
  return where(a > 20.0, 0.5 * half * half, 0.5 * (e + 1.0 / e));
}

Term asinh(Term x) {
  const Term a = abs(x);
  const Term square = a * a;
  const Term small = log1p(a + square / (1.0 + sqrt(square + 1.0)));
  return with_sign_of(x, where(a > large_argument(x), log(a) + std::numbers::ln2, small));
}

Term acosh(Term x) {
  const Term t = x - 1.0;
  const Term small = log1p(t + sqrt(t * (t + 2.0)));
  const Term value = where(x > large_argument(x), log(x) + std::numbers::ln2, small);
  return where(x < 1.0, number_like(x, std::numeric_limits<double>::quiet_NaN()), value);
}

Term atanh(Term x) {
  const Term a = abs(x);
  return with_sign_of(x, 0.5 * log1p(2.0 * a / (1.0 - a)));
}

}  // namespace low
