// Cost of one operation's decision: what the low stage will run for it, as work for kernel_cost and superstep_cost.
#pragma once

#include <span>
#include <vector>

#include "compiler/search/layout.h"
#include "compiler/search/search.h"
#include "compiler/search/space.h"

namespace low {

// What a matmul's cost depends on on every machine, apart from its plan.
struct MatmulFacts {
  MatmulShape shape;
  DType a = DType::f32, b = DType::f32;
  int64_t sum_bytes = 4;     // of an accumulator
  int64_t result_bytes = 4;  // of an element
  int64_t expression_nodes = 0;
};
MatmulFacts matmul_facts(const Graph& graph, const Op& op);
// A run of its products for (m, n, k) elements, without expression and bytes.
KernelWork gemm_run(const MatmulFacts& facts, int64_t m, int64_t n, int64_t k);
// A run over rows of contiguous elements, with so many nodes an element.
KernelWork pointwise_run(int64_t rows, int64_t columns, int64_t nodes, int64_t read_bytes, int64_t written_bytes);

// The same with global memory.
struct MatmulWork : MatmulFacts {
  struct Extra {                               // an operand of the epilogue
    bool batch = false, m = false, n = false;  // the axes it varies along
    int64_t element_bytes = 0;
  };
  std::vector<Extra> extras;
  bool strided = false;
};
// `operands` are the operands' layouts, in order.
MatmulWork matmul_work(const Graph& graph, const Op& op, std::span<const Layout> operands);
// One superstep: each tile runs its part's blocks, one kernel run each. With partial sums (grid_k > 1) these are
// written as [grid_k, batch, m, n]; in a second superstep the tiles share the result's rows, add up, and apply the
// epilogue.
CostSum matmul_cost(const Machine& machine, const MatmulWork& work, const MatmulPlan& plan);
// The first and the second of these supersteps, its busiest tile alone.
SuperstepWork matmul_superstep(const Machine& machine, const MatmulWork& work, const MatmulPlan& plan);
SuperstepWork partial_sums_superstep(const Machine& machine, const MatmulWork& work, const MatmulPlan& plan);

// Bytes of the partial sums, which live in between; 0 without.
uint64_t partial_sum_bytes(const MatmulWork& work, const MatmulPlan& plan);

// What the cost of an operation that is cut along one axis depends on, apart from its split.
struct SplitWork {
  struct Operand {
    int64_t element_bytes = 0;
    Shape varies;  // for each axis of `shape`: its extent, or 1 where the operand stays the same
  };
  KernelWork::Kind kind = KernelWork::Kind::pointwise;
  Shape shape;               // of the iteration space: that of the result, or of x where axes are reduced
  Shape written;             // for each axis of `shape`: its extent, or 1 where it is reduced; rank 0: as `shape`
  int64_t result_bytes = 4;  // of an element
  int64_t expression_nodes = 0;
  std::vector<Operand> operands;
  bool strided = false;
  int64_t commands = 1;  // of one part
  int64_t updates = 0;   // of [rows, columns]: rows that each part goes through beside its own
};
SplitWork pointwise_work(const Graph& graph, const Op& op, std::span<const Layout> operands);
// Rows of updates of an operation whose results are `updated` (Parts); 0 of others.
int64_t update_rows(const Graph& graph, const Op& op);
// Any operation with a SplitPlan.
SplitWork split_work(const Graph& graph, const Op& op, std::span<const Layout> operands);
// concat, pad: each part is a few copies.
SplitWork assembly_work(const Graph& graph, const Op& op, std::span<const Layout> operands);
// Copies a value of this type and layout to row-major order.
SplitWork copy_work(const Type& type, const Layout& source);
// One superstep with one kernel run for each part; nothing at all for a result without elements.
Cost split_cost(const Machine& machine, const SplitWork& work, const SplitPlan& plan);
// That superstep, its busiest tile alone.
SuperstepWork split_superstep(const Machine& machine, const SplitWork& work, const SplitPlan& plan);

}  // namespace low
