// The operations of a Graph, one function each. Operands have been verified against the attributes; `result` is the
// type that the graph states. `pool` may be null; the result does not depend on it.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "runtime/base/thread_pool.h"

namespace low::reference {

using Operands = std::span<const std::shared_ptr<const Tensor>>;

// pointwise.cpp
Tensor pointwise(const Pointwise& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor quantize(const Quantize& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor dequantize(const Dequantize& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor cast(const Cast& attributes, const Tensor& operand, const Type& result, ThreadPool* pool);

// matmul.cpp
Tensor matmul(const Matmul& attributes, Operands operands, const Type& result, ThreadPool* pool);

// movement.cpp: no element changes.
Tensor reshape(const Tensor& operand, const Shape& shape);
Tensor transpose(const Tensor& operand, const Shape& permutation);
Tensor slice(const Tensor& operand, const Slice& attributes, const Shape& shape);
Tensor expand(const Tensor& operand, const Shape& shape);
Tensor concat(Operands operands, int axis, const Shape& shape);
Tensor pad(const Pad& attributes, Operands operands, const Shape& shape);
// gather.cpp
Tensor gather(const Gather& attributes, const Tensor& data, const Tensor& indices, const Shape& shape);

// scatter.cpp
Tensor scatter(const Scatter& attributes, Operands operands);
// top_k.cpp
Tensor top_k(const TopK& attributes, const Tensor& operand, const Shape& shape);

// reduce.cpp
Tensor reduce(const Reduce& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor cumulative(const Cumulative& attributes, const Tensor& operand);
// rowwise.cpp
Tensor rowwise(const Rowwise& attributes, Operands operands, const Type& result);
// attention.cpp
Tensor attention(const Attention& attributes, Operands operands, const Type& result, ThreadPool* pool);

// Element `index` of axis 0, and the reverse: `part` becomes element `index` of `whole`.
Tensor take(const Tensor& operand, int64_t index);
void put(Tensor& whole, int64_t index, const Tensor& part);

}  // namespace low::reference
