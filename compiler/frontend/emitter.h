// Emitter: GraphBuilder with folding of small constants. What a model says about shapes (the second input of Reshape,
// …) has to be known while importing, so an operation whose operands are all constant becomes a constant at once.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace low {

using ConstantPtr = std::shared_ptr<const Tensor>;

// A named value of the model: a constant that no graph holds yet, or a value of the graph under construction.
struct ModelValue {
  Type type;
  ConstantPtr constant;
  ValueId id;  // valid if `constant` is null

  DType dtype() const { return type.dtype; }
  const Shape& shape() const { return type.shape; }
  int rank() const { return type.shape.rank(); }
};

ModelValue constant_value(Tensor tensor);
ModelValue constant_value(ConstantPtr tensor);
// A 1-D (or, for one element, rank-0) i64 tensor.
Tensor integer_tensor(std::span<const int64_t> values);
Tensor integer_scalar(int64_t value);

// Every function checks what a model can cause (operand types, shapes, sizes) and fails with ErrorKind::invalid or,
// beyond our limits, ErrorKind::unsupported.
class Emitter {
 public:
  // `fold_budget`: bytes of constants that folding may still make, shared by all emitters of a model. Without it, a
  // small file of many foldable nodes could take any amount of memory.
  explicit Emitter(int64_t& fold_budget) : fold_budget_(fold_budget) {}
  // `name` of the operations that follow: where they come from.
  void set_origin(std::string name) { origin_ = std::move(name); }

  ModelValue input(std::string name, const Type& type);
  void output(std::string name, const ModelValue& value);
  // Inputs broadcast; the expression's input i has the dtype of inputs[i].
  Result<ModelValue> pointwise(Expr expr, std::span<const ModelValue> inputs);
  // a [batch…, m, k], b [batch…, k, n], both of rank 2 or more.
  Result<ModelValue> matmul(const Matmul& attributes, const ModelValue& a, const ModelValue& b, DType result);
  Result<ModelValue> reshape(const ModelValue& value, const Shape& shape);
  Result<ModelValue> transpose(const ModelValue& value, const Shape& permutation);
  Result<ModelValue> slice(const ModelValue& value, const Shape& start, const Shape& step, const Shape& extents);
  Result<ModelValue> expand(const ModelValue& value, const Shape& shape);
  Result<ModelValue> cast(const ModelValue& value, DType to, Overflow overflow = Overflow::propagate);
  // Operands: x, scale and, if not null, zero_point; never folded, since passes look for them in front of a matmul.
  Result<ModelValue> quantize(const Quantize& attributes, std::span<const ModelValue> operands, DType to);
  Result<ModelValue> dequantize(const Dequantize& attributes, std::span<const ModelValue> operands, DType to);
  // For the following, the caller has checked shapes and dtypes; only sizes are checked here.
  // Adds the operation, or folds it when all operands are constant, the result is small and `may_fold`.
  Result<ModelValue> add(Attributes attributes, std::span<const ModelValue> operands, const Type& result,
                         bool may_fold = true);
  Result<ModelValue> concat(std::span<const ModelValue> operands, int axis);
  Result<ModelValue> pad(const Pad& attributes, std::span<const ModelValue> operands, const Shape& after);
  Result<ModelValue> gather(const Gather& attributes, const ModelValue& data, const ModelValue& indices);
  Result<ModelValue> reduce(const Reduce& attributes, std::span<const ModelValue> operands, DType to);
  Result<ModelValue> cumulative(const Cumulative& attributes, const ModelValue& value);
  Result<ModelValue> rowwise(const Rowwise& attributes, std::span<const ModelValue> operands, DType to);
  Result<ModelValue> attention(const Attention& attributes, std::span<const ModelValue> operands, DType to);
  // A zeroed constant that a small model may ask for: ErrorKind::unsupported beyond the budget.
  Result<Tensor> new_constant(const Type& type);
  // 0, 1, … count - 1 as i64, with `trailing` axes of extent 1 behind.
  Result<ModelValue> iota(int64_t count, int trailing);
  Result<std::vector<ModelValue>> repeat(Repeat attributes, std::span<const ModelValue> operands);

  Result<Graph> finish() && { return std::move(builder_).finish(); }

 private:
  ValueId materialize(const ModelValue& value);
  // Whether a constant of this type may be made of so many bytes of others; if so, it is charged.
  bool may_make(const Type& type, int64_t read_bytes = 0);

  int64_t& fold_budget_;
  GraphBuilder builder_;
  std::string origin_;
  std::map<const Tensor*, ValueId> materialized_;  // looked up only; the graph keeps the tensors alive
};

// ErrorKind::unsupported when a tensor of this type would exceed max_tensor_bytes.
Result<void> check_size(const Type& type);

}  // namespace low
