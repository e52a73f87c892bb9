// The family cumulative: running sums.
#pragma once

#include "compiler/graph/ops/cumulative.h"
#include "compiler/kernels/families/groups.h"

namespace low {

// result[o…, i] = running sum of x[o…, i]; see Cumulative in graph.h. One inner axis; x and result are over all axes.
struct CumulativeKernel {
  static constexpr std::string_view name = "cumulative";
  static constexpr int inner = 1;
  DType accumulate = DType::f32;  // of the sums
  bool exclusive = false, reverse = false;
  std::optional<int> columns;
  bool operator==(const CumulativeKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("accumulate", self.accumulate);
    visit("exclusive", self.exclusive);
    visit("reverse", self.reverse);
    visit("columns", self.columns);
  }

  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {2, true}; }
  std::string axes_problem(const KernelContract& contract) const;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  void configure(const KernelContract& contract, const Shape& extents);
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};
KernelContract kernel_of(const Cumulative& op, std::span<const Type> operands, const Type& result);

}  // namespace low
