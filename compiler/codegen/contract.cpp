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
  const size_t result = contract.operands.size() - 1;
  const Shape axes = operand_extents(contract, result);
  for (int axis = 0; axis < axes.rank(); ++axis) {
    if (contract.operands[result].access[static_cast<size_t>(axis)] == Access::broadcast && axes[axis] > 1)
      return fmt::format("a result that is broadcast along axis {}", axis);
  }
  const auto* reduce = contract.as<ReduceKernel>();
  if (reduce != nullptr && reduce->accumulate == DType::boolean) return "elements combined in bool";
  if (contract.is<AttentionKernel>()) {
    for (const int axis : {2, 3}) {
      if (contract.extents[axis] > max_head_size)
        return fmt::format("a head size of {}, above {}", contract.extents[axis], max_head_size);
    }
  }
  return "";
}

// Of one run of a contract that was checked.
uint64_t contract_scratch_bytes(const KernelContract& contract, const CodegenTarget& target) {
  const Shape& e = contract.extents;
  if (const auto* gemm = contract.as<GemmKernel>(); gemm != nullptr && gemm->accumulate == DType::f32)
    return static_cast<uint64_t>(device::gemm_blocks(target.tiling, e[0], e[1], e[2]).end) * sizeof(float);
  if (const auto* attention = contract.as<AttentionKernel>()) {
    if (attention->accumulate == DType::f64) return static_cast<uint64_t>(e[3]) * sizeof(double);
    const device::AttentionBlocks blocks =
        device::attention_blocks(target.tiling, e[0], e[1], e[2], e[3], attention->masked);
    return static_cast<uint64_t>(blocks.end) * sizeof(float);
  }
  if (const auto* rowwise = contract.as<RowwiseKernel>()) {
    const device::RowPlan plan =
        device::row_plan(e.rank(), rowwise->inner, e.begin(), contract.operands[0].access.data());
    return static_cast<uint64_t>(plan.kept) * byte_size(rowwise->accumulate);
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
    bytes = std::max(bytes, contract_scratch_bytes(contract, *known));
  }
  return (bytes + 63) / 64 * 64;
}

}  // namespace low
