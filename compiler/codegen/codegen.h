// codegen: TileGraph -> source -> code objects, and the program that drives them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/exchange/exchange.h"
#include "compiler/low/tile_graph.h"
#include "compiler/placement/placement.h"
#include "runtime/base/thread_pool.h"
#include "runtime/format/package.h"

namespace low {

// A copy kernel is picked by the dtypes at its ends; loops are run data.
struct CopyKernel {
  DType source = DType::f32, destination = DType::f32;
  Overflow overflow = Overflow::propagate;
  auto operator<=>(const CopyKernel&) const = default;
};

// Extents of runs of a contract.
struct KernelExtents {
  uint32_t contract = 0;
  Shape extents;
  bool operator==(const KernelExtents&) const = default;
};

// What has to be compiled. Kernel i of the program is contract i, then the copy kernels.
struct KernelSet {
  std::vector<KernelContract> contracts;
  std::vector<CopyKernel> copies;
  std::vector<KernelExtents> runs;  // each distinct one, by first use
  // Kernels (ascending) that share an entry point; distinct sets, by first use.
  std::vector<std::vector<uint32_t>> entries;
  std::vector<uint32_t> superstep_entry;  // entry of each superstep
};
KernelSet collect_kernels(const TileGraph& graph, const Schedule& schedule);

// "gemm_0", "pointwise_1", "copy_2": kernel i's name in source, profile and manifest.
std::string kernel_name(const KernelSet& kernels, uint32_t kernel);

// The amalgamated translation unit: device library, one function for each kernel, one entry point for each set. The
// same for all targets of the target's kind, which is known. Deterministic; contains no path of this machine.
std::string emit_source(const KernelSet& kernels, std::string_view target);

// The translation unit of compile_routines.
std::string emit_routines(std::string_view target);

// Bytes of scratch that kernel runs on one tile need on `target` (the largest of the runs').
// ErrorKind::unsupported for a contract that no kernel of the target implements, naming both.
Result<uint64_t> scratch_bytes(const KernelSet& kernels, std::string_view target);

struct CodeObject {
  std::string target;
  std::string bytes;
  uint64_t scratch_bytes = 0;
  std::string clang_version;             // "clang version 19.1.7"
  std::vector<KernelInfo> entries = {};  // of a GPU: what the object says of its entry points
  std::string base = {};                 // the target whose object has the entry points that this one lacks; "": none
};
struct ToolchainOptions {
  std::string
      clang;  // program for all targets; "" = the build's default, then what a target's kind names (targets.cpp)
  // Of compile_routines: linked where target and clang's version agree; without, the kernels' source is compiled whole.
  std::span<const CodeObject> routines = {};
};
// Compiles for all targets, in parallel. Of a target with a base (base_target) the entry points that gain by it; there is
// no object if none does. ErrorKind::unsupported when there is no clang, and for a target that is
// unknown, to us or to the clang at hand; ErrorKind::internal with clang's first diagnostic when the source does not
// compile.
Result<std::vector<CodeObject>> compile_kernels(const KernelSet& kernels, const std::string& source,
                                                std::span<const std::string> targets, const ToolchainOptions& options,
                                                ThreadPool& pool);
// The functions of the device library that are alike in all models (LOW_ROUTINE in gemm.h), as an object to link.
Result<CodeObject> compile_routines(std::string_view target, const ToolchainOptions& options);
// Whether there are any for the target.
bool has_routines(std::string_view target);
// "clang version 19.1.7": of the program that `options` picks for a known target. ErrorKind::unsupported when there is
// none.
Result<std::string> toolchain_version(const ToolchainOptions& options, std::string_view target = "host-x86-64-v3");
// The target that the entry points come from which a target does not compile, or "".
std::string_view base_target(std::string_view target);
// Targets that code is generated for.
std::span<const std::string_view> codegen_targets();

// Lowers commands, views and control flow to the tables of runtime/format/abi.h.
Result<Program> lower_program(const TileGraph& graph, const Placement& placement, const Schedule& schedule,
                              const KernelSet& kernels, const Machine& machine);

// For people: control flow, and each tile's commands with their operands' places.
std::string print(const Program& program);

}  // namespace low
