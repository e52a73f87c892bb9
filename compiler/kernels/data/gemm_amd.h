// How a workgroup computes a product on a GPU: for the kernel, and for the compiler.
//
// The result is cut into blocks of block_m x block_n. For each, the workgroup goes through k in steps: the step's part of
// a and of b is brought to LDS (a stage), row by row with k innermost, then each wave multiplies its own part of the
// block: waves_m x waves_n of them, in fragments of one matrix instruction.
#pragma once

#include "compiler/kernels/data/matrix.h"

namespace low::device {

struct GemmConfiguration {
  int block_m = 0, block_n = 0;
  int waves_m = 0, waves_n = 0;  // of 64 lanes; see for_chip
  int step_bytes = 0;            // of a row of a stage
};

// A row of a stage ends with 16 bytes that nobody uses, so that rows begin in different banks.
constexpr int stage_pitch(const GemmConfiguration& configuration) { return configuration.step_bytes + 16; }
constexpr int gemm_lds_bytes(const GemmConfiguration& configuration) {
  return (configuration.block_m + configuration.block_n) * stage_pitch(configuration);
}

// Chips whose waves have 32 lanes have twice as many: their parts are halved along the longer side.
constexpr GemmConfiguration for_chip(GemmConfiguration configuration, const Chip& chip) {
  if (chip.wave_lanes == 64) return configuration;
  const bool wide = configuration.block_n / configuration.waves_n > configuration.block_m / configuration.waves_m ||
                    configuration.block_m / configuration.waves_m == 16;
  (wide ? configuration.waves_n : configuration.waves_m) *= 2;
  return configuration;
}

inline constexpr GemmConfiguration gemm_configurations_amd[] = {
    // 64 x 64 a wave: 16 products for 8 fragments out of LDS.
    {.block_m = 128, .block_n = 128, .waves_m = 2, .waves_n = 2, .step_bytes = 128},
    // Parts of a tile that are smaller in both directions.
    {.block_m = 64, .block_n = 64, .waves_m = 2, .waves_n = 2, .step_bytes = 128},
    // A few rows, or a few columns.
    {.block_m = 16, .block_n = 128, .waves_m = 1, .waves_n = 4, .step_bytes = 128},
    {.block_m = 128, .block_n = 16, .waves_m = 4, .waves_n = 1, .step_bytes = 128},
};

// Of them the one that takes least: products, the ones beside the result included, and for each as much again as a wave
// loads fragments for one.
constexpr const GemmConfiguration& gemm_configuration_for(long long m, long long n) {
  const auto taken = [&](const GemmConfiguration& one) {
    const auto computed = static_cast<double>((m + one.block_m - 1) / one.block_m * one.block_m) *
                          static_cast<double>((n + one.block_n - 1) / one.block_n * one.block_n);
    return computed * (1 + 16.0 * one.waves_m / one.block_m + 16.0 * one.waves_n / one.block_n);
  };
  const GemmConfiguration* best = &gemm_configurations_amd[0];
  for (const GemmConfiguration& one : gemm_configurations_amd) {
    if (taken(one) < taken(*best)) best = &one;
  }
  return *best;
}

}  // namespace low::device
