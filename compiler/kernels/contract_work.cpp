// work_of: what a run of each family does.
#include <algorithm>

#include "compiler/kernels/cost.h"

namespace low {
namespace {

bool strided_both_ways(const OperandContract& operand) {
  return operand.access[0] == Access::strided && operand.access[1] == Access::strided;
}

// No axis of x is contiguous.
bool strided_every_way(const OperandContract& operand) {
  return std::ranges::find(operand.access, Access::unit) == operand.access.end() &&
         std::ranges::find(operand.access, Access::strided) != operand.access.end();
}

// --- What a run of each family adds to the bytes that it reads and writes

void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents, const GemmKernel&) {
  work.kind = KernelWork::Kind::gemm;
  work.expression_nodes = expression_work(contract.expr);
  work.m = extents[0];
  work.n = extents[1];
  work.k = extents[2];
  work.a = contract.operands[0].dtype;
  work.b = contract.operands[1].dtype;
  work.strided = strided_both_ways(contract.operands[0]) || strided_both_ways(contract.operands[1]);
}

void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents, const AttentionKernel& kernel) {
  work.kind = KernelWork::Kind::attention;
  work.expression_nodes = expression_work(contract.expr);
  work.m = extents[0];
  work.n = extents[1];
  work.k = extents[2];
  work.v = extents[3];
  work.a = work.b = kernel.math;
  work.score_nodes = score_work(kernel.masked, kernel.causal, kernel.softcap > 0);
  for (size_t i = 0; i < 3; ++i) work.strided = work.strided || strided_both_ways(contract.operands[i]);
}

void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents, const PointwiseKernel&) {
  work.expression_nodes = expression_work(contract.expr);
  const int last = extents.rank() - 1;
  work.n = extents[last];
  for (int axis = 0; axis < last; ++axis) work.m *= extents[axis];
  for (size_t i = 0; i + 1 < contract.operands.size(); ++i)
    work.strided = work.strided || contract.operands[i].access[static_cast<size_t>(last)] == Access::strided;
}

// Of groups, with so much work an element.
void add_group_work(KernelWork& work, const KernelContract& contract, const Shape& extents, int64_t element) {
  work.expression_nodes = element;
  work.m = outer_extents(contract, extents).elements();
  work.n = inner_extents(contract, extents).elements();
  work.strided = strided_every_way(contract.operands[0]);
}
void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents, const ReduceKernel& kernel) {
  add_group_work(work, contract, extents, reduce_work(kernel.kind, kernel.map));
}
void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents, const RowwiseKernel& kernel) {
  add_group_work(work, contract, extents, rowwise_work(kernel.kind) + expression_work(contract.expr));
}
void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents, const CumulativeKernel&) {
  add_group_work(work, contract, extents, 2);
}

void add_work(KernelWork& work, const KernelContract& contract, const Shape& extents, const GatherKernel&) {
  const Shape outer = outer_extents(contract, extents);
  work.expression_nodes = 1;
  work.n = outer[outer.rank() - 1];
  work.m = outer.elements() / std::max<int64_t>(work.n, 1);
  work.strided = contract.operands[0].access[static_cast<size_t>(outer.rank() - 1)] != Access::unit && work.n > 1;
}

}  // namespace

KernelWork work_of(const KernelContract& contract, const Shape& extents) {
  KernelWork work;
  work.kind = KernelWork::Kind::pointwise;
  std::visit([&](const auto& kernel) { add_work(work, contract, extents, kernel); }, contract.family);
  return work;
}

}  // namespace low
