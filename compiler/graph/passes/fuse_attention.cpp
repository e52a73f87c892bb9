// Attention written out, as one operation. The part that finds it; pack_heads.cpp then undoes the splitting of heads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/passes/copy_op.h"
#include "compiler/graph/passes/pack_heads.h"
#include "compiler/graph/passes/passes.h"

namespace low {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int max_chain = 32;  // operations between the product and the softmax, and views in front of an operand

int64_t product_of(std::span<const int64_t> extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

// All axes but the last two.
std::span<const int64_t> leading(const Shape& shape) {
  return shape.extents().first(static_cast<size_t>(shape.rank() - 2));
}

struct MaskTerm {
  enum class Kind {
    add,
    keep,
    drop
  } kind = Kind::add;  // keep and drop: bool, whether true or false leaves the score alone
  double fill = 0;     // keep and drop: what takes the score's place
  ValueId value;       // of the old graph
  Shape scores;        // what it broadcasts to
};

// What the chain from the product to some value does.
struct Scores {
  const Op* product = nullptr;
  enum class Phase { product, tanh, capped } phase = Phase::product;
  double scale = 1, cap = 0;
  std::vector<MaskTerm> masks;  // in the order in which the model applies them
};

// The elements of an expression's nodes: a constant, the scores, or an operand as it is.
struct Element {
  enum class Kind { other, constant, scores, operand } kind = Kind::other;
  double constant = 0;
  size_t operand = 0;
};

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), map_(graph.value_count()), uses_(graph.value_count()) {
    for (const Op& op : graph.ops()) {
      for (const ValueId operand : graph.operands(op)) ++uses_[operand.index];
    }
  }

  Result<Graph> run() {
    for (const Op& op : graph_.ops()) {
      if (std::holds_alternative<Matmul>(op.attributes) && replace(op)) continue;
      if (const auto* attention = std::get_if<Attention>(&op.attributes)) {
        emit(op, *attention, {graph_.operands(op).begin(), graph_.operands(op).end()}, {});
        continue;
      }
      Attributes attributes = op.attributes;
      LOW_TRY_VOID(rewrite_body(attributes, [](const Graph& body) { return Finder(body).run(); }));
      copy_op(graph_, op, std::move(attributes), builder_, map_);
    }
    return std::move(builder_).finish();
  }

 private:
  const Op& producer(ValueId value) const { return graph_.op(graph_.value(value).producer); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  ValueId operand(const Op& op, size_t i = 0) const { return graph_.operands(op)[i]; }

  // Types of scores and weights. Narrow ones are rounded in the model and not in an Attention, which is only more
  // precise.
  bool is_score(DType type) const {
    return wide_ ? type == DType::f64 : type == DType::f32 || type == DType::f16 || type == DType::bf16;
  }

  // The one element of a constant.
  std::optional<double> number(ValueId value) const {
    const auto* constant = std::get_if<Constant>(&producer(value).attributes);
    if (constant == nullptr || constant->tensor->elements() != 1 || !is_float(constant->tensor->dtype())) {
      return std::nullopt;
    }
    return constant->tensor->value(0);
  }

  // --- The chain

  // What a value that is read once is made of.
  std::optional<Scores> trace(ValueId value, int depth) const {
    const Op& op = producer(value);
    if (depth == 0 || uses_[value.index] != 1 || !is_score(graph_.type(value).dtype) || shape(value).rank() < 2) {
      return std::nullopt;
    }
    if (const auto* matmul = std::get_if<Matmul>(&op.attributes)) {
      const DType types[] = {graph_.type(operand(op, 0)).dtype, graph_.type(operand(op, 1)).dtype};
      if (matmul->epilogue || !is_score(types[0]) || !is_score(types[1])) return std::nullopt;
      Scores scores;
      scores.product = &op;
      return scores;
    }
    if (std::holds_alternative<Cast>(op.attributes)) {
      std::optional<Scores> scores = trace(operand(op), depth - 1);
      if (scores && !convert(*scores, graph_.type(operand(op)).dtype, graph_.type(value).dtype)) return std::nullopt;
      return scores;
    }
    if (std::holds_alternative<Reshape>(op.attributes)) {
      if (!keeps_rows(shape(operand(op)), shape(value))) return std::nullopt;
      return trace(operand(op), depth - 1);
    }
    const auto* pointwise = std::get_if<Pointwise>(&op.attributes);
    if (pointwise == nullptr) return std::nullopt;
    for (size_t i = 0; i < op.operands.count; ++i) {
      if (shape(operand(op, i)) != shape(value)) continue;
      const std::optional<Scores> inner = trace(operand(op, i), depth - 1);
      if (inner) return apply(*pointwise, op, i, *inner);
    }
    return std::nullopt;
  }

  // Whether a reshape leaves the last two axes alone.
  static bool keeps_rows(const Shape& from, const Shape& to) {
    return from.rank() >= 2 && to.rank() >= 2 && std::ranges::equal(from.extents().last(2), to.extents().last(2));
  }

  // The expression of a pointwise whose operand `which` is the scores.
  std::optional<Scores> apply(const Pointwise& pointwise, const Op& op, size_t which, Scores scores) const {
    std::vector<Element> elements;
    const Shape& full = shape(graph_.result(op));
    bool consumed = false;  // the scores go from node to node: none is read twice
    for (const ExprNode& node : pointwise.expr.nodes) {
      Element result;
      if (node.op == ExprOp::input) {
        const ValueId value = operand(op, node.argument);
        const std::optional<double> constant = number(value);
        if (node.argument == which) {
          if (std::exchange(consumed, true)) return std::nullopt;
          result.kind = Element::Kind::scores;
        } else if (constant) {
          result = {Element::Kind::constant, *constant, 0};
        } else {
          result = {Element::Kind::operand, 0, node.argument};
        }
      } else if (node.op == ExprOp::constant) {
        if (is_float(node.dtype)) result = {Element::Kind::constant, decode(node.dtype, node.literal), 0};
      } else {
        std::vector<Element> arguments;
        for (int i = 0; i < info(node.op).arity; ++i) arguments.push_back(elements[node.operand[i]]);
        const bool reads = std::ranges::count(arguments, Element::Kind::scores, &Element::kind) == 1;
        const bool converts = node.op == ExprOp::convert;
        const DType before = pointwise.expr.nodes[node.operand[0]].dtype;
        if (reads && is_score(node.dtype) &&
            (converts ? convert(scores, before, node.dtype) : step(node, arguments, op, full, scores))) {
          result.kind = Element::Kind::scores;
        } else if (converts) {
          result = arguments[0];
          if (result.kind != Element::Kind::constant) result.kind = Element::Kind::other;
        }
      }
      elements.push_back(result);
    }
    // A scores node that two others read would have changed the state twice.
    std::vector<int> readers(elements.size());
    for (const ExprNode& node : pointwise.expr.nodes) {
      for (int i = 0; i < info(node.op).arity; ++i) ++readers[node.operand[i]];
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      if (elements[i].kind == Element::Kind::scores && readers[i] > 1) return std::nullopt;
    }
    if (elements.back().kind != Element::Kind::scores) return std::nullopt;
    return scores;
  }

  // One node that reads the scores; false when it is nothing that an Attention does.
  bool step(const ExprNode& node, const std::vector<Element>& arguments, const Op& op, const Shape& full,
            Scores& scores) const {
    const auto is = [&](size_t i, Element::Kind kind) { return arguments[i].kind == kind; };
    const size_t other = arguments.size() == 2 && is(0, Element::Kind::scores) ? 1 : 0;
    switch (node.op) {
      case ExprOp::tanh:
        if (scores.phase != Scores::Phase::product || !scores.masks.empty()) return false;
        scores.phase = Scores::Phase::tanh;
        return true;
      case ExprOp::mul:
        return is(other, Element::Kind::constant) && multiply(scores, arguments[other].constant);
      case ExprOp::div:
        return is(1, Element::Kind::constant) && arguments[1].constant != 0 &&
               multiply(scores, 1 / arguments[1].constant);
      case ExprOp::add: {
        if (!is(other, Element::Kind::operand) || scores.phase == Scores::Phase::tanh) return false;
        const ValueId mask = operand(op, arguments[other].operand);
        if (!is_float(graph_.type(mask).dtype)) return false;
        scores.masks.push_back({MaskTerm::Kind::add, 0, mask, full});
        return true;
      }
      case ExprOp::where: {
        const bool keep = is(1, Element::Kind::scores);
        const size_t fill = keep ? 2 : 1;
        if (scores.phase == Scores::Phase::tanh || is(0, Element::Kind::scores)) return false;
        if (!is(0, Element::Kind::operand) || !is(fill, Element::Kind::constant)) return false;
        if (!(arguments[fill].constant < infinity)) return false;  // nor NaN
        scores.masks.push_back({keep ? MaskTerm::Kind::keep : MaskTerm::Kind::drop, arguments[fill].constant,
                                operand(op, arguments[0].operand), full});
        return true;
      }
      default:
        return false;
    }
  }

  // Masks go through the conversion with the scores: what took a score's place is rounded, perhaps to -infinity. What
  // was added would be, too, but is known to the run only.
  static bool convert(Scores& scores, DType from, DType to) {
    const bool narrower = byte_size(to) < byte_size(from);
    for (MaskTerm& mask : scores.masks) {
      if (narrower && mask.kind == MaskTerm::Kind::add) return false;
      mask.fill = decode(to, encode(to, mask.fill, Overflow::propagate));
    }
    return true;
  }

  static bool multiply(Scores& scores, double factor) {
    if (!std::isfinite(factor) || !scores.masks.empty()) return false;
    if (scores.phase == Scores::Phase::product) {
      scores.scale *= factor;
      return std::isfinite(scores.scale);
    }
    // cap * tanh(x) where x is (product * scale) / cap.
    if (scores.phase == Scores::Phase::capped || !(factor > 0)) return false;
    scores.phase = Scores::Phase::capped;
    scores.cap = factor;
    scores.scale *= factor;
    return std::isfinite(scores.scale);
  }

  // --- The replacement

  // Views in front of an operand, innermost first, and what they view.
  struct Viewed {
    ValueId value;
    std::vector<const Op*> views;
  };
  Viewed look_through(ValueId value) const {
    Viewed out{value, {}};
    while (out.views.size() < max_chain) {
      const Op& op = producer(out.value);
      if (!std::holds_alternative<Reshape>(op.attributes) && !std::holds_alternative<Transpose>(op.attributes)) break;
      out.views.push_back(&op);
      out.value = operand(op);
    }
    std::ranges::reverse(out.views);
    return out;
  }

  // The new value of an operand; a product with a number in front of it becomes part of `scale`.
  ValueId scaled_operand(ValueId value, double& scale) {
    const Viewed viewed = look_through(value);
    const Op& op = producer(viewed.value);
    const auto* pointwise = std::get_if<Pointwise>(&op.attributes);
    const std::optional<size_t> which = pointwise == nullptr ? std::nullopt : scaled_input(op);
    if (!which) return map_[value.index];
    const std::optional<Scores> end = apply(*pointwise, op, *which, Scores());
    if (!end || end->phase != Scores::Phase::product || !end->masks.empty() || !std::isfinite(scale * end->scale)) {
      return map_[value.index];
    }
    scale *= end->scale;
    ValueId moved = map_[operand(op, *which).index];
    for (const Op* view : viewed.views) {
      const auto* transpose = std::get_if<Transpose>(&view->attributes);
      moved = transpose != nullptr ? builder_.transpose(moved, transpose->permutation, view->name)
                                   : builder_.reshape(moved, shape(graph_.result(*view)), view->name);
    }
    return moved;
  }

  // The operand of a pointwise that has its shape, when all others are numbers.
  std::optional<size_t> scaled_input(const Op& op) const {
    std::optional<size_t> which;
    for (size_t i = 0; i < op.operands.count; ++i) {
      if (number(operand(op, i))) continue;
      const Type& type = graph_.type(operand(op, i));
      if (which || type.shape != shape(graph_.result(op)) || !is_score(type.dtype)) return std::nullopt;
      which = i;
    }
    return which && is_score(graph_.type(graph_.result(op)).dtype) ? which : std::nullopt;
  }

  ValueId swap_last(ValueId value) {
    const int rank = builder_.type(value).shape.rank();
    Shape permutation;
    for (int i = 0; i < rank; ++i) permutation.append(i < rank - 2 ? i : 2 * rank - 3 - i);
    return builder_.transpose(value, permutation);
  }

  // How many first axes of `batch` an operand with these leading axes has; it has 1 along the others. Nothing if it is
  // none of these.
  static std::optional<int64_t> shared_batch(std::span<const int64_t> own, std::span<const int64_t> batch) {
    if (own.size() > batch.size()) return std::nullopt;
    const size_t missing = batch.size() - own.size();
    int64_t product = 1;
    bool ended = false;
    for (size_t i = 0; i < batch.size(); ++i) {
      const int64_t extent = i < missing ? 1 : own[i - missing];
      if (extent == batch[i] && (!ended || extent == 1)) {
        product *= extent;
      } else if (extent == 1) {
        ended = true;
      } else {
        return std::nullopt;
      }
    }
    return product;
  }

  bool replace(const Op& op) {
    const auto& last = std::get<Matmul>(op.attributes);
    const Type& type = graph_.type(graph_.result(op));
    wide_ = type.dtype == DType::f64;
    if (last.epilogue || last.transpose_a || !is_score(type.dtype)) return false;
    if (!is_score(graph_.type(operand(op, 1)).dtype)) return false;
    // From the weights up to the softmax.
    ValueId weights = operand(op, 0);
    const Op* softmax = &producer(weights);
    for (int i = 0;; ++i) {
      if (i == max_chain || uses_[weights.index] != 1 || !is_score(graph_.type(weights).dtype)) return false;
      if (const auto* rowwise = std::get_if<Rowwise>(&softmax->attributes)) {
        const Shape last_axis{shape(weights).rank() - 1};
        if (rowwise->kind != Rowwise::Kind::softmax || rowwise->axes != last_axis || rowwise->epilogue) return false;
        break;
      }
      const bool cast = std::holds_alternative<Cast>(softmax->attributes);
      if (!cast && !std::holds_alternative<Reshape>(softmax->attributes)) return false;
      if (!keeps_rows(shape(operand(*softmax)), shape(weights))) return false;
      weights = operand(*softmax);
      softmax = &producer(weights);
    }
    const std::optional<Scores> scores = trace(operand(*softmax), max_chain);
    return scores && scores->phase != Scores::Phase::tanh && replace(op, last, *scores);
  }

  bool replace(const Op& op, const Matmul& last, const Scores& scores) {
    const auto& product = std::get<Matmul>(scores.product->attributes);
    const Shape& result = shape(graph_.result(op));
    const Shape& score_shape = shape(graph_.result(*scores.product));
    const ValueId q = operand(*scores.product, 0);
    const ValueId k = operand(*scores.product, 1);
    const ValueId v = operand(op, 1);
    const std::optional<int64_t> batch = shared_batch(leading(shape(q)), leading(score_shape));
    const std::optional<int64_t> key_batch = shared_batch(leading(shape(k)), leading(score_shape));
    const std::optional<int64_t> value_batch = shared_batch(leading(shape(v)), leading(result));
    if (!batch || *batch != product_of(leading(score_shape)) || *batch != product_of(leading(result))) return false;
    if (!key_batch || !value_batch || *key_batch != *value_batch) return false;
    const auto extent = [&](ValueId value, bool transposed, bool of_rows) {
      return shape(value)[shape(value).rank() - (transposed == of_rows ? 1 : 2)];
    };
    const Shape shapes[] = {
        {*batch, extent(q, product.transpose_a, true), extent(q, product.transpose_a, false)},
        {*key_batch, extent(k, product.transpose_b, false) /* n */, extent(k, product.transpose_b, true) /* d */},
        {*value_batch, extent(v, last.transpose_b, true), extent(v, last.transpose_b, false)}};
    Attention attention{.scale = scores.scale, .softcap = scores.cap};
    if (!attention_shape(attention, shapes[0], shapes[1], shapes[2])) return false;
    std::optional<ValueId> mask;
    if (!scores.masks.empty()) {
      mask = combine(scores.masks, attention);
      if (!mask) return false;
    }
    ValueId values[] = {scaled_operand(q, attention.scale), scaled_operand(k, attention.scale), map_[v.index]};
    // k of the product is [d, n] where it is not transposed.
    if (product.transpose_a) values[0] = swap_last(values[0]);
    if (!product.transpose_b) values[1] = swap_last(values[1]);
    if (last.transpose_b) values[2] = swap_last(values[2]);
    for (size_t i = 0; i < 3; ++i) values[i] = builder_.reshape(values[i], shapes[i], op.name);
    if (!wide_) attention.scale = static_cast<double>(static_cast<float>(attention.scale));
    std::vector<ValueId> operands(std::begin(values), std::end(values));
    if (mask) operands.push_back(*mask);
    const Type& type = graph_.type(graph_.result(op));
    const ValueId y = builder_.attention(attention, operands, type.dtype, op.name);
    map_[graph_.result(op).index] = builder_.reshape(y, type.shape, op.name);
    return true;
  }

  // An Attention of the model: numbers in front of its operands are part of its scale, too.
  void emit(const Op& op, Attention attention, const std::vector<ValueId>& old, std::vector<ValueId> operands) {
    wide_ =
        attention_type(graph_.type(old[0]).dtype, graph_.type(old[1]).dtype, graph_.type(old[2]).dtype) == DType::f64;
    for (size_t i = 0; i < old.size(); ++i) {
      operands.push_back(i < 2 ? scaled_operand(old[i], attention.scale) : map_[old[i].index]);
    }
    if (!wide_) attention.scale = static_cast<double>(static_cast<float>(attention.scale));
    const Type& type = graph_.type(graph_.result(op));
    map_[graph_.result(op).index] = builder_.attention(std::move(attention), operands, type.dtype, op.name);
  }

  // --- Masks

  // The mask as [mb, mh, rows, keys] for scores of these leading axes; `heads`: what mh stands for.
  std::optional<ValueId> four_axes(const MaskTerm& term, int64_t& heads) {
    const std::span<const int64_t> batch = leading(term.scores);
    const Shape& own = shape(term.value);
    Shape padded;
    for (int i = own.rank(); i < term.scores.rank(); ++i) padded.append(1);
    for (const int64_t extent : own) padded.append(extent);
    const std::span<const int64_t> extents = leading(padded);
    // Whether axes begin … end - 1 are all broadcast, or all there.
    const auto uniform = [&](size_t begin, size_t end) {
      bool ones = true;
      bool full = true;
      for (size_t i = begin; i < end; ++i) {
        ones = ones && extents[i] == 1;
        full = full && extents[i] == batch[i];
      }
      return ones || full;
    };
    size_t split = batch.size() < 2 ? 0 : 1;
    while (split < batch.size() && !(uniform(0, split) && uniform(split, batch.size()))) ++split;
    if (!uniform(0, split) || !uniform(split, batch.size())) return std::nullopt;
    heads = product_of(batch.subspan(split));
    const int rank = padded.rank();
    const Shape four{product_of(extents.first(split)), product_of(extents.subspan(split)), padded[rank - 2],
                     padded[rank - 1]};
    return builder_.reshape(map_[term.value.index], four);
  }

  // What one term makes of the masks before it; there may be none.
  ValueId applied(const std::optional<ValueId>& before, const MaskTerm& term, ValueId value, bool as_bool) {
    const DType compute = wide_ ? DType::f64 : DType::f32;
    if (term.kind == MaskTerm::Kind::add && !before) return value;
    if (term.kind == MaskTerm::Kind::keep && !before && as_bool) return value;
    ExprBuilder expr(before ? 2 : 1);
    const DType type = builder_.type(value).dtype;
    uint16_t result = expr.input(0, type);
    const auto earlier = [&] {
      if (!before) return expr.constant(compute, 0);
      return expr.convert(expr.input(1, builder_.type(*before).dtype), as_bool ? DType::boolean : compute);
    };
    if (term.kind == MaskTerm::Kind::add) {
      result = expr.binary(ExprOp::add, earlier(), expr.convert(result, compute));
    } else {
      if (term.kind == MaskTerm::Kind::drop) result = expr.unary(ExprOp::logical_not, result);
      if (!as_bool) {
        const uint16_t kept = earlier();
        result = expr.where(result, kept, expr.constant(compute, term.fill));
      } else if (before) {
        result = expr.binary(ExprOp::logical_and, earlier(), result);
      }
    }
    std::vector<ValueId> operands{value};
    if (before) operands.push_back(*before);
    return builder_.pointwise(std::move(expr).finish(result), operands);
  }

  // All terms as one mask, and in `attention` what it means. Conditions alone, with one number in place of scores, are
  // a mask of bool. Otherwise the numbers are added to the scores, as all else is: right if scores vanish beside them.
  // Nothing if they may not.
  std::optional<ValueId> combine(const std::vector<MaskTerm>& terms, Attention& attention) {
    const bool as_bool = std::ranges::all_of(terms, [&](const MaskTerm& term) {
      return term.kind != MaskTerm::Kind::add && term.fill == terms.front().fill;
    });
    // A score below 2^-52 of the number (2^-24 in f32) is rounded away; there are 4 bits to spare.
    const double absorbing = -max_finite(wide_ ? DType::f64 : DType::f32) * 0x1p-28;
    std::optional<ValueId> mask;
    std::optional<int64_t> known;  // heads of the masks that differ between them or between batches
    for (const MaskTerm& term : terms) {
      if (!as_bool && term.kind != MaskTerm::Kind::add && !(term.fill <= absorbing)) return std::nullopt;
      int64_t own = 1;
      const std::optional<ValueId> value = four_axes(term, own);
      if (!value) return std::nullopt;
      const Shape four = builder_.type(*value).shape;
      if (four[0] != 1 || four[1] != 1) {
        if (known && *known != own) return std::nullopt;
        known = own;
      }
      mask = applied(mask, term, *value, as_bool);
    }
    attention.masked = true;
    attention.mask_heads = known.value_or(1);
    if (as_bool) attention.masked_score = terms.front().fill;
    return mask;
  }

  const Graph& graph_;
  GraphBuilder builder_;
  std::vector<ValueId> map_;
  std::vector<int> uses_;
  bool wide_ = false;  // f64
};

bool has_attention(const Graph& graph) {
  return std::ranges::any_of(graph.ops(), [](const Op& op) {
    const auto* repeat = std::get_if<Repeat>(&op.attributes);
    return std::holds_alternative<Attention>(op.attributes) || (repeat != nullptr && has_attention(*repeat->body));
  });
}

}  // namespace

Result<Graph> fuse_attention(const Graph& graph) {
  LOW_TRY(const Graph found, Finder(graph).run());
  if (!has_attention(found)) return graph;
  LOW_TRY(const Graph canonical, canonicalize(found));
  return pack_heads(canonical);
}

}  // namespace low
