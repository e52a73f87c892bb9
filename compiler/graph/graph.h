// Graph: the model as shaped SSA operations, before any decision about machines.
//
// A Graph is a list of operations in dependency order. Every operation has operands (values) and results (values). A
// region (the body of `repeat`) is a Graph of its own that sees nothing but its inputs. Built by GraphBuilder, verified
// in finish(), const from then on.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/base/ids.h"
#include "compiler/graph/expr.h"
#include "runtime/base/error.h"
#include "runtime/tensor/tensor.h"

namespace low {

using ValueId = Id<struct ValueTag>;
using OpId = Id<struct OpTag>;
class Graph;

struct Type {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);  // "f32[2,3]"

// () -> (value). The n-th `input` operation is the graph's n-th input; its name is the operation's.
struct Input {
  bool operator==(const Input&) const = default;
};
// () -> (value). `sha256` of dtype, shape and bytes is how a constant prints.
struct Constant {
  std::shared_ptr<const Tensor> tensor;
  bool operator==(const Constant& other) const { return tensor == other.tensor || *tensor == *other.tensor; }
};
// (value) -> (). The n-th `output` operation is the graph's n-th output; its name is the operation's.
struct Output {
  bool operator==(const Output&) const = default;
};
// (inputs…) -> (value). Inputs broadcast (NumPy rules) to the result's shape; input i is the expression's input i.
struct Pointwise {
  Expr expr;
  bool operator==(const Pointwise&) const = default;
};
// (a, b, extras…) -> (value). a: [batch…, m, k], b: [batch…, k, n]; batch dimensions broadcast; result [batch…, m, n].
// Every product is accumulated in `accumulate` (f32 for float operands up to 32 bits, f64 for f64, i32/i64/u32/u64
// else). The epilogue maps (accumulator, extras…) to the result's element; extras broadcast to the result's shape.
// Without one, the accumulator is converted to the result's dtype.
struct Matmul {
  DType accumulate = DType::f32;
  bool transpose_a = false;  // a is stored as [batch…, k, m]
  bool transpose_b = false;  // b is stored as [batch…, n, k]
  std::optional<Expr> epilogue;
  bool operator==(const Matmul&) const = default;
};
// (value) -> (value): moves elements without computing. All static.
struct Reshape {
  bool operator==(const Reshape&) const = default;
};
struct Transpose {
  Shape permutation;  // result axis i is operand axis permutation[i]
  bool operator==(const Transpose&) const = default;
};
// Result element i of an axis is operand element start + i * step, always in range. step may be negative, not 0.
struct Slice {
  Shape start;
  Shape step;
  bool operator==(const Slice&) const = default;
};
struct Expand {  // broadcasts to the result's shape
  bool operator==(const Expand&) const = default;
};
// (values…) -> (value): one after another along `axis`. At least one operand; all agree on the other axes.
struct Concat {
  int axis = 0;
  bool operator==(const Concat&) const = default;
};
// (value[, fill]) -> (value): `before` new elements in front of each axis, as many behind as the result's shape says.
// `constant`: the scalar operand `fill` (of the value's dtype); `edge`: the nearest element; `reflect`: mirrored
// without repeating the edge; `wrap`: periodic. Nothing is negative (cutting is a slice); reflect and wrap read an
// index modulo their period, which is 2 * extent - 2 (1 for an extent of 1) and the extent. Only `constant` has a fill,
// and only it may pad an axis of extent 0.
struct Pad {
  enum class Mode : uint8_t { constant, edge, reflect, wrap } mode = Mode::constant;
  Shape before;
  bool operator==(const Pad&) const = default;
};
// (data, indices) -> (value). Indices are i32 or i64; a negative one counts from the end; one out of range is clamped
// to the axis, so that no input makes a program read elsewhere (ONNX leaves it undefined; the frontend refuses constant
// ones).
//  `axis`: indices [i…] replace axis `axis` of data: result [data before axis…, i…, data behind axis…] (ONNX Gather)
//  `elements`: indices and result have one shape; result[i…] = data[i… with i[axis] = indices[i…]] (GatherElements)
//  `nd`: indices [batch…, i…, depth]; the last axis is an index into the data's axes batch … batch + depth (GatherND),
//        each element of which is counted from the end or clamped on its own; result [batch…, i…, data behind axis
//        batch + depth…]; depth is at least 1
// Other axes of `elements` may be shorter in indices than in data. Where the result has elements, no indexed axis of
// data is empty.
struct Gather {
  enum class Mode : uint8_t { axis, elements, nd } mode = Mode::axis;
  int axis = 0;        // axis, elements
  int batch_axes = 0;  // nd
  bool operator==(const Gather&) const = default;
};
// (value, extras…) -> (value): reduces `axes` (none: only map and epilogue), which stay with extent 1. The map is
// applied to each element before: an expression of one input that gives `accumulate` (without one, the element is
// converted to it). Elements are then combined in `accumulate`, which is f32, f64 or an integer type (that wraps); f32
// sums may be taken in any order. Then the epilogue maps (accumulator, extras…) to the result's element as in Matmul;
// without one, the accumulator is converted. An empty reduction gives the identity: 0 for sum, 1 for product, -infinity
// or the lowest integer for max, the opposite for min. max and min propagate NaN. `index_max` / `index_min` compare in
// `accumulate` and give the accumulator's place, as i64, of the extreme element along one axis, which is not empty
// (unless the result is): the first one among equals, or the last with `last`; NaN counts as extreme, and NaNs as
// equal.
struct Reduce {
  enum class Kind : uint8_t { sum, product, max, min, index_max, index_min } kind = Kind::sum;
  Shape axes;  // ascending
  DType accumulate = DType::f32;
  bool last = false;
  std::optional<Expr> map = std::nullopt;
  std::optional<Expr> epilogue = std::nullopt;
  bool operator==(const Reduce&) const = default;
};
// (value) -> (value), of one type: running sum along `axis`; `exclusive` leaves the element itself out; `reverse` runs
// from the end. Floats (not FP8) are summed in f32 (f64 for f64) and rounded where they are written; integers wrap.
struct Cumulative {
  int axis = 0;
  bool exclusive = false, reverse = false;
  bool operator==(const Cumulative&) const = default;
};
// (value, extras…) -> (value): normalizes groups of elements: all that differ only in `axes`. Floats; computed in f32
// (f64 for f64), in two passes:
//  softmax: exp(x - max) / sum(exp(x - max)); a group of -infinities alone gives NaN, as in ONNX
//  log_softmax: x - max - log(sum(exp(x - max)))
//  masked_softmax: softmax, but a group of -infinities alone, in which nothing takes part, gives zeros
//  layer_norm: (x - mean) / sqrt(mean((x - mean)^2) + epsilon)
//  rms_norm: x / sqrt(mean(x^2) + epsilon)
// The epilogue maps (normalized, extras…) to the result's element as in Matmul (scale and bias are extras). epsilon is
// 0 or more, and 0 for the softmaxes.
struct Rowwise {
  enum class Kind : uint8_t { softmax, log_softmax, layer_norm, rms_norm, masked_softmax } kind = Kind::softmax;
  Shape axes;  // ascending, not empty
  double epsilon = 0;
  std::optional<Expr> epilogue = std::nullopt;
  bool operator==(const Rowwise&) const = default;
};
// (q, k, v[, mask], extras…) -> (value): scaled dot-product attention with packed heads.
//   q: [batch, m, q_heads * d], k: [kv_batch, n, kv_heads * d], v: [kv_batch, n, kv_heads * dv]; result [batch, m,
//   q_heads * dv].
// kv_batch divides batch and kv_heads divides q_heads: batch b reads batch b / (batch / kv_batch) of k and v, head h
// their head h / (q_heads / kv_heads) (grouped queries). Tensors [b, heads, m, d] are the case batch = b * heads of one
// packed head each.
//   score[i, j] = (sum over d of q[i] k[j]) * scale; with softcap > 0: softcap * tanh(score / softcap); + mask[i, j]
//   result[i]   = sum over j of softmax over j (score[i])[j] * v[j], then the epilogue
// `mask` is bool (false: the score becomes `masked_score`, which is finite or -infinity) or a float that is added; its
// shape [mb, mh, m, n] broadcasts to [batch * q_heads / mask_heads, mask_heads, m, n], whose leading two axes count the
// heads in the order (batch, head); mask_heads divides batch * q_heads. `diagonal`: j takes part in row i only if j <=
// i + diagonal (causal attention; a past of p keys shifts it by p). A row of -infinities alone gives NaN, as softmax
// does, unless `empty_is_zero`: then it gives 0, and a key whose mask is -infinity takes no part whatever its score
// (which may be NaN or infinite). Computed in f32 (f64 for f64 operands). q, k, v: floats (FP8 included) of dtypes that
// may differ. The epilogue maps (normalized element, extras…) to the result's element as in Rowwise; extras broadcast
// to the result's shape; without one, it is converted. d, dv, n and the numbers of heads are at least 1.
struct Attention {
  int64_t q_heads = 1, kv_heads = 1, mask_heads = 1;
  bool masked = false;
  double scale = 1;
  double softcap = 0;
  std::optional<int64_t> diagonal = std::nullopt;
  bool empty_is_zero = false;
  double masked_score = -std::numeric_limits<double>::infinity();  // -infinity but where the mask is bool
  std::optional<Expr> epilogue = std::nullopt;
  bool operator==(const Attention&) const = default;
};
// (x, scale[, zero_point]) -> (value): saturate(round(x / scale) + zero_point), as ONNX. `axis` is the axis that a 1-D
// scale runs along; nothing for a scalar scale. The zero point has the result's dtype (quantize) or the operand's
// (dequantize).
struct Quantize {
  std::optional<int> axis;
  Overflow overflow = Overflow::saturate;
  bool operator==(const Quantize&) const = default;
};
// (x, scale[, zero_point]) -> (value): (x - zero_point) * scale, subtracted in i32 for integers.
struct Dequantize {
  std::optional<int> axis;
  bool operator==(const Dequantize&) const = default;
};
// (value) -> (value), to the result's dtype; as `convert` of an expression.
struct Cast {
  Overflow overflow = Overflow::propagate;
  bool operator==(const Cast&) const = default;
};
// Runs `body` `count` times.
//   operands: carried initial values, then invariant, then iterated ([count, …]: iteration i sees element i of axis 0)
//   body inputs: carried, invariant, iterated, in this order; body outputs: next carried, then collected
//   results: final carried values, then collected ones ([count, …]).
// The iteration number is an iterated constant 0, 1, 2, … that the frontend makes where a body asks for it.
struct Repeat {
  int64_t count = 0;
  uint32_t carried = 0;
  uint32_t invariant = 0;
  uint32_t iterated = 0;
  uint32_t collected = 0;
  std::shared_ptr<const Graph> body;
  bool operator==(const Repeat& other) const;
};

using Attributes = std::variant<Input, Constant, Output, Pointwise, Matmul, Reshape, Transpose, Slice, Expand, Quantize,
                                Dequantize, Cast, Repeat, Concat, Pad, Gather, Reduce, Cumulative, Rowwise, Attention>;

struct Op {
  Attributes attributes;
  Span32 operands;  // in Graph::operand_pool
  Span32 results;   // consecutive ValueIds: results.begin is the first
  std::string
      name;  // where it came from ("" if nowhere): for messages, printed, without meaning (but for input and output)
};

struct Value {
  Type type;
  OpId producer;
  uint32_t result = 0;  // which of the producer's results
};

// "pointwise", "matmul", …: the operation's name in text.
std::string_view kind_name(const Attributes& attributes);

class Graph {
 public:
  size_t op_count() const { return ops_.size(); }
  size_t value_count() const { return values_.size(); }
  const Op& op(OpId id) const { return ops_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const Type& type(ValueId id) const { return values_[id.index].type; }
  std::span<const Op> ops() const { return ops_; }
  std::span<const ValueId> operands(const Op& op) const { return slice(operand_pool_, op.operands); }
  ValueId result(const Op& op, uint32_t i = 0) const { return ValueId(op.results.begin + i); }
  // Operations of kind input / output, in order.
  std::span<const OpId> inputs() const { return inputs_; }
  std::span<const OpId> outputs() const { return outputs_; }

 private:
  friend class GraphBuilder;
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::vector<ValueId> operand_pool_;
  std::vector<OpId> inputs_;
  std::vector<OpId> outputs_;
};

// Same operations, names, types, attributes and constants, in the same order.
bool operator==(const Graph& a, const Graph& b);

class GraphBuilder {
 public:
  // Appends an operation with given result types; nothing is checked before finish().
  OpId add(Attributes attributes, std::span<const ValueId> operands, std::span<const Type> results,
           std::string name = "");

  // Shorthands with inferred result types. Preconditions on operands are those of verify(); violating one is our bug
  // (LOW_CHECK), so a frontend checks what a user can cause before it calls.
  ValueId input(std::string name, const Type& type);
  ValueId constant(std::shared_ptr<const Tensor> tensor, std::string name = "");
  ValueId constant(Tensor tensor, std::string name = "");
  void output(std::string name, ValueId value);
  ValueId pointwise(Expr expr, std::span<const ValueId> inputs, std::string name = "");
  ValueId matmul(Matmul attributes, std::span<const ValueId> operands, DType result, std::string name = "");
  ValueId reshape(ValueId value, const Shape& shape, std::string name = "");  // the value itself if nothing changes
  ValueId transpose(ValueId value, const Shape& permutation, std::string name = "");  // likewise
  ValueId slice(ValueId value, const Shape& start, const Shape& step, const Shape& extents, std::string name = "");
  ValueId expand(ValueId value, const Shape& shape, std::string name = "");
  ValueId cast(ValueId value, DType to, Overflow overflow = Overflow::propagate, std::string name = "");
  ValueId quantize(Quantize attributes, std::span<const ValueId> operands, DType to, std::string name = "");
  ValueId dequantize(Dequantize attributes, std::span<const ValueId> operands, DType to, std::string name = "");
  std::vector<ValueId> repeat(Repeat attributes, std::span<const ValueId> operands, std::string name = "");
  ValueId concat(std::span<const ValueId> values, int axis, std::string name = "");
  // Operands: value[, fill]. `after`: new elements behind each axis.
  ValueId pad(Pad attributes, std::span<const ValueId> operands, const Shape& after, std::string name = "");
  ValueId gather(Gather attributes, ValueId data, ValueId indices, std::string name = "");
  ValueId reduce(Reduce attributes, std::span<const ValueId> operands, DType result, std::string name = "");
  ValueId cumulative(Cumulative attributes, ValueId value, std::string name = "");
  ValueId rowwise(Rowwise attributes, std::span<const ValueId> operands, DType result, std::string name = "");
  ValueId attention(Attention attributes, std::span<const ValueId> operands, DType result, std::string name = "");

  const Type& type(ValueId value) const { return graph_.type(value); }
  const Graph& peek() const { return graph_; }  // what was added so far, unverified
  // Verifies (ErrorKind::internal: builders check what users can cause) and gives up the graph.
  Result<Graph> finish() &&;

 private:
  Graph graph_;
};

// Bodies of repeats in bodies of repeats.
inline constexpr int max_region_depth = 32;

// Result shapes, dtypes, operand counts, broadcasting, order, regions: the first violation, naming the operation.
Result<void> verify(const Graph& graph);

// Text: a version line, then one operation a line, regions indented; see graph/text.cpp. Constants of up to
// max_inline_elements print in full, larger ones by hash; parsing needs `constants` to resolve hashes (hash -> tensor).
inline constexpr int64_t max_inline_elements = 16;
std::string print(const Graph& graph);
using ConstantsByHash = std::vector<std::pair<std::string, std::shared_ptr<const Tensor>>>;
Result<Graph> parse_graph(std::string_view text, const ConstantsByHash& constants);
ConstantsByHash constants_by_hash(const Graph& graph);
// SHA-256 (hex) over dtype, shape and bytes of a tensor.
std::string constant_hash(const Tensor& tensor);
// SHA-256 (hex) of the printed graph: what a plan says it belongs to.
std::string digest(const Graph& graph);

}  // namespace low
