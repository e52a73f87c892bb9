#include <algorithm>

#include "compiler/low/expand/attention_runs.h"
#include "compiler/low/expand/distributed_expander.h"

namespace low {
namespace {

// Columns [column, …) of a matrix.
Placed from_column(const Placed& matrix, int64_t column) {
  Placed result = matrix;
  result.layout.offset += column * matrix.layout.strides[1];
  return result;
}

}  // namespace

// The expansion of one attention.
class DistributedExpander::AttentionExpansion {
 public:
  AttentionExpansion(DistributedExpander& expander, RegionState& region, const Op& op, const AttentionPlan& plan)
      : e_(expander),
        region_(region),
        plan_(plan),
        operands_(region.graph.operands(op)),
        result_(region.graph.result(op)),
        runs_(region.graph, op, expander.machine_),
        extents_(runs_.extents()),
        flash_(plan.algorithm == AttentionAlgorithm::flash) {}

  Result<void> run() {
    LOW_TRY_VOID(runs_.check_size());
    if (extents_.causal) make_causal_table();
    LOW_TRY_VOID(put_keys_together());
    const int64_t supersteps = find_work();
    for (int64_t panel = 0; panel < supersteps; ++panel) {
      LOW_TRY_VOID(e_.begin_superstep());
      for (Work& work : works_) {
        if (panel <= work.last_panel) LOW_TRY_VOID(attend(work, panel));
      }
      e_.end_superstep();
    }
    return {};
  }

 private:
  // A part's rows of one batch, with all of the part's heads.
  struct Work {
    const Shard* out;
    int64_t batch = 0;
    Range rows = {}, heads = {}, kv_heads = {};
    int64_t last_panel = 0;
    Placed q = {};
    std::vector<Placed> states = {};  // by head, in a part with several panels
    TileId tile() const { return out->tile; }
  };
  // One panel of keys, as a work sees it: k and v with the heads that it needs, the epilogue's operands with its own.
  struct Panel {
    Range keys;
    AttentionStage stage;
    Placed k, v;
    std::vector<Placed> extras;
  };

  // Where a row's diagonal stands: flash reads a number for each block and panel, materialized scores a mask.
  void make_causal_table() {
    Tensor table;
    if (flash_) {
      table = Tensor(DType::i32, {1, extents_.m + extents_.n + 1});
      for (int64_t i = 0; i < table.elements(); ++i) table.data<int32_t>()[i] = runs_.diagonal(i, extents_.n);
    } else {
      table = runs_.causal_mask();
    }
    auto tensor = std::make_shared<const Tensor>(std::move(table));
    causal_value_ = e_.new_value(tensor->dtype(), matrix_extents(tensor->shape()));
    causal_value_->constant = std::move(tensor);
  }

  // In parts that tiles gather them from, if the plan says so.
  Result<void> put_keys_together() {
    k_ = region_.values[operands_[1]];
    v_ = region_.values[operands_[2]];
    if (plan_.key_parts == 0) return {};
    LOW_TRY_VOID(e_.begin_superstep());
    LOW_TRY(const DistributedValueRef k, in_key_parts(k_, extents_.d));
    LOW_TRY(const DistributedValueRef v, in_key_parts(v_, extents_.dv));
    e_.end_superstep();
    k_ = k;
    v_ = v;
    return {};
  }
  Result<DistributedValueRef> in_key_parts(const DistributedValueRef& from, int64_t width) {
    const KeyParts parts = key_parts(extents_, plan_, width);
    const DistributedValueRef to = e_.new_value(from->dtype, {from->rows, from->columns});
    LOW_TRY(to->shards, e_.new_places(from->dtype, attention_parts(parts.extents, parts.plan), 1));
    for (const Shard& shard : to->shards) LOW_TRY_VOID(e_.pull_into(from, shard.rect, shard.tile, shard.place));
    return to;
  }

  // Returns the number of supersteps: of the panels that any part takes part in.
  int64_t find_work() {
    const int64_t panels = std::max<int64_t>(ceil_div(extents_.n, plan_.block_n), 1);
    int64_t supersteps = 1;
    for (const Shard& shard : region_.values[result_]->shards) {
      Work work{.out = &shard, .batch = shard.rect.row / extents_.m};
      work.rows.begin = shard.rect.row % extents_.m;
      work.rows.end = work.rows.begin + shard.rect.rows;
      work.heads = {shard.rect.column / extents_.dv, (shard.rect.column + shard.rect.columns) / extents_.dv};
      work.kv_heads = {extents_.kv_head_of(work.heads.begin), extents_.kv_head_of(work.heads.end - 1) + 1};
      while (work.last_panel + 1 < panels &&
             runs_.takes_part(work.rows.begin, work.rows.size(), (work.last_panel + 1) * plan_.block_n))
        ++work.last_panel;
      supersteps = std::max(supersteps, work.last_panel + 1);
      works_.push_back(std::move(work));
    }
    return supersteps;
  }

  // All heads of a work with one panel of keys.
  Result<void> attend(Work& work, int64_t panel_index) {
    LOW_TRY(const Panel panel, pull_panel(work, panel_index));
    if (!flash_ && scores_tile_ != work.tile()) {  // the tile's works come one after the other
      scores_ = e_.new_local(runs_.sum_type(), work.rows.size(), extents_.n, work.tile());
      scores_tile_ = work.tile();
    }
    LOW_TRY_VOID(e_.budget_.take(static_cast<double>(work.heads.size())));
    if (flash_ && panel_index == 0 && work.last_panel > 0) {
      for (int64_t head = 0; head < work.heads.size(); ++head)
        work.states.push_back(e_.new_local(runs_.sum_type(), work.rows.size(), extents_.dv + 2, work.tile()));
    }
    for (int64_t index = 0; index < work.heads.size(); ++index) {
      LOW_TRY_VOID(flash_ ? run_flash(work, panel, index) : run_materialized(work, panel, index));
    }
    return {};
  }

  Result<Panel> pull_panel(Work& work, int64_t index) {
    const TileId tile = work.tile();
    Panel panel{
        .keys = piece_range(extents_.n, plan_.block_n, index),
        .stage = {.kind = AttentionStage::Kind::flash, .continues = index > 0, .partial = index < work.last_panel},
        .k = {},
        .v = {},
        .extras = {}};
    if (index == 0) {
      LOW_TRY(work.q, e_.pull(region_.values[operands_[0]],
                              {work.batch * extents_.m + work.rows.begin, work.heads.begin * extents_.d,
                               work.rows.size(), work.heads.size() * extents_.d},
                              tile));
    }
    const int64_t row = extents_.kv_batch_of(work.batch) * extents_.n + panel.keys.begin;
    const auto of_heads = [&](int64_t size) {
      return Rect{row, work.kv_heads.begin * size, panel.keys.size(), work.kv_heads.size() * size};
    };
    LOW_TRY(panel.k, e_.pull(k_, of_heads(extents_.d), tile));
    LOW_TRY(panel.v, e_.pull(v_, of_heads(extents_.dv), tile));
    if (panel.stage.partial) return panel;
    const Shape& shape = region_.graph.type(result_).shape;
    for (const ValueId extra : runs_.extras()) {
      LOW_TRY(Placed place,
              e_.pull_broadcast(region_.values[extra], region_.graph.type(extra).shape, shape, work.out->rect, tile));
      panel.extras.push_back(std::move(place));
    }
    return panel;
  }

  // --- one head: `index` counts the work's ---

  Placed q_of(const Work& work, int64_t index) const { return from_column(work.q, index * extents_.d); }
  // Head `index` of k or v, whose heads have `size` columns.
  Placed kv_of(const Work& work, const Placed& kv, int64_t index, int64_t size) const {
    return from_column(kv, (extents_.kv_head_of(work.heads.begin + index) - work.kv_heads.begin) * size);
  }

  Result<void> run_flash(const Work& work, const Panel& panel, int64_t index) {
    places_ = {q_of(work, index), kv_of(work, panel.k, index, extents_.d), kv_of(work, panel.v, index, extents_.dv)};
    LOW_TRY_VOID(add_mask(work, panel, index));
    LOW_TRY_VOID(add_diagonals({0, work.rows.begin - panel.keys.begin + extents_.n, 1, 1}, work.tile()));
    if (panel.stage.continues) places_.push_back(work.states[static_cast<size_t>(index)]);
    if (panel.stage.partial) {
      places_.push_back(work.states[static_cast<size_t>(index)]);
    } else {
      add_extras_and_result(work, panel, index);
    }
    return add_run(panel.stage, work.rows.size(), panel.keys.size(), work.tile());
  }

  Result<void> run_materialized(const Work& work, const Panel& panel, int64_t index) {
    const int64_t rows = work.rows.size();
    places_ = {q_of(work, index), kv_of(work, panel.k, index, extents_.d)};
    LOW_TRY_VOID(add_mask(work, panel, index));
    LOW_TRY_VOID(add_diagonals({work.rows.begin, 0, rows, extents_.n}, work.tile()));
    places_.push_back(scores_);
    LOW_TRY_VOID(add_run({.kind = AttentionStage::Kind::scores}, rows, extents_.n, work.tile()));
    places_ = {scores_, scores_};
    LOW_TRY_VOID(add_run({.kind = AttentionStage::Kind::softmax}, rows, extents_.n, work.tile()));
    places_ = {scores_, kv_of(work, panel.v, index, extents_.dv)};
    add_extras_and_result(work, panel, index);
    return add_run({.kind = AttentionStage::Kind::sums}, rows, extents_.n, work.tile());
  }

  Result<void> add_mask(const Work& work, const Panel& panel, int64_t index) {
    if (!runs_.masked()) return {};
    const bool by_row = runs_.mask_by_row(), by_key = runs_.mask_by_key();
    LOW_TRY(Placed mask,
            e_.pull(region_.values[operands_[3]],
                    {runs_.mask_row(work.batch, work.heads.begin + index, work.rows.begin),
                     by_key ? panel.keys.begin : 0, by_row ? work.rows.size() : 1, by_key ? panel.keys.size() : 1},
                    work.tile()));
    if (!by_row) mask.layout.strides[0] = 0;
    if (!by_key) mask.layout.strides[1] = 0;
    places_.push_back(std::move(mask));
    return {};
  }
  Result<void> add_diagonals(const Rect& rect, TileId tile) {
    if (!extents_.causal) return {};
    LOW_TRY(Placed diagonals, e_.pull(causal_value_, rect, tile));
    places_.push_back(std::move(diagonals));
    return {};
  }
  void add_extras_and_result(const Work& work, const Panel& panel, int64_t index) {
    for (const Placed& extra : panel.extras) places_.push_back(from_column(extra, index * extents_.dv));
    places_.push_back(from_column(work.out->place, index * extents_.dv));
  }

  // A run over places_.
  Result<void> add_run(const AttentionStage& stage, int64_t rows, int64_t keys, TileId tile) {
    const std::initializer_list<int64_t> numbers = {static_cast<int64_t>(stage.kind), rows, keys,
                                                    stage.continues ? 1 : 0, stage.partial ? 1 : 0};
    return e_.run(forms_, numbers, places_, tile, [&] {
      std::vector<Strides> strides;
      strides.reserve(places_.size());
      for (const Placed& place : places_) strides.push_back(place.layout.strides);
      const AttentionRuns::Form made = runs_.form(stage, rows, keys, strides);
      RunForm form;
      form.contract = e_.builder_.contract(made.contract);
      for (size_t i = 0; i < places_.size(); ++i)
        form.geometries.push_back(e_.geometry(made.extents[i], made.strides[i]));
      return form;
    });
  }

  DistributedExpander& e_;
  RegionState& region_;
  const AttentionPlan& plan_;
  std::span<const ValueId> operands_;
  ValueId result_;
  AttentionRuns runs_;
  const AttentionExtents& extents_;
  bool flash_;
  DistributedValueRef k_, v_;  // where their parts are gathered from
  DistributedValueRef causal_value_;
  std::vector<Work> works_;
  Placed scores_;  // materialized: of one head of the work at hand
  TileId scores_tile_;
  RunForms forms_;
  std::vector<Placed> places_;  // of the operands of the next run
};

Result<void> DistributedExpander::expand_attention(RegionState& region, const Op& op, const AttentionPlan& plan) {
  return AttentionExpansion(*this, region, op, plan).run();
}

}  // namespace low
