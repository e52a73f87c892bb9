// LDS of kernels for GPUs whose lanes share groups of elements (see device/amd/groups.h), or updates.
#pragma once

#include "compiler/kernels/data/chip.h"

namespace low::device {

inline constexpr int group_lds_bytes_of_lane = 16;  // a value and its place
inline constexpr int group_lds_bytes = group_lds_bytes_of_lane * workgroup_lanes;

}  // namespace low::device
