// The family gather: elements by indices.
#pragma once

#include "compiler/graph/ops/gather.h"
#include "compiler/kernels/families/groups.h"

namespace low {

// result[o…] = data[o…, indices[o…, 0], indices[o…, 1], …], an index for each inner axis, of which there may be none;
// negative ones count from the end, others are clamped. Operands: data over all axes, indices over the outer ones and
// one of as many elements as there are inner axes, result over the outer ones. An axis along which data does not vary
// (broadcast) has extent 1 in data's view, which is the box of all that may be read.
struct GatherKernel {
  static constexpr std::string_view name = "gather";
  int inner = 1;
  bool operator==(const GatherKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("inner", self.inner);
  }

  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {3, true}; }
  size_t picked_operand() const { return 0; }
  std::string axes_problem(const KernelContract& contract) const;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};
KernelContract kernel_of(const Gather& op, std::span<const Type> operands, const Type& result);

}  // namespace low
