// Targets whose matrix kernels pack their operands, with the blocks that they compute in.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/kernels/data/tiling.h"
#include "compiler/machine/machine.h"

namespace low {

struct PackingTarget {
  std::string_view name;
  device::Tiling tiling;
};
inline constexpr std::array packing_targets = {PackingTarget{"host-x86-64-v3", device::tiling_x86_64_v3},
                                               PackingTarget{"host-x86-64-v4", device::tiling_x86_64_v4},
                                               PackingTarget{"host-x86-64-v4-bf16", device::tiling_x86_64_v4}};

// Null: kernels of this target stage their operands through scratch.
constexpr const PackingTarget* packing_target(std::string_view name) {
  const auto* const found = std::ranges::find(packing_targets, name, &PackingTarget::name);
  return found == packing_targets.end() ? nullptr : found;
}
// Of the target that plans for a machine have in mind, its first.
inline const PackingTarget* packing_target(const Machine& machine) {
  return machine.targets.empty() ? nullptr : packing_target(machine.targets.front());
}

}  // namespace low
