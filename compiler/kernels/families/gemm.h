// The family gemm: products of matrices.
#pragma once

#include <vector>

#include "compiler/kernels/families/family.h"
#include "compiler/machine/machine.h"

namespace low {

// result[m, n] = epilogue(sum over k of a[m, k] * b[k, n], extras…[m, n]). A run's extents are (m, n, k); operands a
// over (m, k), b over (k, n), extras… and result over (m, n). In panels b is over (n / 16, k, 16), contiguous but for
// the first axis; columns of the last panel beyond n do not count.
struct GemmKernel {
  static constexpr std::string_view name = "gemm";
  DType math_a = DType::f32, math_b = DType::f32;  // a and b are converted to these before they are multiplied
  DType accumulate = DType::f32;                   // of the sums
  int64_t stage_k = 0;      // depth in which it stages operands, which changes no result; 0: as its target has it
  std::optional<int> rows;  // m of every run, where it is so small that the kernel unrolls it
  bool panels = false;      // b lies in panels of device::panel_columns columns
  std::optional<int> configuration;  // on a GPU: a row of gemm_configurations_amd
  bool operator==(const GemmKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("math_a", self.math_a);
    visit("math_b", self.math_b);
    visit("accumulate", self.accumulate);
    visit("stage_k", self.stage_k);
    visit("rows", self.rows);
    visit("panels", self.panels);
    visit("configuration", self.configuration);
  }

  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {3}; }
  ExprOperands expr_operands() const { return {1, 2}; }
  size_t first_in_place() const { return 2; }
  int64_t elements_that_count(const KernelContract& contract, const Shape& extents, size_t index) const;
  double matrix_flop(const Shape& extents) const;
  static constexpr int iteration_rank = 3;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  void configure(const KernelContract& contract, const Shape& extents);
  // Pairs of bf16, and bytes of integers, where a target has dot products of them (device/products.h).
  bool multiplies_pairs(const KernelContract& contract) const;
  bool multiplies_bytes(const KernelContract& contract) const;
  bool gains_by_dots(const KernelContract& contract) const;
  uint64_t scratch_bytes(const KernelContract& contract, const Shape& extents, const device::Tiling& tiling) const;
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};

// Whether elements that are multiplied in `math` are the halves of pairs of bf16, for dot products of them.
bool are_pairs(DType math, DType a, DType b);

// How the kernels that the library has for a machine's targets go about products.
struct GemmConfigurations {
  bool packs = false;              // both operands, at the vector rate, which decodes them; else staged through scratch
  int64_t step_m = 1, step_n = 1;  // m and n are computed in multiples of these
  int64_t panel_m = 1;             // rows in registers: blocks of so many are worth having
  int64_t few_rows = 0;            // of a run with no more, b is read where it lies
  int64_t most_m = 1, most_n = 1;  // of one run
};
GemmConfigurations gemm_configurations(const Machine& machine);

// What a and b are converted to before they are multiplied: products that are summed in f64 or integers are computed in
// that, those summed in f32 in what the machine multiplies.
MathRate gemm_math(const Machine& machine, DType sum, DType a, DType b);

// What one run computes, and the depth in which it goes through k.
struct GemmBlock {
  int64_t m = 1, n = 1, k = 1;
  bool operator==(const GemmBlock&) const = default;
};
// What is wrong with a block of operands of these dtypes, or nothing: all of it, its staging and its sums have to fit.
std::optional<std::string> gemm_block_problem(const Machine& machine, const GemmBlock& block, DType a, DType b);
// The blocks worth considering for a tile's part of m x n elements, of this depth.
std::vector<GemmBlock> gemm_block_choices(const Machine& machine, int64_t m, int64_t n, int64_t depth, DType a,
                                          DType b);

// The kernel of runs that go through k in this depth.
GemmKernel gemm_kernel(const Machine& machine, const MathRate& math, DType accumulate, int64_t depth);
// Whether kernels read a constant matrix b of n columns fastest in panels, for sums of this dtype.
bool gemm_wants_panels(const Machine& machine, DType accumulate, int64_t n);
// The depth for runs of m x n elements that no plan cuts into blocks.
int64_t gemm_depth(const Machine& machine, int64_t m, int64_t n, int64_t k, DType a, DType b);

// As kernel_cost, of its kind of work.
Cost gemm_run_cost(const Machine& machine, const KernelWork& work);

}  // namespace low
