#include <algorithm>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/passes.h"

namespace low {
namespace {

bool is_8bit_integer(DType type) { return type == DType::i8 || type == DType::u8; }

// An operand of a matmul that is movement (innermost first) of a dequantize whose scale does not run along k.
struct Scaled {
  ValueId stored;           // of the old graph
  std::vector<OpId> moves;  // reshape, transpose and expand operations after the dequantize, in order
  ValueId scale;            // of the old graph
  std::optional<int> axis;  // of the matmul's operand that the scale runs along
};

class Folder {
 public:
  explicit Folder(const Graph& graph) : graph_(graph), map_(graph.value_count()) {}

  Result<Graph> run() {
    for (const Op& op : graph_.ops()) {
      const auto* matmul = std::get_if<Matmul>(&op.attributes);
      if (matmul != nullptr && fold(op, *matmul)) continue;
      Attributes attributes = op.attributes;
      LOW_TRY_VOID(rewrite_body(attributes, fold_dequantize));
      copy_op(graph_, op, std::move(attributes), builder_, map_);
    }
    return std::move(builder_).finish();
  }

 private:
  const Op& producer(ValueId value) const { return graph_.op(graph_.value(value).producer); }

  // The axis after one movement, or nothing when the scale does not run along one axis there.
  static std::optional<int> moved_axis(const Attributes& move, int axis, const Shape& from, const Shape& to) {
    if (const auto* transpose = std::get_if<Transpose>(&move)) {
      for (int i = 0; i < to.rank(); ++i) {
        if (transpose->permutation[i] == axis) return i;
      }
      return std::nullopt;
    }
    if (std::holds_alternative<Expand>(move)) {
      const int moved = axis + to.rank() - from.rank();
      return to[moved] == from[axis] ? std::optional(moved) : std::nullopt;
    }
    // Reshape: an axis of the same extent with as many elements behind it holds the same index.
    if (from.elements() == 0) return std::nullopt;
    const Strides before = from.row_major_strides();
    const Strides after = to.row_major_strides();
    for (int i = 0; i < to.rank(); ++i) {
      if (to[i] == from[axis] && after[i] == before[axis]) return i;
    }
    return std::nullopt;
  }

  static bool is_move(const Attributes& attributes) {
    return std::holds_alternative<Reshape>(attributes) || std::holds_alternative<Transpose>(attributes) ||
           std::holds_alternative<Expand>(attributes);
  }

  // `inner`: the axis of the matmul's operand that is multiplied and added.
  std::optional<Scaled> find(ValueId operand, int inner) const {
    Scaled out;
    ValueId value = operand;
    while (is_move(producer(value).attributes)) {
      out.moves.push_back(graph_.value(value).producer);
      value = graph_.operands(producer(value))[0];
    }
    std::ranges::reverse(out.moves);
    const Op& op = producer(value);
    const auto* dequantize = std::get_if<Dequantize>(&op.attributes);
    if (dequantize == nullptr || graph_.operands(op).size() != 2) return std::nullopt;
    out.stored = graph_.operands(op)[0];
    out.scale = graph_.operands(op)[1];
    const DType storage = graph_.type(out.stored).dtype;
    if (!is_fp8(storage) && !is_8bit_integer(storage)) return std::nullopt;
    if (graph_.type(out.scale).dtype == DType::f64) return std::nullopt;
    out.axis = dequantize->axis;
    for (const OpId id : out.moves) {
      if (!out.axis) break;
      const Op& move = graph_.op(id);
      out.axis = moved_axis(move.attributes, *out.axis, graph_.type(graph_.operands(move)[0]).shape,
                            graph_.type(graph_.result(move)).shape);
      if (!out.axis) return std::nullopt;
    }
    if (out.axis && *out.axis == inner) return std::nullopt;
    return out;
  }

  // The movement of the dequantized values, applied to the stored ones.
  ValueId replay(const Scaled& scaled) {
    ValueId value = map_[scaled.stored.index];
    for (const OpId id : scaled.moves) {
      const Op& move = graph_.op(id);
      const Type type{builder_.type(value).dtype, graph_.type(graph_.result(move)).shape};
      const OpId added = builder_.add(move.attributes, {&value, 1}, {&type, 1}, move.name);
      value = builder_.peek().result(builder_.peek().op(added));
    }
    return value;
  }

  // The scale, shaped to broadcast against the result. `result_axis`: the result's axis that it runs along.
  ValueId shaped_scale(const Scaled& scaled, int result_axis, int rank, const std::string& name) {
    const ValueId scale = map_[scaled.scale.index];
    if (!scaled.axis) return scale;
    Shape shape{builder_.type(scale).shape[0]};
    for (int i = result_axis + 1; i < rank; ++i) shape.append(1);
    return builder_.reshape(scale, shape, name);
  }

  bool fold(const Op& op, const Matmul& matmul) {
    if (matmul.accumulate != DType::f32) return false;
    const std::span<const ValueId> operands = graph_.operands(op);
    const Type type = graph_.type(graph_.result(op));
    const int rank = type.shape.rank();
    const int a_rank = graph_.type(operands[0]).shape.rank();
    const int b_rank = graph_.type(operands[1]).shape.rank();
    const int a_inner = a_rank - (matmul.transpose_a ? 2 : 1);
    const int b_inner = b_rank - (matmul.transpose_b ? 1 : 2);
    std::optional<Scaled> a = find(operands[0], a_inner);
    std::optional<Scaled> b = find(operands[1], b_inner);
    const auto integer = [&](const std::optional<Scaled>& side) {
      return side && is_8bit_integer(graph_.type(side->stored).dtype);
    };
    const bool integers = integer(a) && integer(b);
    if (integers) {
      // The exact sum must fit: |product| <= 255 * 255.
      const int64_t k = graph_.type(operands[0]).shape[a_inner];
      if (k > INT32_MAX / (255 * 255)) return false;
    } else {
      // An integer times a float would be neither exact nor fast.
      if (integer(a)) a.reset();
      if (integer(b)) b.reset();
    }
    if (!a && !b) return false;

    Matmul out = matmul;
    out.accumulate = integers ? DType::i32 : DType::f32;
    std::vector<ValueId> values = {a ? replay(*a) : map_[operands[0].index], b ? replay(*b) : map_[operands[1].index]};
    std::vector<ValueId> scales;
    if (a) {
      // Batch axes are aligned at their ends; m is the last but one.
      const int axis = a->axis.value_or(0);
      scales.push_back(shaped_scale(*a, axis >= a_rank - 2 ? rank - 2 : axis + rank - a_rank, rank, op.name));
    }
    if (b) {
      const int axis = b->axis.value_or(0);
      scales.push_back(shaped_scale(*b, axis >= b_rank - 2 ? rank - 1 : axis + rank - b_rank, rank, op.name));
    }
    const std::span<const ValueId> extras = operands.subspan(2);
    ExprBuilder builder(static_cast<int>(1 + scales.size() + extras.size()));
    uint16_t sum = builder.convert(builder.input(0, out.accumulate), DType::f32);
    int next = 1;
    for (const ValueId scale : scales) {
      const uint16_t factor = builder.convert(builder.input(next++, builder_.type(scale).dtype), DType::f32);
      sum = builder.binary(ExprOp::mul, sum, factor);
    }
    std::vector<uint16_t> arguments = {sum};
    for (const ValueId extra : extras) arguments.push_back(builder.input(next++, graph_.type(extra).dtype));
    sum = matmul.epilogue ? builder.inline_expr(*matmul.epilogue, arguments) : builder.convert(sum, type.dtype);
    out.epilogue = std::move(builder).finish(sum);
    values.insert(values.end(), scales.begin(), scales.end());
    for (const ValueId extra : extras) values.push_back(map_[extra.index]);
    const OpId added = builder_.add(std::move(out), values, {&type, 1}, op.name);
    map_[graph_.result(op).index] = builder_.peek().result(builder_.peek().op(added));
    return true;
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::vector<ValueId> map_;
};

}  // namespace

Result<Graph> fold_dequantize(const Graph& graph) { return Folder(graph).run(); }

}  // namespace low
