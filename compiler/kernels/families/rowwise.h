// The family rowwise: softmax and normalizations of groups.
#pragma once

#include "compiler/graph/ops/rowwise.h"
#include "compiler/kernels/families/groups.h"

namespace low {

// result[o…, i…] = epilogue(normalized x[o…, i…], extras…[o…, i…]); see Rowwise in graph.h. All operands are over all
// axes.
struct RowwiseKernel {
  static constexpr std::string_view name = "rowwise";
  int inner = 1;
  Rowwise::Kind kind = Rowwise::Kind::softmax;
  DType accumulate = DType::f32;  // f32 or f64, in which it computes
  double epsilon = 0;
  std::optional<int> columns;
  bool long_rows = false;  // a group is too long to be kept in scratch: it is read again, piece by piece
  bool operator==(const RowwiseKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("inner", self.inner);
    visit("kind", self.kind, rowwise_kinds);
    visit("accumulate", self.accumulate);
    visit("epsilon", self.epsilon);
    visit("columns", self.columns);
    visit("long_rows", self.long_rows);
  }

  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {2}; }
  ExprOperands expr_operands() const { return {1, 1}; }
  size_t first_in_place() const { return 0; }
  std::string axes_problem(const KernelContract& contract) const;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  void configure(const KernelContract& contract, const Shape& extents);
  uint64_t scratch_bytes(const KernelContract& contract, const Shape& extents, const device::Tiling& tiling) const;
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};
KernelContract kernel_of(const Rowwise& op, std::span<const Type> operands, const Type& result);

}  // namespace low
