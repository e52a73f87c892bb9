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
#include "compiler/graph/ops/attributes.h"
#include "runtime/base/error.h"
#include "runtime/base/thread_pool.h"
#include "runtime/tensor/tensor.h"

namespace low {

using ValueId = Id<struct ValueTag>;
using OpId = Id<struct OpTag>;
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
  // Of one result, which it returns.
  ValueId add_one(Attributes attributes, std::span<const ValueId> operands, const Type& result, std::string name = "");

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
// The same, computed once.
const std::string& constant_hash(const Constant& constant);
// SHA-256 (hex) of the printed graph: what a plan says it belongs to. A pool helps with large constants.
std::string digest(const Graph& graph);
std::string digest(const Graph& graph, ThreadPool& pool);

}  // namespace low
