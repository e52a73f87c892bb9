// The routines that were compiled when this program was built; see compile_routines.
#pragma once

#include <span>

#include "compiler/codegen/codegen.h"

namespace low {

// For each target; none where the build found no clang.
std::span<const CodeObject> built_routines();

}  // namespace low
