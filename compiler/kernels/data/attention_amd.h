// How a workgroup computes attention on a GPU: for the kernel, and for the compiler.
//
// Rows of q are dealt out to waves, 16 each, which keep them in registers. The workgroup goes through the keys in blocks:
// the block's part of k and v is brought to LDS, k with d innermost, v with the keys innermost; each wave multiplies its
// rows with it, keeps the softmax's state in registers, and has p in LDS between the two products.
#pragma once

#include "compiler/kernels/data/matrix.h"

namespace low::device {

// Sizes in bytes of the elements that are multiplied.
struct AttentionConfiguration {
  int keys = 0;       // of a block; 0: no such block fits LDS
  int d = 0, dv = 0;  // rounded up to what the instructions take
  int score_bytes = 0, value_bytes = 0;
};

// Rows of LDS end with 16 bytes that nobody uses, so that they begin in different banks.
constexpr int key_pitch(const AttentionConfiguration& one) { return one.d * one.score_bytes + 16; }
constexpr int value_pitch(const AttentionConfiguration& one) { return one.keys * one.value_bytes + 16; }
// The block's keys, its values, and p of all waves.
constexpr int keys_lds_bytes(const AttentionConfiguration& one) { return one.keys * key_pitch(one); }
constexpr int values_lds_bytes(const AttentionConfiguration& one) { return one.dv * value_pitch(one); }
constexpr int workgroup_rows(const Chip& chip) { return workgroup_lanes / chip.wave_lanes * 16; }
constexpr int attention_lds_bytes(const Chip& chip, const AttentionConfiguration& one) {
  return keys_lds_bytes(one) + values_lds_bytes(one) + workgroup_rows(chip) * value_pitch(one);
}

// Head sizes above are for the plain way: rows of q and of the result would not fit a wave's registers.
inline constexpr int largest_matrix_head = 256;

// As many keys as fit, up to 64, so that the softmax's part for each block weighs little.
constexpr AttentionConfiguration attention_configuration(const Chip& chip, const MatrixInstruction& scores,
                                                         const MatrixInstruction& values, long long d, long long dv,
                                                         int score_bytes, int value_bytes) {
  const auto round_up = [](long long size, int unit) { return static_cast<int>((size + unit - 1) / unit * unit); };
  AttentionConfiguration one{.score_bytes = score_bytes, .value_bytes = value_bytes};
  if (d > largest_matrix_head || dv > largest_matrix_head) return one;
  const int chunk = 16 / score_bytes;
  one.d = round_up(d, scores.k > chunk ? scores.k : chunk);
  one.dv = round_up(dv, 16);
  const int least = values.k > 16 / value_bytes ? values.k : 16 / value_bytes;
  for (int keys = 64; keys >= least && keys >= 16; keys /= 2) {
    one.keys = keys;
    if (attention_lds_bytes(chip, one) <= chip.lds_bytes) return one;
  }
  one.keys = 0;
  return one;
}

}  // namespace low::device
