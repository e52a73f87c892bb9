#include "compiler/kernels/families/groups.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/kernels/contract.h"
#include "compiler/kernels/data/rows.h"

namespace low {
namespace {

// No axis of x is contiguous.
bool strided_every_way(const OperandContract& operand) {
  return std::ranges::find(operand.access, Access::unit) == operand.access.end() &&
         std::ranges::find(operand.access, Access::strided) != operand.access.end();
}

}  // namespace

std::string split_problem(const KernelContract& contract, int fewest) {
  const int inner = inner_axes(contract), rank = iteration_rank(contract);
  if (inner < fewest || inner >= rank)
    return fmt::format("{} has {} inner axes of {}", family_name(contract), inner, rank);
  return "";
}

std::string columns_problem(const KernelContract& contract, std::optional<int> columns) {
  if (std::string found = split_problem(contract, 1); !found.empty()) return found;
  const int outer = iteration_rank(contract) - inner_axes(contract);
  const OperandContract& x = contract.operands[0];
  if (columns && (*columns < 0 || *columns >= outer || x.access[static_cast<size_t>(*columns)] != Access::unit)) {
    return fmt::format("{} goes along columns of axis {}, where its operand is not contiguous", family_name(contract),
                       *columns);
  }
  return "";
}

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

void add_group_work(KernelWork& work, const KernelContract& contract, const Shape& extents, int64_t element) {
  work.expression_nodes = element;
  work.m = outer_extents(contract, extents).elements();
  work.n = inner_extents(contract, extents).elements();
  work.strided = strided_every_way(contract.operands[0]);
}

}  // namespace low
