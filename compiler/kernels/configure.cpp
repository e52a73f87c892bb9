// configure: how each family's kernel goes about runs of some extents.
#include "compiler/kernels/contract.h"
#include "compiler/kernels/data/rows.h"
#include "compiler/kernels/data/tiling.h"

namespace low {
namespace {

// The outer axis along which groups are computed side by side: where x is contiguous, if it is not along the inner axes.
std::optional<int> column_axis(const KernelContract& contract, const Shape& extents) {
  const std::vector<Access>& access = contract.operands[0].access;
  const int outer = extents.rank() - inner_axes(contract);
  const int64_t count = inner_extents(contract, extents).elements();
  int last = extents.rank() - 1;  // the innermost inner axis that has more than one element
  while (last > outer && extents[last] == 1) --last;
  const bool contiguous = access[static_cast<size_t>(last)] != Access::strided || extents[last] == 1;
  if ((contiguous && count != 1) || count > device::max_column_count) return std::nullopt;
  std::optional<int> columns;
  for (int axis = 0; axis < outer; ++axis) {
    if (access[static_cast<size_t>(axis)] == Access::unit && extents[axis] >= device::least_columns) columns = axis;
  }
  return columns;
}

void configure(const KernelContract&, const Shape&, PointwiseKernel&) {}
void configure(const KernelContract&, const Shape&, GatherKernel&) {}
void configure(const KernelContract&, const Shape&, AttentionKernel&) {}

// Few rows: b is read where it lies, if its rows are contiguous.
void configure(const KernelContract& contract, const Shape& extents, GemmKernel& kernel) {
  const int64_t m = extents[0], n = extents[1], k = extents[2];
  const bool few = kernel.accumulate == DType::f32 && m >= 1 && m <= device::most_unrolled_rows &&
                   n >= device::least_unrolled_columns && k >= 1 && contract.operands[1].access[1] == Access::unit;
  kernel.rows = few ? std::optional(static_cast<int>(m)) : std::nullopt;
}

void configure(const KernelContract& contract, const Shape& extents, ReduceKernel& kernel) {
  kernel.columns = column_axis(contract, extents);
}
void configure(const KernelContract& contract, const Shape& extents, CumulativeKernel& kernel) {
  kernel.columns = column_axis(contract, extents);
}
void configure(const KernelContract& contract, const Shape& extents, RowwiseKernel& kernel) {
  kernel.columns = column_axis(contract, extents);
  kernel.long_rows = !kernel.columns && inner_extents(contract, extents).elements() > device::max_kept_row;
}

}  // namespace

void configure(KernelContract& contract, const Shape& extents) {
  std::visit([&](auto& kernel) { configure(contract, extents, kernel); }, contract.family);
}

}  // namespace low
