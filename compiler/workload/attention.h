// The attention of a vision transformer: x [batch, tokens, heads * head] -> queries, keys and values by linear layers
// with biases -> scaled dot-product attention -> joined heads. With FP8, both operands of the layers pass through
// QuantizeLinear and DequantizeLinear (E4M3FN), as in the MLP. Input and output are f32, or f16 if all
// numbers are.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/workload/linear.h"

namespace low {

struct AttentionBlock {
  int64_t batch = 1;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head = 0;  // elements of one
  // Deviation of the values: attention averages them, the fewer tokens the less.
  double value_gain = 1;
  Numbers numbers = Numbers::fp8;
  // ONNX's Attention, or the operations that it consists of: the same numbers from the same weights.
  bool decomposed = false;
};

// The serialized model. For an input of unit variance, scores have a standard deviation of about 2 (each row of the
// softmax is far from flat, and far from one-hot), and the output an RMS of 4 to 9.
std::string make_attention(const AttentionBlock& block);

}  // namespace low
