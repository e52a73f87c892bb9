#include <algorithm>

#include "compiler/search/distributed_account.h"

namespace low {

using namespace distributed_account;

DistributedAttention distributed_attention(const Graph& graph, const Op& op,
                                           std::span<const DistributedLayout> operands) {
  const std::span<const ValueId> values = graph.operands(op);
  std::vector<Layout> dense;
  for (const ValueId value : values) dense.push_back(row_major(graph.type(value).shape));
  DistributedAttention result;
  result.work = attention_work(graph, op, dense);
  const auto operand = [&](size_t i) {
    return DistributedAttention::Operand{operands[i], static_cast<int64_t>(byte_size(graph.type(values[i]).dtype))};
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

namespace {

// The cost of one plan of an attention.
class AttentionCost {
 public:
  AttentionCost(const Machine& machine, const DistributedAttention& attention, const AttentionPlan& plan)
      : account_(machine),
        attention_(attention),
        shape_(attention.work.shape),
        plan_(plan),
        layout_(layout_of(shape_, plan)),
        part_heads_(ceil_div(shape_.q_heads, plan.grid_heads)),
        panels_(ceil_div(shape_.n, plan.block_n)),
        flash_(plan.algorithm == AttentionAlgorithm::flash),
        k_(attention.k),
        v_(attention.v) {}

  DistributedCost run() {
    if (plan_.key_parts > 0) put_keys_together();
    for_each_sample(layout_.parts(), [&](uint64_t tile) { gather(tile); });
    add_parameters();
    add_panels();
    add_memory();
    return std::move(result_);
  }

 private:
  static Wanted wanted(Range matrices, int64_t matrix_rows, Range rows, Range heads, int64_t size) {
    return {.matrix_begin = matrices.begin,
            .matrix_end = matrices.end,
            .matrix_rows = matrix_rows,
            .row_begin = rows.begin,
            .row_end = rows.end,
            .column_begin = heads.begin * size,
            .column_end = heads.end * size};
  }

  // k and v go to the tiles that hold parts of them; what follows gathers them from there.
  void put_keys_together() {
    const DistributedLayout k = parts_of(shape_.d), v = parts_of(shape_.dv);
    Busiest busiest;
    uint64_t held = 0;
    for_each_sample(k.parts(), [&](uint64_t tile) {
      const auto [b, i, h, p] = place_in_grid(tile, k.grid_m, k.grid_n, 1);
      const Range rows = piece_range(shape_.n, k.part_m, i);
      uint64_t bytes = 0;
      Traffic both = moved(k_, wanted({b, b + 1}, shape_.n, rows, {h, h + 1}, shape_.d), tile, bytes);
      both += moved(v_, wanted({b, b + 1}, shape_.n, rows, {h, h + 1}, shape_.dv), tile, bytes);
      busiest.add(both, account_.machine());
      held = std::max(held, bytes);
    });
    account_.superstep(result_, busiest.traffic(), {});
    held_bytes_ = held;
    k_.layout = k;
    v_.layout = v;
  }
  DistributedLayout parts_of(int64_t width) const {
    const KeyParts parts = key_parts(shape_, plan_, width);
    return layout_of(parts.extents, parts.plan);
  }
  // To a place of its own, even if all of it lies on the tile.
  Traffic moved(const DistributedAttention::Operand& operand, const Wanted& part, uint64_t tile, uint64_t& bytes) {
    const Arrival from = arrival(operand.layout, part, tile);
    uint64_t gathered = 0;
    Traffic traffic = account_.gather(from, operand.layout, operand.element_bytes, gathered);
    if (from.direct()) traffic.copied += static_cast<double>(from.local * operand.element_bytes);
    bytes += account_.bytes(part.elements(), operand.element_bytes);
    return traffic;
  }

  // What the busiest part gathers: once (its rows of q, mask and extras), and for each panel of keys.
  void gather(uint64_t tile) {
    const auto [b, i, h, p] = place_in_grid(tile, plan_.grid_m, plan_.grid_heads, 1);
    const Range batch = piece_range(shape_.batch, layout_.part_batch, b);
    const Range rows = piece_range(shape_.m, layout_.part_m, i);
    const Range heads = piece_range(shape_.q_heads, part_heads_, h);
    if (batch.size() == 0 || rows.size() == 0 || heads.size() == 0) return;
    gather_rows(tile, batch, rows, heads);
    gather_keys(tile, {shape_.kv_batch_of(batch.begin), shape_.kv_batch_of(batch.end - 1) + 1},
                {shape_.kv_head_of(heads.begin), shape_.kv_head_of(heads.end - 1) + 1});
  }

  void gather_rows(uint64_t tile, Range batch, Range rows, Range heads) {
    uint64_t gathered = 0;
    const DistributedAttention::Operand& of_q = attention_.q;
    const Arrival q = arrival(of_q.layout, wanted(batch, shape_.m, rows, heads, shape_.d), tile);
    Traffic all = account_.gather(q, of_q.layout, of_q.element_bytes, gathered);
    q_elements_ = std::max(q_elements_, q.remote + q.local);
    for (const DistributedAttention::Operand& extra : attention_.extras) {
      const Arrival from = arrival(extra.layout, wanted(batch, shape_.m, rows, heads, shape_.dv), tile);
      all += account_.gather(from, extra.layout, extra.element_bytes, gathered);
    }
    if (attention_.mask) {
      const DistributedAttention::Mask& mask = *attention_.mask;
      const Wanted of_mask{.matrix_end = std::min(mask.heads, batch.size() * heads.size()),
                           .matrix_rows = mask.by_row ? shape_.m : 1,
                           .row_begin = mask.by_row ? rows.begin : 0,
                           .row_end = mask.by_row ? rows.end : 1,
                           .column_end = mask.by_key ? shape_.n : 1};
      all += account_.gather(arrival(mask.layout, of_mask, tile), mask.layout, mask.element_bytes, gathered);
    }
    once_.add(all, account_.machine());
    once_bytes_ = std::max(once_bytes_, gathered);
  }

  void gather_keys(uint64_t tile, Range kv_batch, Range kv_heads) {
    uint64_t gathered = 0;
    const Range all{0, shape_.n}, keys = panel_of(all, plan_.block_n, panels_);
    const DistributedAttention::Operand &of_k = k_, &of_v = v_;
    const Arrival k = arrival(of_k.layout, wanted(kv_batch, shape_.n, keys, kv_heads, shape_.d), tile);
    const Arrival v = arrival(of_v.layout, wanted(kv_batch, shape_.n, keys, kv_heads, shape_.dv), tile);
    Traffic both = account_.gather(k, of_k.layout, of_k.element_bytes, gathered);
    both += account_.gather(v, of_v.layout, of_v.element_bytes, gathered);
    both.sent /= static_cast<double>(panels_);
    k_elements_ = std::max(k_elements_, wanted(kv_batch, shape_.n, all, kv_heads, shape_.d).elements());
    v_elements_ = std::max(v_elements_, wanted(kv_batch, shape_.n, all, kv_heads, shape_.dv).elements());
    keys_.add(both, account_.machine());
    key_bytes_ = std::max(key_bytes_, gathered);
  }

  void add_parameters() {
    const auto parameter = [&](const DistributedAttention::Operand& operand, int64_t elements) {
      if (operand.layout.kind == DistributedLayout::Kind::constant)
        result_.parameter_bytes += account_.bytes(elements, operand.element_bytes) * operand.layout.iterations;
    };
    parameter(attention_.q, q_elements_);
    parameter(k_, k_elements_);
    parameter(v_, v_elements_);
    for (const DistributedAttention::Operand& extra : attention_.extras) parameter(extra, layout_.shard_elements());
    if (attention_.mask) {
      const DistributedAttention::Mask& mask = *attention_.mask;
      parameter(mask, std::min(mask.heads, layout_.part_batch * part_heads_) * (mask.by_row ? layout_.part_m : 1) *
                          (mask.by_key ? shape_.n : 1));
    }
    if (shape_.causal) {
      result_.parameter_bytes +=
          flash_ ? account_.bytes(1, 4) * static_cast<uint64_t>(panels_) : account_.bytes(layout_.part_m * shape_.n, 1);
    }
  }

  // One superstep a panel; the first gathers the rows, too.
  void add_panels() {
    const Traffic& each = keys_.traffic();
    Traffic first = each;
    first += once_.traffic();
    const AttentionAlgorithm algorithm = plan_.algorithm;
    CostSum compute;
    for (const KernelWork& run : attention_runs(account_.machine(), attention_.work, algorithm, layout_.part_m,
                                                std::min(plan_.block_n, shape_.n)))
      compute.add(kernel_cost(account_.machine(), run), static_cast<double>(layout_.part_batch * part_heads_));
    account_.superstep(result_, first, compute.items);
    if (panels_ > 1) account_.superstep(result_, each, compute.items, static_cast<double>(panels_ - 1));
  }

  void add_memory() {
    const int64_t part_rows = layout_.part_batch * layout_.part_m;
    const int64_t state_elements = !flash_       ? layout_.part_m * shape_.n
                                   : panels_ > 1 ? part_rows * part_heads_ * (shape_.dv + 2)
                                                 : 0;
    result_.result_bytes = account_.bytes(layout_.shard_elements(), attention_.work.result_bytes);
    result_.working_bytes = held_bytes_ + once_bytes_ + key_bytes_ +
                            account_.bytes(state_elements, shape_.score_bytes) + result_.result_bytes;
  }

  const DistributedAccountant account_;
  const DistributedAttention& attention_;
  const AttentionExtents& shape_;
  const AttentionPlan& plan_;
  const DistributedLayout layout_;
  const int64_t part_heads_, panels_;
  const bool flash_;
  DistributedAttention::Operand k_, v_;  // as they are gathered
  uint64_t held_bytes_ = 0;              // parts of k and v, put together
  DistributedCost result_;
  // Of the busiest part.
  Busiest once_, keys_;
  uint64_t once_bytes_ = 0, key_bytes_ = 0;
  int64_t q_elements_ = 0, k_elements_ = 0, v_elements_ = 0;
};

}  // namespace

DistributedCost distributed_attention_cost(const Machine& machine, const DistributedAttention& attention,
                                           const AttentionPlan& plan) {
  if (attention.work.shape.batch == 0 || attention.work.shape.m == 0) return {};
  return AttentionCost(machine, attention, plan).run();
}

}  // namespace low
