// Local simplification of attention: its mask, keys that are repeated for groups of heads, and its epilogue.
#include <algorithm>
#include <cmath>

#include "compiler/graph/passes/rewriter.h"

namespace low {
namespace {

// In a row that has keys, something as low as this weighs nothing.
constexpr double most_negative_mask = -1e4;

// The d for which a mask lets row i have keys 0 … i + d and nothing else; nothing if it is another mask.
// `masked_score`: of a mask of bool.
std::optional<int64_t> diagonal_of(const Tensor& mask, double masked_score) {
  if (mask.shape()[0] != 1 || mask.shape()[1] != 1) return std::nullopt;
  const int64_t rows = mask.shape()[2];
  const int64_t keys = mask.shape()[3];
  bool infinite = true;
  bool full = false;
  std::optional<int64_t> diagonal;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t count = 0;
    bool ended = false;
    for (int64_t j = 0; j < keys; ++j) {
      const double value = mask.value(i * keys + j);
      const bool is_bool = mask.dtype() == DType::boolean;
      const bool is_key = is_bool ? value != 0 : value == 0;
      if (!is_key) {
        const double masked = is_bool ? masked_score : value;
        if (!(masked <= most_negative_mask)) return std::nullopt;
        infinite = infinite && std::isinf(masked);
      }
      if (is_key && ended) return std::nullopt;
      ended = ended || !is_key;
      count += is_key ? 1 : 0;
    }
    // A row of all keys fits many diagonals, but each row has more keys than the one before.
    if (!diagonal) {
      if (count == 0 || (full && count < keys)) return std::nullopt;
      full = count == keys;
      if (!full) diagonal = count - 1 - i;
    }
    if (diagonal && count != std::clamp<int64_t>(i + *diagonal + 1, 0, keys)) return std::nullopt;
  }
  if (!diagonal || (*diagonal < 0 && !infinite)) return std::nullopt;
  return diagonal;
}

// The mask without expansion, and with as few heads as it tells apart.
void simplify_mask(Rewriter& r, Attention& attention, std::vector<ValueId>& operands) {
  if (!attention.masked) return;
  ValueId& mask = operands[3];
  while (r.producer<Expand>(mask)) {
    const ValueId inner = r.producer_operand(mask);
    Shape four;
    for (int i = r.type(inner).shape.rank(); i < 4; ++i) four.append(1);
    for (const int64_t extent : r.type(inner).shape) four.append(extent);
    mask = r.reshape(inner, four, "");
  }
  const Shape shape = r.type(mask).shape;
  if (shape[0] == 1 && shape[1] == 1) attention.mask_heads = 1;
  const std::shared_ptr<const Tensor> tensor = r.tensor(mask);
  if (tensor == nullptr || attention.diagonal) return;
  // A row of extent 1 stands for all.
  if (shape[2] != r.type(operands[0]).shape[1] || shape[3] != r.type(operands[1]).shape[1]) return;
  if (const std::optional<int64_t> diagonal = diagonal_of(*tensor, attention.masked_score)) {
    attention.diagonal = diagonal;
    attention.masked = false;
    attention.mask_heads = 1;
    attention.masked_score = Attention().masked_score;
    operands.erase(operands.begin() + 3);
  }
}

// [parts, rows, d] of a value that repeats each of them for `repeats` neighbours.
struct Repeated {
  ValueId value;
  Shape shape;
};
std::optional<Repeated> repeated(const Rewriter& r, ValueId value) {
  if (!r.producer<Reshape>(value)) return std::nullopt;
  const ValueId expanded = r.producer_operand(value);
  if (!r.producer<Expand>(expanded)) return std::nullopt;
  const ValueId inner = r.producer_operand(expanded);
  const Shape from = r.type(inner).shape;
  const Shape to = r.type(expanded).shape;
  const Shape own = r.type(value).shape;
  const int rank = to.rank();
  if (from.rank() != rank || rank < 3) return std::nullopt;
  int64_t parts = 1;
  bool ended = false;
  for (int i = 0; i < rank - 2; ++i) {
    if (from[i] != to[i] && from[i] != 1) return std::nullopt;
    ended = ended || from[i] != to[i];
    if (ended && from[i] != 1) return std::nullopt;
    parts *= from[i];
  }
  for (const int i : {1, 2}) {
    if (from[rank - i] != own[3 - i] || to[rank - i] != own[3 - i]) return std::nullopt;
  }
  return Repeated{inner, {parts, own[1], own[2]}};
}

}  // namespace

std::optional<ValueId> simplify_attention(Rewriter& r, const Attention& attention, std::span<const ValueId> operands,
                                          const Type& type, const std::string& name) {
  Attention simple = attention;
  const size_t fixed = attention.masked ? 4 : 3;
  std::vector<ValueId> values(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(fixed));
  if (attention.diagonal && *attention.diagonal >= r.type(values[1]).shape[1] - 1) simple.diagonal.reset();
  simplify_mask(r, simple, values);
  // Then every row has its first key.
  if (!simple.masked && simple.diagonal.value_or(0) >= 0) simple.empty_is_zero = false;
  if (attention.q_heads == 1) {
    const std::optional<Repeated> k = repeated(r, values[1]);
    const std::optional<Repeated> v = repeated(r, values[2]);
    if (k && v && k->shape[0] == v->shape[0]) {
      values[1] = r.reshape(k->value, k->shape, name);
      values[2] = r.reshape(v->value, v->shape, name);
    }
  }
  if (attention.epilogue) {
    const DType accumulator = attention_type(r.type(values[0]).dtype, r.type(values[1]).dtype, r.type(values[2]).dtype);
    simple.epilogue = compact_epilogue(r, *attention.epilogue, operands.subspan(fixed), accumulator, type, values);
  }
  if (simple == attention && std::ranges::equal(values, operands)) return std::nullopt;
  return r.emit(simple, values, type, name);
}

}  // namespace low
