// The family reduce: elements of groups combined.
#pragma once

#include "compiler/graph/ops/reduce.h"
#include "compiler/kernels/families/groups.h"

namespace low {

// result[o…] = epilogue(combined over i… of map(x[o…, i…]), extras…[o…]); see Reduce in graph.h. Operands: x over all
// axes, extras… and result over the outer ones.
struct ReduceKernel {
  static constexpr std::string_view name = "reduce";
  int inner = 1;
  Reduce::Kind kind = Reduce::Kind::sum;
  DType accumulate = DType::f32;  // elements are converted to this and combined in it
  bool last = false;              // index_max, index_min: of equal elements the last
  std::optional<int> columns;
  std::optional<Expr> map;  // applied to each element instead of the conversion; gives `accumulate`
  bool operator==(const ReduceKernel&) const = default;
  DType leading_type() const { return is_index() ? DType::i64 : accumulate; }
  bool is_index() const { return kind == Reduce::Kind::index_max || kind == Reduce::Kind::index_min; }

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("inner", self.inner);
    visit("kind", self.kind, reduce_kinds);
    visit("accumulate", self.accumulate);
    visit("last", self.last);
    visit("columns", self.columns);
    visit("map", self.map);
  }

  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {2}; }
  ExprOperands expr_operands() const { return {1, 1}; }
  std::string axes_problem(const KernelContract& contract) const;
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  void configure(const KernelContract& contract, const Shape& extents);
  std::string unimplemented() const { return accumulate == DType::boolean ? "elements combined in bool" : ""; }
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};
KernelContract kernel_of(const Reduce& op, std::span<const Type> operands, const Type& result);

}  // namespace low
