// Which kernels a target has, and what scratch they need.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/targets.h"
#include "compiler/kernels/contract.h"

namespace low {
namespace {

// What the kernel library does not do, or "".
std::string refusal(const KernelContract& contract) {
  if (std::string wrong = problem(contract); !wrong.empty()) return "a contract in which " + wrong;
  return unimplemented(contract);
}

}  // namespace

Result<uint64_t> scratch_bytes(const KernelSet& kernels, std::string_view target) {
  const CodegenTarget* const known = find_target(target);
  if (known == nullptr) {
    return fail(ErrorKind::unsupported,
                fmt::format("no code is generated for target {}; known are {}", target, known_targets()));
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < kernels.contracts.size(); ++i) {
    const KernelContract& contract = kernels.contracts[i];
    if (const auto* const gemm = contract.as<GemmKernel>(); known->chip != nullptr && gemm != nullptr && gemm->panels) {
      return fail(ErrorKind::unsupported, fmt::format("kernel {} has panels, which no kernel of target {} implements",
                                                      kernel_name(kernels, static_cast<uint32_t>(i)), target));
    }
    const std::string error = refusal(contract);
    if (!error.empty()) {
      return fail(ErrorKind::unsupported, fmt::format("kernel {} has {}, which no kernel of target {} implements",
                                                      kernel_name(kernels, static_cast<uint32_t>(i)), error, target));
    }
  }
  if (known->chip != nullptr) return 0;  // LDS is a constant of each entry point
  for (const auto& [contract, extents] : kernels.runs)
    bytes = std::max(bytes, scratch_bytes(kernels.contracts[contract], extents, known->tiling));
  return (bytes + 63) / 64 * 64;
}

}  // namespace low
