// The MLP of a vision transformer: x [batch, tokens, width] -> linear to `hidden` -> tanh-GELU -> linear to `width`;
// one block feeds the next. With FP8 (E4M3FN) or i8, both operands of both products pass through QuantizeLinear and
// DequantizeLinear: a scale per tensor for activations, per output channel for weights. Input and output are f32, or f16 if all
// numbers are.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/workload/linear.h"
#include "runtime/base/error.h"

namespace low {

struct Mlp {
  int64_t batch = 1;
  int64_t tokens = 0;
  int64_t width = 0;
  int64_t hidden = 0;
  Numbers numbers = Numbers::fp8;
  int blocks = 1;
  bool scan = false;  // a Scan whose body is one block, or `blocks` copies
};

// Bytes of all weights.
int64_t weight_bytes(const Mlp& mlp);
// The serialized model. Weights have variance gain^2 / fan-in; for an input of unit variance, the gains give the hidden
// layer a standard deviation of about 2 and each block's output an RMS of about 5.
std::string make_mlp(const Mlp& mlp);

}  // namespace low
