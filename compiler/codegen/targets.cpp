#include "compiler/codegen/targets.h"

#include <algorithm>
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
// Nothing is left undefined, and nothing kept that no entry point uses.
constexpr const char* host_link_options[] = {
    "-shared", "--build-id=none", "--hash-style=gnu", "--strip-all", "--gc-sections", "-z", "defs"};
// abi::HostEntry.
constexpr SourceKind host_source{
    .kernels = "compiler/kernels/device/host/",
    .entry_header = "compiler/kernels/device/host/entry.h",
    .begin = "",
    .end = "",
    .entry_head =
        "extern \"C\" __attribute__((visibility(\"default\"))) void low_entry_{0}(const low::abi::Launch* pointer, "
        "uint32_t tile,\n"
        "                                                                     unsigned char* scratch) {{\n"
        "  using namespace low::device;\n"
        "  const low::abi::Launch& launch = *pointer;\n",
    .routines = true};
constexpr std::string_view host_compilers[] = {"clang++-19", "clang++"};
constexpr CodeKind host{.source = &host_source,
                        .object_suffix = ".so",
                        .built_with = LOW_CLANG,
                        .compilers = host_compilers,
                        .packages = "clang-19 and lld-19",
                        .options = host_options,
                        .link_options = host_link_options};

constexpr const char* x86_64_v3[] = {"--target=x86_64-unknown-linux-gnu", "-march=x86-64-v3"};
constexpr const char* x86_64_v4[] = {"--target=x86_64-unknown-linux-gnu", "-march=x86-64-v4",
                                     "-mprefer-vector-width=512"};

constexpr const char* x86_64_v4_bf16[] = {
    "--target=x86_64-unknown-linux-gnu", "-march=x86-64-v4", "-mavx512bf16", "-mavx512vbmi", "-mavx512vnni",
    "-mprefer-vector-width=512"};

// One source for a GPU and for its SIMT target. Functions of the library are the device's as much as plain C++'s.
constexpr SourceKind amd_source{.kernels = "compiler/kernels/device/amd/",
                                .entry_header = "compiler/kernels/device/amd/loops.h",
                                .begin = "#pragma clang force_cuda_host_device begin\n\n",
                                .end = "#pragma clang force_cuda_host_device end\n\n",
                                .entry_head =
                                    "LOW_ENTRY(low_entry_{0}) {{\n"
                                    "  using namespace low::device;\n"
                                    "  LOW_LDS(scratch, {3});\n"
                                    "  const u32 tile = tile_of_workgroup(workgroup(), {1}, {2});\n"};

// HIP mode, for the size of a workgroup is an attribute that plain C++ mode does not know. No header, no library, no
// hash of a path. Code object version 5 is what all of ROCm from 5.2 on takes.
constexpr const char* amd_options[] = {"-x",
                                       "hip",
                                       "--offload-device-only",
                                       "-nogpuinc",
                                       "-nogpulib",
                                       "--no-gpu-bundle-output",
                                       "-fuse-cuid=none",
                                       "-mcode-object-version=5",
                                       "-std=c++20",
                                       "-O3",
                                       "-ffp-contract=off",
                                       "-fno-ident",
                                       "-fvisibility=hidden",
                                       "-w",
                                       "-fbracket-depth=4096",
                                       "-DLOW_CONSTANT=__attribute__((address_space(4)))"};
// 22 has all chips; its loops of matrix instructions are denser than 19's.
constexpr std::string_view amd_compilers[] = {"clang++-22", "clang++"};
constexpr CodeKind amd{.source = &amd_source,
                       .object_suffix = ".hsaco",
                       .built_with = LOW_GPU_CLANG,
                       .compilers = amd_compilers,
                       .packages = "clang-22 and lld-22",
                       .options = amd_options,
                       .link_options = {}};

constexpr CodeKind simt{.source = &amd_source,
                        .object_suffix = ".so",
                        .built_with = LOW_CLANG,
                        .compilers = host_compilers,
                        .packages = "clang-19 and lld-19",
                        .options = host_options,
                        .link_options = host_link_options};

constexpr const char* gfx90a[] = {"--offload-arch=gfx90a", "-DLOW_ISA_GFX9"};
constexpr const char* gfx942[] = {"--offload-arch=gfx942", "-DLOW_ISA_GFX9"};
constexpr const char* gfx950[] = {"--offload-arch=gfx950", "-DLOW_ISA_GFX9"};
// A tile is one compute unit.
constexpr const char* gfx1100[] = {"--offload-arch=gfx1100", "-mcumode", "-DLOW_ISA_GFX11"};
constexpr const char* gfx1201[] = {"--offload-arch=gfx1201", "-mcumode", "-DLOW_ISA_GFX12"};

constexpr CodegenTarget gpu(const device::Chip& chip, std::string_view macro, std::span<const char* const> options) {
  return {chip.target, &amd, macro, options, {}, "", &chip};
}
// Most of such code runs a few times, behind the checks of the shim: compiling it takes longer than running it.
constexpr const char* simt_options[] = {"--target=x86_64-unknown-linux-gnu", "-march=x86-64-v3", "-O0",
                                        "-DLOW_ISA_SIMT"};
constexpr CodegenTarget simt_of(std::string_view name, const device::Chip& chip, std::string_view macro) {
  return {name, &simt, macro, simt_options, {}, "", &chip};
}

constexpr std::array target_rows = {
    gpu(device::gfx1100, "LOW_CHIP=gfx1100", gfx1100),
    gpu(device::gfx1201, "LOW_CHIP=gfx1201", gfx1201),
    gpu(device::gfx90a, "LOW_CHIP=gfx90a", gfx90a),
    gpu(device::gfx942, "LOW_CHIP=gfx942", gfx942),
    gpu(device::gfx950, "LOW_CHIP=gfx950", gfx950),
    CodegenTarget{"host-x86-64-v3", &host, "LOW_TARGET_HOST_X86_64_V3", x86_64_v3,
                  packing_target("host-x86-64-v3")->tiling},
    CodegenTarget{"host-x86-64-v4", &host, "LOW_TARGET_HOST_X86_64_V4", x86_64_v4,
                  packing_target("host-x86-64-v4")->tiling},
    CodegenTarget{"host-x86-64-v4-bf16", &host, "LOW_TARGET_HOST_X86_64_V4_BF16", x86_64_v4_bf16,
                  packing_target("host-x86-64-v4-bf16")->tiling, "host-x86-64-v4"},
    simt_of("simt-gfx1100", device::gfx1100, "LOW_CHIP=gfx1100"),
    simt_of("simt-gfx1201", device::gfx1201, "LOW_CHIP=gfx1201"),
    simt_of("simt-gfx90a", device::gfx90a, "LOW_CHIP=gfx90a"),
    simt_of("simt-gfx942", device::gfx942, "LOW_CHIP=gfx942"),
    simt_of("simt-gfx950", device::gfx950, "LOW_CHIP=gfx950"),
};
constexpr auto target_names = [] {
  std::array<std::string_view, target_rows.size()> names;
  std::ranges::transform(target_rows, names.begin(), &CodegenTarget::name);
  return names;
}();

}  // namespace

const CodegenTarget* find_target(std::string_view name) {
  for (const CodegenTarget& target : target_rows) {
    if (target.name == name) return &target;
  }
  return nullptr;
}
Machine machine_of(const CodegenTarget& target) {
  Result<Machine> machine = machine_for_target(target.name);
  LOW_CHECK(machine.has_value());
  return std::move(*machine);
}
std::string_view base_target(std::string_view target) {
  const CodegenTarget* const known = find_target(target);
  return known == nullptr ? "" : known->base;
}
bool has_routines(std::string_view target) {
  const CodegenTarget* const known = find_target(target);
  return known != nullptr && known->kind->source->routines;
}
std::string known_targets() { return fmt::format("{}", fmt::join(target_names, ", ")); }
std::span<const std::string_view> codegen_targets() { return target_names; }

}  // namespace low
