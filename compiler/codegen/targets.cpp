#include "compiler/codegen/targets.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/codegen/codegen.h"

namespace low {
namespace {

constexpr const char* x86_64_v3[] = {"--target=x86_64-unknown-linux-gnu", "-march=x86-64-v3"};
constexpr const char* x86_64_v4[] = {"--target=x86_64-unknown-linux-gnu", "-march=x86-64-v4",
                                     "-mprefer-vector-width=512"};

constexpr std::array target_rows = {
    CodegenTarget{"host-x86-64-v3", "LOW_TARGET_HOST_X86_64_V3", x86_64_v3, device::tiling_x86_64_v3},
    CodegenTarget{"host-x86-64-v4", "LOW_TARGET_HOST_X86_64_V4", x86_64_v4, device::tiling_x86_64_v4},
};
constexpr std::array<std::string_view, target_rows.size()> target_names = {target_rows[0].name, target_rows[1].name};

}  // namespace

std::span<const CodegenTarget> target_table() { return target_rows; }
const CodegenTarget* find_target(std::string_view name) {
  for (const CodegenTarget& target : target_rows) {
    if (target.name == name) return &target;
  }
  return nullptr;
}
std::string known_targets() { return fmt::format("{}", fmt::join(target_names, ", ")); }
std::span<const std::string_view> codegen_targets() { return target_names; }

}  // namespace low
