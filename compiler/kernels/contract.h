// Kernel contracts: everything that picks one compiled kernel, and nothing that places it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/graph/expr.h"
#include "compiler/kernels/families/attention.h"
#include "compiler/kernels/families/cumulative.h"
#include "compiler/kernels/families/gather.h"
#include "compiler/kernels/families/gemm.h"
#include "compiler/kernels/families/pointwise.h"
#include "compiler/kernels/families/reduce.h"
#include "compiler/kernels/families/rowwise.h"
#include "compiler/kernels/families/scatter.h"
#include "compiler/kernels/families/top_k.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace low {

class Graph;
struct Op;

// How an operand's storage runs along an axis of the kernel's iteration space.
enum class Access : uint8_t {
  broadcast,  // stride 0, or the axis has extent 1; of a result: the axis has extent 1
  unit,       // stride 1
  strided,    // any stride, given by the run
};

struct OperandContract {
  DType dtype = DType::f32;
  std::vector<Access> access;  // one for each axis that the family gives the operand
  bool operator==(const OperandContract&) const = default;
};

using KernelFamily = std::variant<PointwiseKernel, GemmKernel, ReduceKernel, RowwiseKernel, CumulativeKernel,
                                  GatherKernel, ScatterKernel, TopKKernel, AttentionKernel>;

struct KernelContract {
  KernelFamily family;
  std::vector<OperandContract> operands;  // what the kernel reads, then the result
  // gemm, reduce: input 0 is the accumulator (i64 for an index), then the extras. rowwise, attention: input 0 is the
  // normalized element, then the extras. pointwise: the body. Without nodes where the family has none.
  Expr expr;
  bool operator==(const KernelContract&) const = default;

  template <typename Family>
  const Family* as() const {
    return std::get_if<Family>(&family);
  }
  template <typename Family>
  bool is() const {
    return std::holds_alternative<Family>(family);
  }
  // The fields of a family that the contract is known to be of.
  template <typename Family>
  Family& get() {
    return std::get<Family>(family);
  }
};

// The kernel that computes parts of this operation, of a kind that has an overload kernel_of(op, operands, result) in
// its family's header: but for `inner`, `access`, and what configure() sets.
KernelContract kernel_of(const Graph& graph, const Op& op);
// For these overloads; without an expression.
KernelContract contract_over(KernelFamily family, std::span<const Type> operands, const Type& result);
// What elements of this type are summed in: f32 for floats but f64; integers in their own type.
DType accumulation_type(DType element);

// "gemm", as in texts and in the names of kernels.
std::string_view family_name(const KernelContract& contract);

// Number of axes of the iteration space: 3 of gemm, (m, n, k); 4 of attention, (m, n, d, dv); 3 of scatter, (m, n, w).
// Number of its inner axes; 0 in families without.
int iteration_rank(const KernelContract& contract);
int inner_axes(const KernelContract& contract);

// A run's extents are those of its iteration space. They follow from those of its operands, the result included, as
// many as the contract's and of as many axes.
Shape run_extents(const KernelContract& contract, std::span<const Shape> operands);
// The other way round: what a view of operand `index` has in a run of these extents, iteration_rank many.
Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index);
// Elements of operand `index` that a run of these extents depends on, or writes.
int64_t elements_that_count(const KernelContract& contract, const Shape& extents, size_t index);
// The outer and the inner ones.
Shape outer_extents(const KernelContract& contract, const Shape& extents);
Shape inner_extents(const KernelContract& contract, const Shape& extents);
// gemm and reduce: the dtype of the expression's input 0, the accumulator. rowwise and attention: that of the
// normalized element.
DType leading_type(const KernelContract& contract);
// What the expression reads besides operands, and which of them.
ExprOperands expr_operands(const KernelContract& contract);
// The first operand from which on one may lie exactly where the result does: each of its elements is read once, before
// the result's is written there. The number of operands: none may.
size_t first_in_place(const KernelContract& contract);
// The operand that indices pick elements from: a run reads as many as it writes, at most. The number of operands: none.
size_t picked_operand(const KernelContract& contract);
// Matrix operations of one run, a multiply-add counting two: 2 m n k of gemm, 2 m n (d + dv) of attention, 0 of others.
double matrix_flop(const KernelContract& contract, const Shape& extents);

// Whether it uses dot products of narrow elements where a target has them.
bool gains_by_dots(const KernelContract& contract);

// Sets the fields that say how the kernel goes about runs of these extents; operands are known.
void configure(KernelContract& contract, const Shape& extents);

// What is wrong with a contract by itself, without a run, views or a machine; empty: nothing.
std::string problem(const KernelContract& contract);
// What is wrong with a run of these extents, iteration_rank many, of a contract without a problem; empty: nothing.
std::string run_problem(const KernelContract& contract, const Shape& extents);
// What no kernel of the library does, of a contract without a problem; empty: nothing.
std::string unimplemented(const KernelContract& contract);
// Bytes of scratch of a run of these extents on a target of this tiling; of a contract that is implemented.
uint64_t scratch_bytes(const KernelContract& contract, const Shape& extents, const device::Tiling& tiling);
// Of equal contracts the same.
uint64_t hash_of(const KernelContract& contract);

}  // namespace low
