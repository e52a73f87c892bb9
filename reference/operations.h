// The operations of a Graph, one function each, but for those that compute nothing and Repeat. Operands have been
// verified against the attributes; `result` is the type that the graph states. `pool` may be null; the result does not
// depend on it.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "runtime/base/thread_pool.h"

namespace low::reference {

using Operands = std::span<const std::shared_ptr<const Tensor>>;

Tensor compute(const Pointwise& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Quantize& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Dequantize& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Cast& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Matmul& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Reshape& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Transpose& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Slice& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Expand& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Concat& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Pad& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Gather& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Scatter& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const TopK& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Reduce& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Cumulative& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Rowwise& attributes, Operands operands, const Type& result, ThreadPool* pool);
Tensor compute(const Attention& attributes, Operands operands, const Type& result, ThreadPool* pool);

// Element `index` of axis 0, and the reverse: `part` becomes element `index` of `whole`.
Tensor take(const Tensor& operand, int64_t index);
void put(Tensor& whole, int64_t index, const Tensor& part);

}  // namespace low::reference
