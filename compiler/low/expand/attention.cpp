#include <algorithm>

#include "compiler/low/expand/attention_runs.h"
#include "compiler/low/expand/distributed_value.h"
#include "compiler/low/expand/expander.h"

namespace low {
namespace {

// Rows and columns of one batch of a value [batch, rows, columns]: the layout of a matrix whose element (0, 0) is
// (batch, row, column).
Placed matrix_of(const Placed& value, int64_t batch, int64_t row, int64_t column) {
  Placed matrix = value;
  const Strides& strides = value.layout.strides;
  matrix.layout = {.strides = {strides[1], strides[2]},
                   .offset = value.layout.offset + batch * strides[0] + row * strides[1] + column * strides[2]};
  return matrix;
}

}  // namespace

// The expansion of one attention.
class Expander::AttentionExpansion {
 public:
  AttentionExpansion(Expander& expander, RegionState& region, const Op& op, const AttentionPlan& plan,
                     const AttentionRuns& runs, Placed result)
      : e_(expander),
        region_(region),
        op_(op),
        plan_(plan),
        operands_(region.graph.operands(op)),
        runs_(runs),
        extents_(runs.extents()),
        flash_(plan.algorithm == AttentionAlgorithm::flash),
        result_(std::move(result)),
        scores_(expander.machine_.tiles) {}

  void run() {
    const Shape& shape = region_.graph.type(region_.graph.result(op_)).shape;
    for (const ValueId extra : runs_.extras()) {
      extras_.push_back(region_.places[extra]);
      extras_.back().layout = expanded(extras_.back().layout, region_.graph.type(extra).shape, shape);
    }
    if (extents_.causal) place_causal_table();
    e_.builder_.begin_superstep();
    for (const Part& part : attention_parts(extents_, plan_)) {
      const int64_t batch = part.rect.row / extents_.m, begin = part.rect.row % extents_.m;
      const int64_t end = begin + part.rect.rows, heads_end = (part.rect.column + part.rect.columns) / extents_.dv;
      const TileId tile(part.tile.index % e_.machine_.tiles);
      for (int64_t head = part.rect.column / extents_.dv; head < heads_end; ++head)
        for (int64_t row = begin; row < end; row += plan_.block_m)
          attend({batch, head, {row, std::min(row + plan_.block_m, end)}, tile});
    }
    e_.builder_.end_superstep();
  }

 private:
  // Rows of one head.
  struct Block {
    int64_t batch, head;
    Range rows;
    TileId tile;
  };

  // Where a row's diagonal stands: flash reads a number for each block, materialized scores a mask.
  void place_causal_table() {
    if (flash_) {
      Tensor numbers(DType::i32, {extents_.m});
      for (int64_t row = 0; row < extents_.m; ++row) numbers.data<int32_t>()[row] = runs_.diagonal(row, 0);
      causal_table_ = e_.constant_place({std::make_shared<const Tensor>(std::move(numbers))});
    } else {
      causal_table_ = e_.constant_place({std::make_shared<const Tensor>(runs_.causal_mask())});
    }
  }

  void attend(const Block& block) {
    const int64_t kv_batch = extents_.kv_batch_of(block.batch), kv_head = extents_.kv_head_of(block.head);
    const Placed q = matrix_of(region_.places[operands_[0]], block.batch, block.rows.begin, block.head * extents_.d);
    const Placed k = matrix_of(region_.places[operands_[1]], kv_batch, 0, kv_head * extents_.d);
    const Placed v = matrix_of(region_.places[operands_[2]], kv_batch, 0, kv_head * extents_.dv);
    if (flash_) {
      places_ = {q, k, v};
      add_mask(block);
      add_extras_and_result(block);
      return add_run(AttentionStage::Kind::flash, block);
    }
    // One block of scores for each tile, used by its runs one after the other.
    std::optional<Placed>& scores = scores_[block.tile.index];
    if (!scores) scores = e_.new_place({runs_.sum_type(), {plan_.block_m, extents_.n}});
    places_ = {q, k};
    add_mask(block);
    places_.push_back(*scores);
    add_run(AttentionStage::Kind::scores, block);
    places_ = {*scores, *scores};
    add_run(AttentionStage::Kind::softmax, block);
    places_ = {*scores, v};
    add_extras_and_result(block);
    add_run(AttentionStage::Kind::sums, block);
  }

  // The block's part of the mask and of the causal table, if there are any.
  void add_mask(const Block& block) {
    if (runs_.masked()) {
      // The mask is row-major or broadcast along any axis: its strides say where a row of a head begins.
      const Shape& shape = region_.graph.type(operands_[3]).shape;
      const int64_t index = block.batch * extents_.q_heads + block.head, heads = runs_.attributes().mask_heads;
      Placed matrix = region_.places[operands_[3]];
      const Strides s = matrix.layout.strides;
      matrix.layout.offset += (shape[0] == 1 ? 0 : index / heads * s[0]) + (shape[1] == 1 ? 0 : index % heads * s[1]) +
                              (shape[2] == 1 ? 0 : block.rows.begin * s[2]);
      matrix.layout.strides = {shape[2] == 1 ? 0 : s[2], shape[3] == 1 ? 0 : s[3]};
      places_.push_back(std::move(matrix));
    }
    if (causal_table_) {
      places_.push_back(*causal_table_);
      places_.back().layout.offset += block.rows.begin * (flash_ ? 1 : extents_.n);
    }
  }

  void add_extras_and_result(const Block& block) {
    const auto add = [&](const Placed& value) {
      places_.push_back(matrix_of(value, block.batch, block.rows.begin, block.head * extents_.dv));
    };
    for (const Placed& extra : extras_) add(extra);
    add(result_);
  }

  // A run over places_.
  void add_run(AttentionStage::Kind kind, const Block& block) {
    std::vector<Strides> strides;
    strides.reserve(places_.size());
    for (const Placed& place : places_) strides.push_back(place.layout.strides);
    const AttentionRuns::Form form = runs_.form({.kind = kind}, block.rows.size(), extents_.n, strides);
    std::vector<View> views;
    views.reserve(places_.size());
    for (size_t i = 0; i < places_.size(); ++i)
      views.push_back(e_.view(places_[i], places_[i].layout.offset, form.extents[i], form.strides[i]));
    e_.builder_.run(e_.builder_.contract(form.contract), block.tile, views);
  }

  Expander& e_;
  RegionState& region_;
  const Op& op_;
  const AttentionPlan& plan_;
  std::span<const ValueId> operands_;
  const AttentionRuns& runs_;
  const AttentionExtents& extents_;
  bool flash_;
  Placed result_;
  std::vector<Placed> extras_;
  std::optional<Placed> causal_table_;
  std::vector<std::optional<Placed>> scores_;  // materialized: by tile
  std::vector<Placed> places_;                 // of the operands of the next run
};

Result<void> Expander::expand_attention(RegionState& region, const Op& op, const AttentionPlan& plan) {
  const AttentionRuns runs(region.graph, op, machine_);
  LOW_TRY_VOID(runs.check_size());
  const ValueId value = region.graph.result(op);
  const Placed result = result_place(region, value);
  region.places[value] = result;
  if (region.graph.type(value).shape.elements() == 0) return {};  // however many batches of nothing
  AttentionExpansion(*this, region, op, plan, runs, result).run();
  return {};
}

}  // namespace low
