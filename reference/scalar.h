// One element while the reference computes with it, and the conversions between elements of different types.
#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace low::reference {

// Floats are in `real`. Integers and booleans are in `integer`: their value modulo 2^64, so sign-extended for signed
// types and zero-extended for the others.
struct Scalar {
  double real = 0;
  uint64_t integer = 0;
};

// The value that the low bits of `value` have as an integer of `type`. Booleans: not 0.
uint64_t wrap(DType type, uint64_t value);
// `value` rounded to nearest even in `type` (floats); overflow goes to infinity, or to NaN where there is none.
double round_to(DType type, double value);

Scalar decode_scalar(DType type, uint64_t bits);
// The bits of a scalar that is already of `type`; a float is rounded as by round_to.
uint64_t encode_scalar(DType type, const Scalar& scalar);
Scalar load(const Tensor& tensor, int64_t index);
void store(Tensor& tensor, int64_t index, const Scalar& scalar);

// `convert` of compiler/graph/expr.h.
Scalar convert(const Scalar& scalar, DType from, DType to, Overflow overflow);

// Toward zero, clamped to the range of the integer type; NaN gives 0.
uint64_t truncate_and_saturate(DType type, double value);

}  // namespace low::reference
