// The family top_k: places of extreme elements of groups.
#pragma once

#include "compiler/graph/ops/top_k.h"
#include "compiler/kernels/families/groups.h"

namespace low {

// result[o…, i] = the place along the inner axis of the i-th extreme element of x[o…, …]; see TopK. Extents of a run:
// the outer ones, the number of elements of a group, and k. x is over the outer axes and the group's, the result (i64)
// over the outer axes and k's.
struct TopKKernel {
  static constexpr std::string_view name = "top_k";
  static constexpr int inner = 2;
  bool smallest = false;
  bool operator==(const TopKKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("smallest", self.smallest);
  }

  int iteration_rank(const KernelContract& contract) const;
  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {2, true}; }
  std::string axes_problem(const KernelContract& contract) const;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  uint64_t scratch_bytes(const KernelContract& contract, const Shape& extents, const device::Tiling& tiling) const;
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};
KernelContract kernel_of(const TopK& op, std::span<const Type> operands, const Type& result);

}  // namespace low
