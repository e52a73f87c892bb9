#include <algorithm>

#include "compiler/low/expand/attention_runs.h"
#include "compiler/low/expand/tile_expander.h"

namespace low {
namespace {

// Columns [column, …) of a matrix.
Placed from_column(const Placed& matrix, int64_t column) {
  Placed result = matrix;
  result.layout.offset += column * matrix.layout.strides[1];
  return result;
}

}  // namespace

Result<void> TileExpander::expand_attention(RegionState& region, const Op& op, const AttentionPlan& plan) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId result = graph.result(op);
  const Shape& shape = graph.type(result).shape;
  const AttentionRuns runs(graph, op, machine_);
  const AttentionExtents& extents = runs.extents();
  const bool causal = extents.causal, flash = plan.algorithm == AttentionAlgorithm::flash;
  LOW_TRY_VOID(runs.check_size());
  const TileValueRef q_value = region.values[operands[0]], k_value = region.values[operands[1]],
                     v_value = region.values[operands[2]];

  // Where a row's diagonal stands: flash reads a number for each block and panel, materialized scores a mask.
  TileValueRef causal_value;
  if (causal) {
    Tensor table;
    if (flash) {
      table = Tensor(DType::i32, {1, extents.m + extents.n + 1});
      for (int64_t i = 0; i < table.elements(); ++i) table.data<int32_t>()[i] = runs.diagonal(i, extents.n);
    } else {
      table = runs.causal_mask();
    }
    auto tensor = std::make_shared<const Tensor>(std::move(table));
    causal_value = std::make_shared<TileValue>();
    causal_value->dtype = tensor->dtype();
    causal_value->rows = tensor->shape()[0];
    causal_value->columns = tensor->shape()[1];
    causal_value->constant = std::move(tensor);
    kept_.push_back(causal_value);
  }

  // A part's rows of one batch, with all of the part's heads.
  struct Work {
    const Shard* out;
    int64_t batch;
    Range rows, heads, kv_heads;
    int64_t last_panel;
    Placed q;
    std::vector<Placed> states;  // by head, in a part with several panels
  };
  const int64_t panels = std::max<int64_t>((extents.n + plan.block_n - 1) / plan.block_n, 1);
  std::vector<Work> works;
  int64_t supersteps = 1;
  for (const Shard& shard : region.values[result]->shards) {
    Work work{.out = &shard,
              .batch = shard.rect.row / extents.m,
              .rows = {},
              .heads = {},
              .kv_heads = {},
              .last_panel = 0,
              .q = {},
              .states = {}};
    work.rows.begin = shard.rect.row % extents.m;
    work.rows.end = work.rows.begin + shard.rect.rows;
    work.heads = {shard.rect.column / extents.dv, (shard.rect.column + shard.rect.columns) / extents.dv};
    work.kv_heads = {extents.kv_head_of(work.heads.begin), extents.kv_head_of(work.heads.end - 1) + 1};
    while (work.last_panel + 1 < panels &&
           runs.takes_part(work.rows.begin, work.rows.size(), (work.last_panel + 1) * plan.block_n))
      ++work.last_panel;
    supersteps = std::max(supersteps, work.last_panel + 1);
    works.push_back(std::move(work));
  }

  RunForms forms;
  std::vector<Placed> places;
  const auto add_run_of = [&](const AttentionStage& stage, int64_t rows, int64_t keys, TileId tile) {
    return run(forms, {static_cast<int64_t>(stage.kind), rows, keys, stage.continues ? 1 : 0, stage.partial ? 1 : 0},
               places, tile, [&] {
                 std::vector<Strides> strides;
                 strides.reserve(places.size());
                 for (const Placed& place : places) strides.push_back(place.layout.strides);
                 const AttentionRuns::Form made = runs.form(stage, rows, keys, strides);
                 RunForm form;
                 form.contract = builder_.contract(made.contract);
                 for (size_t i = 0; i < places.size(); ++i)
                   form.geometries.push_back(geometry(made.extents[i], made.strides[i]));
                 return form;
               });
  };
  Placed scores;
  TileId scores_tile;
  for (int64_t panel = 0; panel < supersteps; ++panel) {
    LOW_TRY_VOID(begin_superstep());
    for (Work& work : works) {
      if (panel > work.last_panel) continue;
      const TileId tile = work.out->tile;
      const int64_t rows = work.rows.size();
      const Range keys{panel * plan.block_n, std::min((panel + 1) * plan.block_n, extents.n)};
      const AttentionStage stage{
          .kind = AttentionStage::Kind::flash, .continues = panel > 0, .partial = panel < work.last_panel};
      if (panel == 0) {
        LOW_TRY(work.q, pull(q_value,
                             {work.batch * extents.m + work.rows.begin, work.heads.begin * extents.d, rows,
                              work.heads.size() * extents.d},
                             tile));
      }
      const int64_t key_row = extents.kv_batch_of(work.batch) * extents.n + keys.begin;
      LOW_TRY(const Placed k,
              pull(k_value, {key_row, work.kv_heads.begin * extents.d, keys.size(), work.kv_heads.size() * extents.d},
                   tile));
      LOW_TRY(const Placed v,
              pull(v_value, {key_row, work.kv_heads.begin * extents.dv, keys.size(), work.kv_heads.size() * extents.dv},
                   tile));
      std::vector<Placed> extras;
      if (!stage.partial) {
        for (const ValueId extra : runs.extras()) {
          LOW_TRY(Placed place,
                  pull_broadcast(region.values[extra], graph.type(extra).shape, shape, work.out->rect, tile));
          extras.push_back(std::move(place));
        }
      }
      if (!flash && scores_tile != tile) {  // the tile's works come one after the other
        scores = new_local(runs.sum_type(), rows, extents.n, tile);
        scores_tile = tile;
      }
      LOW_TRY_VOID(budget_.take(static_cast<double>(work.heads.size())));
      if (flash && panel == 0 && work.last_panel > 0)
        for (int64_t head = 0; head < work.heads.size(); ++head)
          work.states.push_back(new_local(runs.sum_type(), rows, extents.dv + 2, tile));

      for (int64_t index = 0; index < work.heads.size(); ++index) {
        const int64_t head = work.heads.begin + index;
        const int64_t kv = extents.kv_head_of(head) - work.kv_heads.begin;
        const Placed q = from_column(work.q, index * extents.d);
        const Placed head_k = from_column(k, kv * extents.d), head_v = from_column(v, kv * extents.dv);
        const auto add_mask = [&] -> Result<void> {
          if (!runs.masked()) return {};
          LOW_TRY(Placed mask,
                  pull(region.values[operands[3]],
                       {runs.mask_row(work.batch, head, work.rows.begin), runs.mask_by_key() ? keys.begin : 0,
                        runs.mask_by_row() ? rows : 1, runs.mask_by_key() ? keys.size() : 1},
                       tile));
          if (!runs.mask_by_row()) mask.layout.strides[0] = 0;
          if (!runs.mask_by_key()) mask.layout.strides[1] = 0;
          places.push_back(std::move(mask));
          return {};
        };
        const auto add_diagonals = [&](const Rect& rect) -> Result<void> {
          if (!causal) return {};
          LOW_TRY(Placed diagonals, pull(causal_value, rect, tile));
          places.push_back(std::move(diagonals));
          return {};
        };
        const auto add_results = [&] {
          for (const Placed& extra : extras) places.push_back(from_column(extra, index * extents.dv));
          places.push_back(from_column(work.out->place, index * extents.dv));
        };
        places = {q, head_k};
        if (flash) {
          places.push_back(head_v);
          LOW_TRY_VOID(add_mask());
          LOW_TRY_VOID(add_diagonals({0, work.rows.begin - keys.begin + extents.n, 1, 1}));
          if (stage.continues) places.push_back(work.states[static_cast<size_t>(index)]);
          if (stage.partial) {
            places.push_back(work.states[static_cast<size_t>(index)]);
          } else {
            add_results();
          }
          LOW_TRY_VOID(add_run_of(stage, rows, keys.size(), tile));
          continue;
        }
        LOW_TRY_VOID(add_mask());
        LOW_TRY_VOID(add_diagonals({work.rows.begin, 0, rows, extents.n}));
        places.push_back(scores);
        LOW_TRY_VOID(add_run_of({.kind = AttentionStage::Kind::scores}, rows, extents.n, tile));
        places = {scores, scores};
        LOW_TRY_VOID(add_run_of({.kind = AttentionStage::Kind::softmax}, rows, extents.n, tile));
        places = {scores, head_v};
        add_results();
        LOW_TRY_VOID(add_run_of({.kind = AttentionStage::Kind::sums}, rows, extents.n, tile));
      }
    }
    end_superstep();
  }
  return {};
}

}  // namespace low
