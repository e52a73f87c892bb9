// The family scatter: rows updated by index.
#pragma once

#include "compiler/graph/ops/scatter.h"
#include "compiler/kernels/families/family.h"

namespace low {

// Rows [first, first + n) of a scatter's result, or some columns of them; see Scatter. A run goes through all updates
// and applies those that are for its rows. Its extents are (m updates, n rows, w columns). Operands: indices [m],
// updates [m, w], first [1] i64, data [n, w], result [n, w].
struct ScatterKernel {
  static constexpr std::string_view name = "scatter";
  static constexpr int iteration_rank = 3;
  Scatter::Kind kind = Scatter::Kind::replace;
  bool operator==(const ScatterKernel&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, scatter_kinds);
  }

  Shape run_extents(std::span<const Shape> operands) const;
  Shape operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const;
  OperandCount operand_count() const { return {5, true}; }
  size_t first_in_place() const { return 3; }
  size_t picked_operand() const { return 1; }
  std::string problem(const KernelContract& contract) const;
  std::string run_problem(const KernelContract& contract, const Shape& extents) const;
  void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const;
};
KernelContract kernel_of(const Scatter& op, std::span<const Type> operands, const Type& result);
// What one element costs.
inline constexpr int64_t update_work = 2;
// Of a run of these extents: its own rows, the updated ones again, and a number for each update.
KernelWork updating_run(int64_t rows, int64_t columns, int64_t updates);

}  // namespace low
