// What the families over (outer axes…, inner axes…) have in common.
//
// Their iteration space has at least one outer axis; `inner` counts the last ones. A group is what differs in inner
// axes only. `columns` is an outer axis along which x is contiguous: groups that are neighbours there are computed side
// by side; without it, one group goes after the other.
#pragma once

#include "compiler/kernels/families/family.h"

namespace low {

// What is wrong with the split into outer and inner axes, of which there are at least `fewest`.
std::string split_problem(const KernelContract& contract, int fewest);
// The same, and what is wrong with `columns`.
std::string columns_problem(const KernelContract& contract, std::optional<int> columns);

// The outer axis along which groups are computed side by side: where x is contiguous, if it is not along the inner
// axes.
std::optional<int> column_axis(const KernelContract& contract, const Shape& extents);

// Of groups, with so much work an element.
void add_group_work(KernelWork& work, const KernelContract& contract, const Shape& extents, int64_t element);

}  // namespace low
