// The family attention: flash attention of one head.
#pragma once

#include <limits>

#include <vector>

#include "compiler/kernels/families/family.h"
#include "compiler/machine/machine.h"

namespace low {

// Which operands of attention these are; 0 where there is none. `extras` is the first one behind them, the result if
// there are no extras.
struct AttentionOperands {
  size_t mask = 0, diagonal = 0, state = 0, extras = 3;
};

// One head of attention for m rows of q and a panel of n keys, with the softmax taken as the keys come by (flash
// attention):
//
//   score[i, j] = (sum over d of q[i, d] k[j, d]) * scale, softcap, mask as in Attention, -infinity where j > i +
//   diagonal
//
//   m'[i] = max(m[i], max over j of score[i, j]); p[i, j] = exp(score[i, j] - m'[i])
//
//   l'[i] = l[i] * exp(m[i] - m'[i]) + sum over j of p[i, j]
//
//   o'[i, c] = o[i, c] * exp(m[i] - m'[i]) + sum over j of p[i, j] v[j, c]
//
// with m = -infinity, l = 0, o = 0 at first, and exp(-infinity - m') = 0 also where m' is -infinity. q, k and v are
// rounded to `math`, p is not. A state holds (o, m, l) of a row as `accumulate` [m, dv + 2]: o in columns [0, dv), then
// m, then l; it may be updated in place. The last panel's result[i, c] = epilogue(o'[i, c] / l'[i], extras…[i, c]). See
// Attention in graph.h for rows in which nothing takes part. Where v of a key that takes part in no row is not finite,
// NaN may come of it or not.
//
// A run's extents are (m, n, d, dv). Operands: q [m, d], k [n, d], v [n, dv], then [m, n] of a mask if `masked`, then
// [1] i32, the diagonal, if `causal`, then the state [m, dv + 2] that an earlier panel left if `continues`, then, in a
// last panel, extras [m, dv], and the result: [m, dv], or the state [m, dv + 2] if `partial`, without an expression.
struct AttentionKernel {
  static constexpr std::string_view name = "attention";
  int64_t d = 1, dv = 1;          // of every run
  DType math = DType::f32;        // what products are computed from
  DType accumulate = DType::f32;  // f32 or f64: of sums and of the state
  bool masked = false, causal = false, continues = false, partial = false, empty_is_zero = false;
  double scale = 1, softcap = 0;
  double masked_score = -std::numeric_limits<double>::infinity();  // as in Attention
  bool operator==(const AttentionKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("d", self.d);
    visit("dv", self.dv);
    visit("math", self.math);
    visit("accumulate", self.accumulate);
    visit("scale", self.scale);
    visit("softcap", self.softcap);
    visit("masked_score", self.masked_score);
    visit("masked", self.masked);
    visit("causal", self.causal);
    visit("continues", self.continues);
    visit("partial", self.partial);
    visit("empty_is_zero", self.empty_is_zero);
  }

  AttentionOperands named_operands() const;
  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {named_operands().extras + 1, partial}; }
  ExprOperands expr_operands() const { return {1, named_operands().extras}; }
  size_t first_in_place() const {
    return named_operands().state > 0 ? named_operands().state : named_operands().extras;
  }
  double matrix_flop(const Shape& extents) const;
  static constexpr int iteration_rank = 4;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  uint64_t scratch_bytes(const KernelContract& contract, const Shape& extents, const device::Tiling& tiling) const;
  std::string unimplemented() const;
  bool gains_by_dots(const KernelContract& contract) const;  // scores
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};

// How attention is computed. Both give the same result but for rounding.
enum class AttentionAlgorithm : uint8_t {
  flash,         // this kernel for scores, softmax and sums, by panels of keys
  materialized,  // scores of a block of rows are written, normalized, and multiplied with v: three kernels
};
// Rows of q, of a tile's part of so many, in a block; keys in a panel.
std::vector<int64_t> attention_row_blocks(const Machine& machine, int64_t rows, AttentionAlgorithm algorithm);
std::vector<int64_t> attention_key_blocks(const Machine& machine, int64_t keys, AttentionAlgorithm algorithm);

// The one dtype that q, k and v are multiplied in on this machine, which holds all their values; sums are f32 (f64 for
// f64 operands).
DType attention_math(const Machine& machine, DType q, DType k, DType v);

// As kernel_cost, of its kind of work.
Cost attention_run_cost(const Machine& machine, const KernelWork& work);

}  // namespace low
