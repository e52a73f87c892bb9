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
// Streams name sequences of random numbers; with the block's index, their seeds. Weights have variance gain^2 / inputs.
struct Linear {
  uint64_t weight, channel, bias;
  int64_t inputs, outputs;
  double gain;
  Bias bias_size;
};

void append_float(std::string& raw, float value);
// [inputs, outputs], row-major: f32, or with `fp8` E4M3FN to be multiplied with the scales.
void append_weight(std::string& raw, const Linear& linear, int block, bool fp8);
// f32 [outputs] each.
void append_scale(std::string& raw, const Linear& linear, int block);
void append_bias(std::string& raw, const Linear& linear, int block);

}  // namespace low
