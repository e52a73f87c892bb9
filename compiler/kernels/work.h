// What a kernel run does, as the cost functions see it, and what it costs.
#pragma once

#include <cstdint>

#include "compiler/machine/machine.h"
#include "runtime/tensor/dtype.h"

namespace low {

// Predicted cost of something, in cycles of the machine's clock; each item is the time it would take alone.
struct Cost {
  double compute = 0;   // arithmetic at the machine's rate, on the busiest tile
  double memory = 0;    // operands and results through the memory system (the larger of per-tile and whole-device time)
  double exchange = 0;  // transfers between tiles and local copies
  double launch = 0;    // fixed costs: supersteps, commands
  double padding = 0;   // the part of `compute` spent on elements that no result needs
  // Compute overlaps memory within a superstep; the rest adds up.
  double total() const { return (compute > memory ? compute : memory) + exchange + launch; }
  Cost& operator+=(const Cost& other);  // items add up; not exact for overlap: add whole supersteps' totals by CostSum
};

inline Cost operator+(Cost a, const Cost& b) { return a += b; }

// One kernel run, as the cost functions see it: shapes and dtypes, no addresses.
struct KernelWork {
  enum class Kind : uint8_t { gemm, pointwise, copy, attention } kind = Kind::pointwise;
  // gemm; attention: rows of q, keys, head size; for others m rows of n contiguous elements (of x in reductions)
  int64_t m = 1, n = 1, k = 1;
  int64_t v = 0;                         // attention: elements of a row of v
  DType a = DType::f32, b = DType::f32;  // attention: both what products are computed from
  int64_t expression_nodes = 0;          // operations for each element of the result (epilogue or pointwise body)
  int64_t score_nodes = 0;               // attention: score_work
  int64_t read_bytes = 0;                // of operands, once each
  int64_t written_bytes = 0;
  // An operand's innermost stride is neither 0 nor 1; of reductions and normalizations: no axis of x has stride 1.
  bool strided = false;
};

// Useful part of a memory transaction when neighbouring elements are apart; a product packs or stages them once a
// block.
inline constexpr double strided_penalty = 4;
inline constexpr double strided_matrix_penalty = 2;
// Bytes of operands and result, at the rate at which a tile has them to itself.
double transfer_cycles(const Machine& machine, const KernelWork& work);
// Extents that are computed in multiples of a step.
double padded_to(int64_t extent, int64_t step);

}  // namespace low
