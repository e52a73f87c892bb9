#include <optional>
#include <utility>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/pack_heads.h"

namespace low {
namespace {

class Packer {
 public:
  explicit Packer(const Graph& graph) : graph_(graph), map_(graph.value_count()) {}

  Result<Graph> run() {
    for (const Op& op : graph_.ops()) {
      // Reshapes come when something reads them: their places should not tell how the model was written.
      if (std::holds_alternative<Reshape>(op.attributes)) continue;
      const auto* attention = std::get_if<Attention>(&op.attributes);
      if (attention != nullptr && pack(op, *attention)) continue;
      for (const ValueId operand : graph_.operands(op)) read(operand);
      Attributes attributes = op.attributes;
      LOW_TRY_VOID(rewrite_body(attributes, pack_heads));
      copy_op(graph_, op, std::move(attributes), builder_, map_);
    }
    return std::move(builder_).finish();
  }

 private:
  const Op& producer(ValueId value) const { return graph_.op(graph_.value(value).producer); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }

  // The new value; operands of reshapes are no reshapes.
  ValueId read(ValueId value) {
    ValueId& mapped = map_[value.index];
    if (!mapped.valid()) {
      const Op& op = producer(value);
      mapped = builder_.reshape(read(graph_.operands(op)[0]), shape(value), op.name);
    }
    return mapped;
  }

  // [batch, rows, heads, d] (or without the batch of 1), of which a value [batch * heads, rows, d] is the transpose.
  // Queries, keys and values of one layer may be parts of one value [batch, rows, parts, heads, d].
  struct Split {
    ValueId value;
    int64_t batch;
    int64_t part = 0, parts = 1;
  };
  std::optional<Split> split_of(ValueId value) const {
    const Op* op = &producer(value);
    if (std::holds_alternative<Reshape>(op->attributes)) op = &producer(graph_.operands(*op)[0]);
    if (const auto* slice = std::get_if<Slice>(&op->attributes)) return part_of(value, *op, *slice);
    const auto* transpose = std::get_if<Transpose>(&op->attributes);
    if (transpose == nullptr) return std::nullopt;
    const Shape& own = shape(value);
    const Shape& heads = shape(graph_.result(*op));
    const int rank = heads.rank();
    const bool with_batch = rank == 4 && transpose->permutation == Shape{0, 2, 1, 3};
    const bool without = rank == 3 && transpose->permutation == Shape{1, 0, 2};
    if ((!with_batch && !without) || heads[rank - 2] != own[1] || heads[rank - 1] != own[2]) return std::nullopt;
    return Split{graph_.operands(*op)[0], with_batch ? heads[0] : 1};
  }

  // The same for one part of a transpose to [parts, batch, heads, rows, d].
  std::optional<Split> part_of(ValueId value, const Op& op, const Slice& slice) const {
    const ValueId all = graph_.operands(op)[0];
    const auto* transpose = std::get_if<Transpose>(&producer(all).attributes);
    if (transpose == nullptr || transpose->permutation != Shape{2, 0, 3, 1, 4}) return std::nullopt;
    Shape one = shape(all);
    const int64_t parts = std::exchange(one[0], 1);
    const Shape& own = shape(value);
    for (int axis = 1; axis < 5; ++axis) {
      if (slice.start[axis] != 0) return std::nullopt;  // not backwards
    }
    if (shape(graph_.result(op)) != one || one[3] != own[1] || one[4] != own[2]) return std::nullopt;
    return Split{graph_.operands(producer(all))[0], one[1], slice.start[0], parts};
  }

  // The operand with its heads packed. Views do when there is one row or one head.
  std::optional<ValueId> packed(ValueId value, int64_t batch, const std::string& name) {
    const Shape& own = shape(value);
    const int64_t heads = own[0] / batch;
    const Shape to{batch, own[1], heads * own[2]};
    if (heads == 1 || own[1] == 1) return builder_.reshape(read(value), to, name);
    const std::optional<Split> split = split_of(value);
    if (!split || split->batch != batch) return std::nullopt;
    if (split->parts == 1) return builder_.reshape(read(split->value), to, name);
    const ValueId all = builder_.reshape(read(split->value), {batch, own[1], split->parts * to[2]}, name);
    return builder_.slice(all, {0, 0, split->part * to[2]}, {1, 1, 1}, to, name);
  }

  bool pack(const Op& op, const Attention& attention) {
    if (attention.q_heads != 1 || attention.kv_heads != 1 || attention.epilogue) return false;
    const std::span<const ValueId> old = graph_.operands(op);
    std::optional<Split> split;
    for (size_t i = 0; i < 3 && !split; ++i) split = split_of(old[i]);
    if (!split) return false;
    const int64_t batch = split->batch;
    const int64_t all = shape(old[0])[0];
    const int64_t all_kv = shape(old[1])[0];
    if (batch < 1 || all == 0 || all % batch != 0 || all_kv % batch != 0) return false;
    // Heads that share keys are neighbours: each batch has its own.
    if (all / batch % (all_kv / batch) != 0) return false;
    std::vector<ValueId> operands;
    for (size_t i = 0; i < 3; ++i) {
      const std::optional<ValueId> operand = packed(old[i], batch, op.name);
      if (!operand) return false;
      operands.push_back(*operand);
    }
    if (attention.masked) operands.push_back(read(old[3]));
    Attention out = attention;
    out.q_heads = all / batch;
    out.kv_heads = all_kv / batch;
    const Type& type = graph_.type(graph_.result(op));
    const ValueId y = builder_.attention(out, operands, type.dtype, op.name);
    const ValueId rows = builder_.reshape(y, {batch, type.shape[1], out.q_heads, type.shape[2]}, op.name);
    map_[graph_.result(op).index] =
        builder_.reshape(builder_.transpose(rows, {0, 2, 1, 3}, op.name), type.shape, op.name);
    return true;
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::vector<ValueId> map_;
};

}  // namespace

Result<Graph> pack_heads(const Graph& graph) { return Packer(graph).run(); }

}  // namespace low
