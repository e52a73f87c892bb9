// What kernels compute, element by element, over operands in row-major order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/low/tile_graph.h"

namespace low {

// Elements of one dtype to another, as an expression's `convert`.
class Converter {
 public:
  Converter(DType from, DType to, Overflow overflow);
  uint64_t operator()(uint64_t bits) const;

 private:
  bool identity_;
  Expr expr_;
  std::vector<uint64_t> table_;  // of one-byte dtypes
};

// A run of these extents. `operands[i]` are the elements of operand i but the result, each with the extents that the
// contract gives it in such a run. Returns the result's elements. Not for gather, which reads few of its operand's
// elements. gemm: products are summed in double and rounded once to the accumulator's dtype; integers wrap.
std::vector<uint64_t> run_kernel(const KernelContract& contract, const Shape& extents,
                                 std::span<const std::vector<uint64_t>> operands);

// gather: which element of data, counted from its view's origin, becomes element `result_element` (row-major).
// `indices` are all of the operand's.
int64_t gathered_element(const KernelContract& contract, const Shape& extents, const Geometry& data,
                         int64_t result_element, std::span<const uint64_t> indices);

}  // namespace low
