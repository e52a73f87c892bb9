// Linear layers with random weights from fixed seeds: what the workloads are made of.
#pragma once

#include <cstdint>
#include <string>

namespace low {

// A bias is `scale` times a random sign times (floor + (1 - floor) * |normal number|).
struct Bias {
  double scale;
  double floor;  // keeps outputs away from 0, where a comparison allows the least
};
// What a model's numbers are: floats of one width, or FP8 (E4M3FN) or i8 operands of its products among f32.
enum class Numbers : uint8_t { fp8, i8, f16, f32 };
bool is_quantized(Numbers numbers);
// Of ONNX's tensors, as TensorProto.DataType has them.
int data_type(Numbers numbers);    // of inputs, outputs, biases
int weight_type(Numbers numbers);  // of weights, and of activations that are quantized

// Streams name sequences of random numbers; with the block's index, their seeds. Weights have variance gain^2 / inputs.
struct Linear {
  uint64_t weight, channel, bias;
  int64_t inputs, outputs;
  double gain;
  Bias bias_size;
};

// As f16 or f32.
void append_number(std::string& raw, double value, Numbers numbers = Numbers::f32);
// [inputs, outputs], row-major; quantized ones are to be multiplied with the scales.
void append_weight(std::string& raw, const Linear& linear, int block, Numbers numbers);
// [outputs] each; scales are f32.
void append_scale(std::string& raw, const Linear& linear, int block, Numbers numbers);
void append_bias(std::string& raw, const Linear& linear, int block, Numbers numbers);

}  // namespace low
