#include <algorithm>

#include "compiler/search/tile_account.h"

namespace low {

using namespace tile_account;

TileAttention tile_attention(const Graph& graph, const Op& op, std::span<const TileLayout> operands) {
  const std::span<const ValueId> values = graph.operands(op);
  std::vector<Layout> dense;
  for (const ValueId value : values) dense.push_back(row_major(graph.type(value).shape));
  TileAttention result;
  result.work = attention_work(graph, op, dense);
  const auto operand = [&](size_t i) {
    return TileAttention::Operand{operands[i], static_cast<int64_t>(byte_size(graph.type(values[i]).dtype))};
  };
  result.q = operand(0);
  result.k = operand(1);
  result.v = operand(2);
  size_t next = 3;
  if (std::get<Attention>(op.attributes).masked) {
    const Shape& mask = graph.type(values[next]).shape;
    result.mask = {operand(next), mask[2] != 1, mask[3] != 1, mask[0] * mask[1]};
    ++next;
  }
  for (; next < values.size(); ++next) result.extras.push_back(operand(next));
  return result;
}

TileCost tile_attention_cost(const Machine& machine, const TileAttention& attention, const AttentionPlan& plan) {
  TileCost result;
  const AttentionExtents& shape = attention.work.shape;
  if (shape.batch == 0 || shape.m == 0) return result;
  const TileAccountant account(machine);
  const TileLayout layout = layout_of(shape, plan);
  const bool flash = plan.algorithm == AttentionAlgorithm::flash;
  const int64_t part_heads = ceil_div(shape.q_heads, plan.grid_heads);
  const int64_t panels = ceil_div(shape.n, plan.block_n), panel = std::min(plan.block_n, shape.n);

  // What the busiest part gathers: once (its rows of q, mask and extras), and for all panels of keys.
  Traffic once, keys;
  uint64_t once_bytes = 0, key_bytes = 0;
  int64_t q_elements = 0, k_elements = 0, v_elements = 0;
  for_each_sample(layout.parts(), [&](uint64_t tile) {
    const auto h = static_cast<int64_t>(tile % plan.grid_heads);
    const auto i = static_cast<int64_t>(tile / plan.grid_heads % plan.grid_m);
    const auto b = static_cast<int64_t>(tile / plan.grid_heads / plan.grid_m);
    const Interval batch = part(shape.batch, layout.part_batch, b), rows = part(shape.m, layout.part_m, i);
    const Interval heads = part(shape.q_heads, part_heads, h);
    if (batch.size() == 0 || rows.size() == 0 || heads.size() == 0) return;
    const Interval kv_batch{shape.kv_batch_of(batch.begin), shape.kv_batch_of(batch.end - 1) + 1};
    const Interval kv_heads{shape.kv_head_of(heads.begin), shape.kv_head_of(heads.end - 1) + 1};
    const auto wanted = [](Interval matrices, int64_t matrix_rows, Interval of_rows, Interval of_heads, int64_t size) {
      return Wanted{.matrix_begin = matrices.begin,
                    .matrix_end = matrices.end,
                    .matrix_rows = matrix_rows,
                    .row_begin = of_rows.begin,
                    .row_end = of_rows.end,
                    .column_begin = of_heads.begin * size,
                    .column_end = of_heads.end * size};
    };
    uint64_t gathered = 0;
    const Arrival q = arrival(attention.q.layout, wanted(batch, shape.m, rows, heads, shape.d), tile);
    Traffic all = account.gather(q, attention.q.layout, attention.q.element_bytes, gathered);
    q_elements = std::max(q_elements, q.remote + q.local);
    for (const TileAttention::Operand& extra : attention.extras) {
      const Arrival from = arrival(extra.layout, wanted(batch, shape.m, rows, heads, shape.dv), tile);
      all += account.gather(from, extra.layout, extra.element_bytes, gathered);
    }
    if (attention.mask) {
      const TileAttention::Mask& mask = *attention.mask;
      const int64_t of_heads = std::min(mask.heads, batch.size() * heads.size());
      const Wanted mask_wanted{.matrix_end = of_heads,
                               .matrix_rows = mask.by_row ? shape.m : 1,
                               .row_begin = mask.by_row ? rows.begin : 0,
                               .row_end = mask.by_row ? rows.end : 1,
                               .column_end = mask.by_key ? shape.n : 1};
      all += account.gather(arrival(mask.layout, mask_wanted, tile), mask.layout, mask.element_bytes, gathered);
    }
    once = busier(once, all, machine);
    once_bytes = std::max(once_bytes, gathered);

    uint64_t of_keys = 0;
    const Interval everything{0, shape.n};
    const Arrival k = arrival(attention.k.layout, wanted(kv_batch, shape.n, everything, kv_heads, shape.d), tile);
    const Arrival v = arrival(attention.v.layout, wanted(kv_batch, shape.n, everything, kv_heads, shape.dv), tile);
    Traffic both = account.gather(k, attention.k.layout, attention.k.element_bytes, of_keys);
    both += account.gather(v, attention.v.layout, attention.v.element_bytes, of_keys);
    k_elements = std::max(k_elements, k.remote + k.local);
    v_elements = std::max(v_elements, v.remote + v.local);
    keys = busier(keys, both, machine);
    key_bytes = std::max(key_bytes, of_keys);
  });

  const auto parameter = [&](const TileAttention::Operand& operand, int64_t elements) {
    if (operand.layout.kind == TileLayout::Kind::constant)
      result.parameter_bytes += account.bytes(elements, operand.element_bytes) * operand.layout.iterations;
  };
  parameter(attention.q, q_elements);
  parameter(attention.k, k_elements);
  parameter(attention.v, v_elements);
  const int64_t result_elements = layout.shard_elements();
  for (const TileAttention::Operand& extra : attention.extras) parameter(extra, result_elements);
  if (attention.mask)
    parameter(*attention.mask, std::min(attention.mask->heads, layout.part_batch * part_heads) *
                                   (attention.mask->by_row ? layout.part_m : 1) *
                                   (attention.mask->by_key ? shape.n : 1));
  if (shape.causal)
    result.parameter_bytes +=
        flash ? account.bytes(1, 4) * static_cast<uint64_t>(panels) : account.bytes(layout.part_m * shape.n, 1);

  // Supersteps: one a panel.
  const auto count = static_cast<double>(panels);
  Traffic each = keys;
  each.received /= count;
  each.sent /= count;
  each.copied /= count;
  if (each.pieces > 0) each.pieces = std::max(each.pieces / count, 1.0);
  const auto compute = [&](int64_t of_keys) {
    CostSum all;
    for (const KernelWork& run : attention_runs(machine, attention.work, plan.algorithm, layout.part_m, of_keys))
      all.add(kernel_cost(machine, run), static_cast<double>(layout.part_batch * part_heads));
    return all.items;
  };
  Traffic first = each;
  first += once;
  account.superstep(result, first, compute(panel));
  if (panels > 1) account.superstep(result, each, compute(panel), count - 1);

  // Memory.
  const auto part_rows = static_cast<int64_t>(layout.part_batch * layout.part_m);
  const int64_t state_elements = !flash       ? layout.part_m * shape.n
                                 : panels > 1 ? part_rows * part_heads * (shape.dv + 2)
                                              : 0;
  result.result_bytes = account.bytes(result_elements, attention.work.result_bytes);
  result.working_bytes = once_bytes + (key_bytes + static_cast<uint64_t>(panels) - 1) / static_cast<uint64_t>(panels) +
                         account.bytes(state_elements, shape.score_bytes) + result.result_bytes;
  return result;
}

}  // namespace low
