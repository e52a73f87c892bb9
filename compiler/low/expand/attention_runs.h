// The kernel runs of attention over one block of rows of one head, on all machines. Internal to expand/.
#pragma once

#include <span>
#include <vector>

#include "compiler/low/tile_graph.h"
#include "compiler/machine/machine.h"
#include "compiler/search/attention.h"

namespace low {

// What one kernel of attention reads and writes, as matrices; in this order:
//   flash    q [rows, d], k [keys, d], v [keys, dv], mask [rows, keys]?, diagonal [1]?, state [rows, dv + 2]?,
//            extras [rows, dv]… if it is the last panel, and the result [rows, dv] or the state
//   scores   q, k, mask?, causal mask [rows, keys] (bool)?, scores [rows, keys]
//   softmax  scores, scores
//   sums     scores, v, extras…, result
struct AttentionStage {
  enum class Kind : uint8_t { flash, scores, softmax, sums } kind = Kind::flash;
  bool continues = false, partial = false;  // flash: a panel that is not the first, not the last
};

class AttentionRuns {
 public:
  AttentionRuns(const Graph& graph, const Op& op, const Machine& machine);

  const AttentionExtents& extents() const { return extents_; }
  const Attention& attributes() const { return attributes_; }
  DType sum_type() const { return sum_; }  // of scores and states
  std::span<const ValueId> extras() const { return extras_; }
  // First row of the mask's matrix (its rows counted over its first three axes) for a row of this head; its rows and
  // columns may broadcast.
  bool masked() const { return attributes_.masked; }
  int64_t mask_row(int64_t batch, int64_t head, int64_t row) const;
  bool mask_by_row() const { return masked() && mask_[2] != 1; }
  bool mask_by_key() const { return masked() && mask_[3] != 1; }

  struct Form {
    KernelContract contract;
    std::vector<Shape> extents;  // of the operands' views
    std::vector<Strides> strides;
  };
  // `strides` are those of the matrices; a product's b is turned to lie as its kernel reads it.
  Form form(const AttentionStage& stage, int64_t rows, int64_t keys, std::span<const Strides> strides) const;

  // ErrorKind::unsupported where the constants that say where the diagonal stands, a number for each row and key, would
  // be too large.
  Result<void> check_size() const;
  // The value of the operand `diagonal` for a block that begins at this row and key.
  int32_t diagonal(int64_t row, int64_t key) const;
  // Whether any of these keys takes part in any of these rows, as far as the diagonal says.
  bool takes_part(int64_t row, int64_t rows, int64_t key) const;
  // The causal mask of materialized scores, bool [m, n].
  Tensor causal_mask() const;

 private:
  Expr scores_expr() const;

  const Machine& machine_;
  const Attention& attributes_;
  AttentionExtents extents_;
  DType q_, k_, v_, result_, sum_, math_, mask_type_ = DType::f32;
  MathRate score_math_, value_math_;  // of the two products apart
  Shape mask_;
  std::vector<ValueId> extras_;
  std::vector<DType> extra_types_;
  Expr epilogue_;
};

}  // namespace low
