// What a GPU's code object says of its entry points.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/format/package.h"

namespace low {

// In the order of the object's metadata, which LLVM's "User Guide for AMDGPU Backend" describes (code object V3 and
// later). ErrorKind::invalid for what is no such object.
Result<std::vector<KernelInfo>> entry_infos(std::span<const std::byte> object, std::string_view what);

}  // namespace low
