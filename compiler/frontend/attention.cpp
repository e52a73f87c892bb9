// Attention: one graph operation where only its result is wanted; matmuls, a softmax and formulas where the model asks
// for what is in between, or where an extent is 0.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "compiler/frontend/importer.h"
#include "compiler/frontend/terms.h"

namespace low {
namespace {

// What the model asks for; extents are checked. `keys` counts past ones, too.
struct Request {
  bool packed = false;  // [batch, rows, heads * d] rather than [batch, heads, rows, d]
  int64_t batch = 0, q_heads = 0, kv_heads = 0, rows = 0, keys = 0, d = 0, dv = 0;
  int64_t past = 0;
  bool has_past = false;
  bool counts = false;  // nonpad_kv_seqlen is there
  bool causal = false;
  std::optional<int64_t> left, right;  // keys that a query sees before and behind its own place, if that is limited
  double scale = 1, softcap = 0;
  int64_t mode = 0;  // of qk_matmul_output
  DType softmax = DType::f32;
  DType compute = DType::f32;
};

std::unexpected<Error> wrong_input(const Node& node, int i, std::string_view expected) {
  return node.invalid(fmt::format("input {} is {}, {} is expected", i, to_string(node.input(i).type), expected));
}

// Heads of a 3-D input: an attribute; of a 4-D one its second axis, with which the attribute agrees where it is given.
Result<int64_t> heads_of(const Node& node, std::string_view attribute, const ModelValue& value) {
  LOW_TRY(const int64_t stated, node.integer(attribute, 0));
  if (value.rank() == 4) {
    if (stated != 0 && stated != value.shape()[1]) {
      return node.invalid(fmt::format("{} is {}, but there are {} heads", attribute, stated, value.shape()[1]));
    }
    return value.shape()[1];
  }
  if (stated < 1 || value.shape()[2] % stated != 0) {
    return node.invalid(fmt::format("{} is {}, a divisor of {} is expected", attribute, stated, value.shape()[2]));
  }
  return stated;
}

Result<void> read_shapes(const Node& node, Request& r) {
  const ModelValue& q = node.input(0);
  const ModelValue& k = node.input(1);
  const ModelValue& v = node.input(2);
  for (int i = 0; i < 3; ++i) {
    const ModelValue& x = node.input(i);
    if (!is_arithmetic_float(x.dtype())) return wrong_input(node, i, "f16, bf16, f32 or f64");
    if ((x.rank() != 3 && x.rank() != 4) || x.rank() != q.rank()) return wrong_input(node, i, "3 or 4 axes, as in all");
  }
  if (q.dtype() != k.dtype()) {
    return node.invalid(
        fmt::format("inputs 0 and 1 are {} and {}: their data types differ", to_string(q.type), to_string(k.type)));
  }
  r.packed = q.rank() == 3;
  LOW_TRY(r.q_heads, heads_of(node, "q_num_heads", q));
  LOW_TRY(r.kv_heads, heads_of(node, "kv_num_heads", k));
  LOW_TRY(const int64_t v_heads, heads_of(node, "kv_num_heads", v));
  if (v_heads != r.kv_heads || r.kv_heads < 1 || r.q_heads < 1 || r.q_heads % r.kv_heads != 0) {
    return node.invalid(
        fmt::format("{} heads of queries, {} of keys and {} of values do not fit", r.q_heads, r.kv_heads, v_heads));
  }
  const int rows_axis = r.packed ? 1 : 2;
  const int last = q.rank() - 1;
  r.batch = q.shape()[0];
  r.rows = q.shape()[rows_axis];
  r.d = r.packed ? q.shape()[last] / r.q_heads : q.shape()[last];
  r.dv = r.packed ? v.shape()[last] / r.kv_heads : v.shape()[last];
  const int64_t k_d = r.packed ? k.shape()[last] / r.kv_heads : k.shape()[last];
  const int64_t new_keys = k.shape()[rows_axis];
  if (k.shape()[0] != r.batch || v.shape()[0] != r.batch || k_d != r.d || v.shape()[rows_axis] != new_keys) {
    return node.invalid(fmt::format("queries {}, keys {} and values {} do not fit", to_string(q.type),
                                    to_string(k.type), to_string(v.type)));
  }
  r.has_past = node.has(4);
  if (node.has(4) != node.has(5)) return node.invalid("past_key and past_value are given together or not at all");
  if (r.has_past) {
    const ModelValue& past_key = node.input(4);
    r.past = past_key.rank() == 4 ? past_key.shape()[2] : 0;
    const Type key{k.dtype(), {r.batch, r.kv_heads, r.past, r.d}};
    const Type value{v.dtype(), {r.batch, r.kv_heads, r.past, r.dv}};
    if (past_key.type != key) return wrong_input(node, 4, to_string(key));
    if (node.input(5).type != value) return wrong_input(node, 5, to_string(value));
  }
  int64_t all = 0;
  if (__builtin_add_overflow(r.past, new_keys, &r.keys) || __builtin_mul_overflow(r.batch, r.q_heads, &all) ||
      __builtin_mul_overflow(r.q_heads, r.dv, &all)) {
    return node.unsupported("the inputs are too large");
  }
  r.compute = attention_type(q.dtype(), k.dtype(), v.dtype());
  return {};
}

// Keys on one side, or nothing for -1, which is no limit.
Result<std::optional<int64_t>> read_window(const Node& node, std::string_view attribute) {
  LOW_TRY(const int64_t size, node.integer(attribute, -1));
  if (size < -1) return node.invalid(fmt::format("{} is {}, -1 or more is expected", attribute, size));
  // More than there can be keys is as good as no limit, and sums with it do not overflow.
  constexpr int64_t most = int64_t{1} << 60;
  return size == -1 || size > most ? std::nullopt : std::optional(size);
}

Result<void> read_attributes(const Node& node, Request& r) {
  LOW_TRY(const int64_t causal, node.integer("is_causal", 0));
  r.causal = causal != 0;
  LOW_TRY(r.left, read_window(node, "left_window_size"));
  LOW_TRY(r.right, read_window(node, "right_window_size"));
  if (r.causal) r.right = 0;  // which is never wider
  // As a model that writes attention out would have it: a constant of the scores' type.
  const double usual = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(r.d, 1)));
  r.scale = r.compute == DType::f64 ? usual : static_cast<double>(static_cast<float>(usual));
  if (node.has_attribute("scale")) {
    LOW_TRY(const float scale, node.number("scale", 0));
    r.scale = static_cast<double>(scale);
  }
  LOW_TRY(const float softcap, node.number("softcap", 0));
  if (!std::isfinite(r.scale) || !std::isfinite(softcap)) {
    return node.invalid(fmt::format("scale is {} and softcap {}, finite numbers are expected", r.scale, softcap));
  }
  r.softcap = softcap > 0 ? static_cast<double>(softcap) : 0;
  LOW_TRY(r.mode, node.integer("qk_matmul_output_mode", 0));
  if (r.mode < 0 || r.mode > 3) {
    return node.invalid(fmt::format("qk_matmul_output_mode is {}, 0 to 3 is expected", r.mode));
  }
  // A softmax in a narrower type would only be less precise.
  LOW_TRY(const auto precision, node.dtype("softmax_precision"));
  if (precision && !is_arithmetic_float(*precision)) {
    return node.invalid(fmt::format("softmax_precision is {}, a float is expected", name(*precision)));
  }
  r.softmax = precision == DType::f64 ? DType::f64 : r.compute;
  return {};
}

// nonpad_kv_seqlen, checked.
Result<void> read_counts(const Node& node, Request& r) {
  r.counts = node.has(6);
  if (!r.counts) return {};
  const Type expected{DType::i64, {r.batch}};
  if (node.input(6).type != expected) return wrong_input(node, 6, to_string(expected));
  if (r.has_past) return node.invalid("nonpad_kv_seqlen and past keys exclude each other");
  return {};
}

// The diagonal where it is the same in every batch: query i stands at key i + past.
std::optional<int64_t> diagonal(const Request& r) {
  if (r.counts || !r.right) return std::nullopt;
  return r.past + *r.right;
}

// What else the places of queries and keys say about who takes part, as a mask of bool that broadcasts to [batch, 1,
// rows, keys]; nothing if they say nothing. Query i stands at key i + past, or i + count - rows where the batch has
// `count` valid keys.
Result<std::optional<ModelValue>> place_mask(Node& node, const Request& r) {
  if (!r.counts && !r.left) return std::nullopt;
  // Of four axes: batch, one for all heads, row, key.
  const bool by_row = r.left || r.right;
  LOW_TRY(const ModelValue keys, node.emit().iota(r.keys, 0));
  LOW_TRY(const ModelValue rows, node.emit().iota(by_row ? r.rows : 1, 1));
  std::vector<ModelValue> operands;
  LOW_TRY(operands.emplace_back(), node.emit().reshape(keys, Shape{1, 1, 1, r.keys}));
  LOW_TRY(operands.emplace_back(), node.emit().reshape(rows, Shape{1, 1, by_row ? r.rows : 1, 1}));
  if (r.counts) {
    LOW_TRY(operands.emplace_back(), node.emit().reshape(node.input(6), Shape{r.batch, 1, 1, 1}));
  }
  ExprBuilder expr(static_cast<int>(operands.size()));
  const auto number = [&](int64_t value) { return expr.constant_bits(DType::i64, static_cast<uint64_t>(value)); };
  const auto sum = [&](uint16_t a, uint16_t b) { return expr.binary(ExprOp::add, a, b); };
  const auto at_most = [&](uint16_t a, uint16_t b) { return expr.binary(ExprOp::less_equal, a, b); };
  const auto both = [&](uint16_t a, uint16_t b) { return expr.binary(ExprOp::logical_and, a, b); };
  const uint16_t key = expr.input(0, DType::i64), row = expr.input(1, DType::i64);
  uint16_t result = 0;
  if (r.counts) {
    const uint16_t count = expr.input(2, DType::i64);
    const uint16_t place = sum(row, sum(count, number(-r.rows)));
    result = expr.binary(ExprOp::less, key, count);
    if (r.right) result = both(result, at_most(key, sum(place, number(*r.right))));
    if (r.left) result = both(result, at_most(place, sum(key, number(*r.left))));
  } else {
    result = at_most(sum(row, number(r.past)), sum(key, number(*r.left)));
  }
  LOW_TRY(const ModelValue mask, node.emit().pointwise(std::move(expr).finish(result), operands));
  return std::optional(mask);
}

// attn_mask, which broadcasts to [batch, q_heads, rows, keys], with four axes; bool or a float.
Result<ModelValue> given_mask(Node& node, const Request& r) {
  ModelValue mask = node.input(3);
  if (mask.rank() > 4) return wrong_input(node, 3, "a rank of at most 4");
  if (is_fp8(mask.dtype())) return wrong_input(node, 3, "bool or numbers");
  Shape shape;
  for (int i = mask.rank(); i < 4; ++i) shape.append(1);
  for (const int64_t extent : mask.shape()) shape.append(extent);
  LOW_TRY(mask, node.emit().reshape(mask, shape));
  if (mask.dtype() != DType::boolean && !is_float(mask.dtype())) {
    LOW_TRY(mask, node.emit().cast(mask, r.compute));
  }
  // Since opset 24 a mask may know less keys than there are: the others take no part.
  if (node.opset() >= 24 && mask.shape()[3] < r.keys) {
    Tensor fill(mask.dtype(), Shape{});
    if (is_float(mask.dtype())) {
      fill.set_bits(0, encode(mask.dtype(), -std::numeric_limits<double>::infinity(), Overflow::propagate));
    }
    const ModelValue operands[] = {mask, constant_value(std::move(fill))};
    LOW_TRY(mask, node.emit().pad(Pad{.mode = Pad::Mode::constant, .before = {0, 0, 0, 0}}, operands,
                                  Shape{0, 0, 0, r.keys - mask.shape()[3]}));
  }
  const Shape full{r.batch, r.q_heads, r.rows, r.keys};
  const std::optional<Shape> joined = broadcast(mask.shape(), full);
  if (!joined || *joined != full) {
    return wrong_input(node, 3, fmt::format("a mask that broadcasts to {}", to_string(full)));
  }
  return mask;
}

// What the given mask and the places say; nothing if there is neither.
Result<std::optional<ModelValue>> mask_of(Node& node, const Request& r) {
  std::optional<ModelValue> mask;
  if (node.has(3)) {
    LOW_TRY(mask, given_mask(node, r));
  }
  LOW_TRY(const std::optional<ModelValue> places, place_mask(node, r));
  if (!mask || !places) return mask ? mask : places;
  ExprBuilder expr(2);
  const uint16_t is_key = expr.input(0, DType::boolean);
  const uint16_t given = expr.input(1, mask->dtype());
  const uint16_t result =
      mask->dtype() == DType::boolean
          ? expr.binary(ExprOp::logical_and, is_key, given)
          : expr.where(is_key, given,
                       expr.constant_bits(mask->dtype(), encode(mask->dtype(), -std::numeric_limits<double>::infinity(),
                                                                Overflow::propagate)));
  const ModelValue pair[] = {*places, *mask};
  LOW_TRY(mask, node.emit().pointwise(std::move(expr).finish(result), pair));
  return mask;
}

// [batch, rows, heads * d] as [batch, heads, rows, d]; a 4-D value is that already.
Result<ModelValue> split_heads(Node& node, const ModelValue& value, int64_t heads) {
  if (value.rank() == 4) return value;
  const Shape& shape = value.shape();
  LOW_TRY(const ModelValue split, node.emit().reshape(value, Shape{shape[0], shape[1], heads, shape[2] / heads}));
  return node.emit().transpose(split, Shape{0, 2, 1, 3});
}

// The result [batch, heads, rows, dv] in the form of the inputs.
Result<ModelValue> join_heads(Node& node, const Request& r, const ModelValue& value) {
  if (!r.packed) return value;
  LOW_TRY(const ModelValue rows, node.emit().transpose(value, Shape{0, 2, 1, 3}));
  return node.emit().reshape(rows, Shape{r.batch, r.rows, r.q_heads * r.dv});
}

// Y as one operation. Packed inputs are its operands as they are, unless past keys, which are not packed, come first.
Result<ModelValue> whole(Node& node, const Request& r, const ModelValue& k, const ModelValue& v,
                         const std::optional<ModelValue>& mask) {
  Attention attention{.scale = r.scale, .softcap = r.softcap};
  attention.masked = attention.empty_is_zero = mask.has_value();
  if (mask) attention.mask_heads = r.q_heads;
  attention.diagonal = diagonal(r);
  const DType type = node.input(0).dtype();
  std::vector<ModelValue> operands;
  if (r.packed && !r.has_past) {
    attention.q_heads = r.q_heads;
    attention.kv_heads = r.kv_heads;
    operands = {node.input(0), node.input(1), node.input(2)};
    if (mask) operands.push_back(*mask);
    return node.emit().attention(attention, operands, type);
  }
  LOW_TRY(const ModelValue q, split_heads(node, node.input(0), r.q_heads));
  LOW_TRY(operands.emplace_back(), node.emit().reshape(q, Shape{r.batch * r.q_heads, r.rows, r.d}));
  LOW_TRY(operands.emplace_back(), node.emit().reshape(k, Shape{r.batch * r.kv_heads, r.keys, r.d}));
  LOW_TRY(operands.emplace_back(), node.emit().reshape(v, Shape{r.batch * r.kv_heads, r.keys, r.dv}));
  if (mask) operands.push_back(*mask);
  LOW_TRY(const ModelValue y, node.emit().attention(attention, operands, type));
  LOW_TRY(const ModelValue separate, node.emit().reshape(y, Shape{r.batch, r.q_heads, r.rows, r.dv}));
  return join_heads(node, r, separate);
}

struct AttentionParts {
  ModelValue y;
  ModelValue scores;  // qk_matmul_output in the mode that was asked for
};

// The same from its parts. Heads that share keys are an axis that keys and values broadcast along.
Result<AttentionParts> in_parts(Node& node, const Request& r, const ModelValue& k, const ModelValue& v,
                                const std::optional<ModelValue>& mask) {
  Emitter& emit = node.emit();
  const DType type = node.input(0).dtype();
  const Shape full{r.batch, r.q_heads, r.rows, r.keys};
  const int64_t group = r.q_heads / r.kv_heads;
  const Shape grouped{r.batch, r.kv_heads, group, r.rows, r.keys};
  AttentionParts parts;
  const auto keep = [&](int64_t mode, const ModelValue& value) -> Result<void> {
    if (mode == r.mode) {
      LOW_TRY(parts.scores, emit.cast(value, type));
    }
    return {};
  };
  LOW_TRY(ModelValue q, split_heads(node, node.input(0), r.q_heads));
  LOW_TRY(q, emit.reshape(q, Shape{r.batch, r.kv_heads, group, r.rows, r.d}));
  LOW_TRY(const ModelValue keys, emit.reshape(k, Shape{r.batch, r.kv_heads, 1, r.keys, r.d}));
  LOW_TRY(const ModelValue values, emit.reshape(v, Shape{r.batch, r.kv_heads, 1, r.keys, r.dv}));
  const Matmul product{.accumulate = compute_type(type), .transpose_b = true, .epilogue = {}};
  LOW_TRY(ModelValue scores, emit.matmul(product, q, keys, r.compute));
  LOW_TRY(scores, emit.reshape(scores, full));
  Formula scaling(1, r.compute);
  const Term scaled = scaling.input(0, r.compute) * r.scale;
  LOW_TRY(scores, emit.pointwise(std::move(scaling).finish(scaled, r.compute), std::span(&scores, 1)));
  LOW_TRY_VOID(keep(0, scores));
  if (r.softcap > 0) {
    Formula capping(1, r.compute);
    const Term capped = tanh(capping.input(0, r.compute) / r.softcap) * r.softcap;
    LOW_TRY(scores, emit.pointwise(std::move(capping).finish(capped, r.compute), std::span(&scores, 1)));
  }
  LOW_TRY_VOID(keep(1, scores));
  if (mask) {
    Formula masking(2, r.compute);
    const Term score = masking.input(0, r.compute);
    Term masked = score;
    if (mask->dtype() == DType::boolean) {
      const Term takes_part{score.builder, score.builder->input(1, DType::boolean)};
      masked = where(takes_part, score, -number_like(score, std::numeric_limits<double>::infinity()));
    } else {
      // A key that takes no part has a score of -infinity whatever it was.
      const Term added = masking.input(1, mask->dtype());
      const Term nothing = -number_like(added, std::numeric_limits<double>::infinity());
      masked = where(added == nothing, nothing, score + added);
    }
    const ModelValue pair[] = {scores, *mask};
    LOW_TRY(scores, emit.pointwise(std::move(masking).finish(masked, r.compute), pair));
  }
  if (const std::optional<int64_t> last_key = diagonal(r)) {
    LOW_TRY(const ModelValue row, emit.iota(r.rows, 1));
    LOW_TRY(const ModelValue key, emit.iota(r.keys, 0));
    ExprBuilder expr(3);
    const uint16_t last = expr.binary(ExprOp::add, expr.input(1, DType::i64),
                                      expr.constant_bits(DType::i64, static_cast<uint64_t>(*last_key)));
    const uint16_t takes_part = expr.binary(ExprOp::less_equal, expr.input(2, DType::i64), last);
    const uint16_t nothing =
        expr.constant_bits(r.compute, encode(r.compute, -std::numeric_limits<double>::infinity(), Overflow::propagate));
    const uint16_t result = expr.where(takes_part, expr.input(0, r.compute), nothing);
    const ModelValue operands[] = {scores, row, key};
    LOW_TRY(scores, emit.pointwise(std::move(expr).finish(result), operands));
  }
  LOW_TRY_VOID(keep(2, scores));
  LOW_TRY(scores, emit.cast(scores, r.softmax));
  LOW_TRY(scores,
          emit.rowwise(Rowwise{.kind = Rowwise::Kind::masked_softmax, .axes = {3}}, std::span(&scores, 1), r.compute));
  LOW_TRY_VOID(keep(3, scores));
  LOW_TRY(scores, emit.reshape(scores, grouped));
  LOW_TRY(ModelValue y, emit.matmul(Matmul{.accumulate = r.compute, .epilogue = {}}, scores, values, type));
  LOW_TRY(y, emit.reshape(y, Shape{r.batch, r.q_heads, r.rows, r.dv}));
  LOW_TRY(parts.y, join_heads(node, r, y));
  return parts;
}

// Inputs: Q, K, V, attn_mask, past_key, past_value and, since opset 24, nonpad_kv_seqlen. Outputs: Y, present_key,
// present_value, qk_matmul_output. Order: scale, softcap, masks, softmax. Causal: the last query sees all valid keys,
// the one before it one less, and so on. A row in which no key takes part is 0, in Y and in the weights
// (qk_matmul_output after softmax).
Handled import_attention(Node& node) {
  Request r;
  LOW_TRY_VOID(read_shapes(node, r));
  LOW_TRY_VOID(read_attributes(node, r));
  LOW_TRY_VOID(read_counts(node, r));
  LOW_TRY(const std::optional<ModelValue> mask, mask_of(node, r));
  const bool wants_scores = node.wants_output(3);
  const bool separate = r.has_past || wants_scores || node.wants_output(1) || node.wants_output(2);
  const bool empty = r.keys == 0 || r.d == 0 || r.dv == 0;
  const bool by_parts = wants_scores || empty || r.softmax != r.compute;
  ModelValue k = node.input(1);
  ModelValue v = node.input(2);
  if (separate || by_parts || !r.packed) {
    LOW_TRY(k, split_heads(node, k, r.kv_heads));
    LOW_TRY(v, split_heads(node, v, r.kv_heads));
  }
  if (r.has_past) {
    const ModelValue keys[] = {node.input(4), k};
    const ModelValue values[] = {node.input(5), v};
    LOW_TRY(k, node.emit().concat(keys, 2));
    LOW_TRY(v, node.emit().concat(values, 2));
  }
  AttentionParts parts;
  if (by_parts) {
    LOW_TRY(parts, in_parts(node, r, k, v, mask));
  } else {
    LOW_TRY(parts.y, whole(node, r, k, v, mask));
  }
  std::vector<ModelValue> results = {parts.y, k, v};
  if (wants_scores) results.push_back(parts.scores);
  return results;
}

}  // namespace

std::span<const OperatorInfo> attention_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Attention", 23, 3, 6, 4,
       "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision", import_attention},
      {"", "Attention", 24, 3, 7, 4,
       "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision", import_attention},
      {"", "Attention", 25, 3, 7, 4,
       "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale softcap "
       "softmax_precision",
       import_attention},
  };
  return rows;
}

}  // namespace low
