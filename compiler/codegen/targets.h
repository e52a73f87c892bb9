// What codegen knows of each target.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/kernels/data/tiling.h"

namespace low {

struct CodegenTarget {
  std::string_view name;
  std::string_view macro;                // defined for the emitted source
  std::span<const char* const> options;  // of clang
  device::Tiling tiling;
};

std::span<const CodegenTarget> target_table();
const CodegenTarget* find_target(std::string_view name);  // null when there is none
std::string known_targets();                              // for messages: "a, b"

}  // namespace low
