// Which contracts the kernel library implements, and what scratch they need.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/targets.h"
#include "compiler/kernels/contract.h"
#include "compiler/kernels/data/rows.h"

namespace low {
namespace {

// Elements of a row of q, k and v: rows of a key block are kept in scratch.
constexpr int64_t max_head_size = 1 << 16;

// What the kernel library does not do, or "".
std::string unimplemented(const KernelContract& contract) {
  if (std::string wrong = problem(contract); !wrong.empty()) return "a contract in which " + wrong;
  const auto* reduce = contract.as<ReduceKernel>();
  if (reduce != nullptr && reduce->accumulate == DType::boolean) return "elements combined in bool";
  if (const auto* attention = contract.as<AttentionKernel>()) {
    for (const int64_t size : {attention->d, attention->dv})
      if (size > max_head_size) return fmt::format("a head size of {}, above {}", size, max_head_size);
  }
  return "";
}

// Of a run of a contract that was checked.
uint64_t run_scratch_bytes(const KernelContract& contract, const Shape& e, const CodegenTarget& target) {
  if (const auto* gemm = contract.as<GemmKernel>(); gemm != nullptr && gemm->accumulate == DType::f32)
    return static_cast<uint64_t>(device::gemm_blocks(target.tiling, e[0], e[1], e[2]).end) * sizeof(float);
  if (const auto* attention = contract.as<AttentionKernel>()) {
    if (attention->accumulate == DType::f64) return static_cast<uint64_t>(attention->dv) * sizeof(double);
    const device::AttentionBlocks blocks =
        device::attention_blocks(target.tiling, e[0], e[1], attention->d, attention->dv, attention->masked);
    return static_cast<uint64_t>(blocks.end) * sizeof(float);
  }
  if (const auto* rowwise = contract.as<RowwiseKernel>()) {
    const bool columns = rowwise->columns.has_value();
    const long long kept = device::kept_elements(columns, rowwise->long_rows, inner_extents(contract, e).elements(),
                                                 columns ? e[*rowwise->columns] : 1);
    return static_cast<uint64_t>(kept) * byte_size(rowwise->accumulate);
  }
  return 0;
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
    const std::string error = unimplemented(contract);
    if (!error.empty()) {
      return fail(ErrorKind::unsupported, fmt::format("kernel {} has {}, which no kernel of target {} implements",
                                                      kernel_name(kernels, static_cast<uint32_t>(i)), error, target));
    }
  }
  for (const auto& [contract, extents] : kernels.runs)
    bytes = std::max(bytes, run_scratch_bytes(kernels.contracts[contract], extents, *known));
  return (bytes + 63) / 64 * 64;
}

}  // namespace low
