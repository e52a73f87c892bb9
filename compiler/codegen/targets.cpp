#include "compiler/codegen/targets.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/codegen/codegen.h"
#include "compiler/kernels/packing_targets.h"

namespace low {
namespace {

// Loops are unrolled where the kernels say so: clang's own choice takes half as much time again, doubles the code and
// makes none of the workloads faster. -fbracket-depth: a kernel folds over its operands, and Max of a few hundred
// tensors has as many.
constexpr const char* host_options[] = {"-x",
                                        "c++",
                                        "-std=c++20",
                                        "-O3",
                                        "-ffp-contract=off",
                                        "-fno-math-errno",
                                        "-fno-unroll-loops",
                                        "-ffreestanding",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-fno-stack-protector",
                                        "-fno-asynchronous-unwind-tables",
                                        "-fno-ident",
                                        "-fvisibility=hidden",
                                        "-fPIC",
                                        "-w",
                                        "-fbracket-depth=4096"};
// Of the linker. Nothing is left undefined, and nothing kept that no entry point uses.
constexpr const char* host_link_options[] = {
    "-shared", "--build-id=none", "--hash-style=gnu", "--strip-all", "--gc-sections", "-z", "defs"};
// abi::HostEntry.
constexpr std::string_view host_entry_head =
    "extern \"C\" __attribute__((visibility(\"default\"))) void low_entry_{}(const low::abi::Launch* launch, "
    "uint32_t tile,\n"
    "                                                                     unsigned char* scratch) {{\n";
constexpr CodeKind host{.object_suffix = ".so",
                        .options = host_options,
                        .link_options = host_link_options,
                        .target_header = "compiler/kernels/device/target_host.h",
                        .kernels = "compiler/kernels/device/",
                        .entry_head = host_entry_head};

constexpr const char* x86_64_v3[] = {"--target=x86_64-unknown-linux-gnu", "-march=x86-64-v3"};
constexpr const char* x86_64_v4[] = {"--target=x86_64-unknown-linux-gnu", "-march=x86-64-v4",
                                     "-mprefer-vector-width=512"};

constexpr const char* x86_64_v4_bf16[] = {
    "--target=x86_64-unknown-linux-gnu", "-march=x86-64-v4", "-mavx512bf16", "-mavx512vbmi", "-mavx512vnni",
    "-mprefer-vector-width=512"};

constexpr std::array target_rows = {
    CodegenTarget{"host-x86-64-v3", &host, "LOW_TARGET_HOST_X86_64_V3", x86_64_v3,
                  packing_target("host-x86-64-v3")->tiling},
    CodegenTarget{"host-x86-64-v4", &host, "LOW_TARGET_HOST_X86_64_V4", x86_64_v4,
                  packing_target("host-x86-64-v4")->tiling},
    CodegenTarget{"host-x86-64-v4-bf16", &host, "LOW_TARGET_HOST_X86_64_V4_BF16", x86_64_v4_bf16,
                  packing_target("host-x86-64-v4-bf16")->tiling, "host-x86-64-v4"},
};
constexpr std::array<std::string_view, target_rows.size()> target_names = {target_rows[0].name, target_rows[1].name,
                                                                           target_rows[2].name};

}  // namespace

const CodegenTarget* find_target(std::string_view name) {
  for (const CodegenTarget& target : target_rows) {
    if (target.name == name) return &target;
  }
  return nullptr;
}
std::string_view base_target(std::string_view target) {
  const CodegenTarget* const known = find_target(target);
  return known == nullptr ? "" : known->base;
}
std::string known_targets() { return fmt::format("{}", fmt::join(target_names, ", ")); }
std::span<const std::string_view> codegen_targets() { return target_names; }

}  // namespace low
