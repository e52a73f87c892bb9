// The family pointwise: an expression, element by element.
#pragma once

#include "compiler/kernels/families/family.h"
#include "compiler/machine/machine.h"

namespace low {

// result[i…] = expression(operands…[i…]); all operands are over all axes.
struct PointwiseKernel {
  static constexpr std::string_view name = "pointwise";
  bool operator==(const PointwiseKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}

  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {1}; }
  ExprOperands expr_operands() const { return {0, 0}; }
  size_t first_in_place() const { return 0; }
  std::string axes_problem(const KernelContract& contract) const;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};

// As kernel_cost, of rows of elements.
Cost elementwise_run_cost(const Machine& machine, const KernelWork& work);

}  // namespace low
