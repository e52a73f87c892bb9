#include "compiler/kernels/families/gemm.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/base/integers.h"
#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"
#include "compiler/kernels/data/gemm_amd.h"
#include "compiler/kernels/packing_targets.h"

namespace low {
namespace {

bool accumulates(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 ||
         dtype == DType::u32 || dtype == DType::u64;
}

uint64_t accumulator_size(DType a, DType b) { return std::max(byte_size(a), byte_size(b)) > 4 ? 8 : 4; }

// Sizes of the blocks that cut a part of `part` into as few pieces as `limit` allows, and into one more: equal pieces,
// rounded up to the register block.
std::vector<int64_t> block_sizes(int64_t part, int64_t step, int64_t limit) {
  if (part <= 1) return {1};
  const int64_t largest = limit / step * step;
  const int64_t fewest = ceil_div(part, largest);
  std::vector<int64_t> result;
  for (int64_t count = fewest; count <= fewest + 1; ++count) {
    const int64_t block = std::min(round_up(ceil_div(part, count), step), part);
    if (result.empty() || result.back() != block) result.push_back(block);
  }
  return result;
}

constexpr int64_t deepest = 65536;

// Bytes that a block takes: of sums, and of what is staged, twice over.
struct BlockNeeds {
  uint64_t accumulators = 0, staged = 0;
};
BlockNeeds needs_of(const GemmConfigurations& known, const GemmBlock& block, DType a, DType b) {
  const auto m = static_cast<uint64_t>(round_up(block.m, known.step_m));
  const auto n = static_cast<uint64_t>(round_up(block.n, known.step_n));
  return {m * n * accumulator_size(a, b),
          known.packs ? 0 : (m * byte_size(a) + n * byte_size(b)) * static_cast<uint64_t>(block.k) * 2};
}

// What a block has too much of.
enum class Limit : uint8_t { none, sides, depth, accumulators, scratch };
Limit exceeded(const Machine& machine, const GemmConfigurations& known, const GemmBlock& block, DType a, DType b) {
  if (block.m < 1 || block.m > known.most_m || block.n < 1 || block.n > known.most_n) return Limit::sides;
  if (block.k < 1 || block.k > deepest) return Limit::depth;
  const BlockNeeds needs = needs_of(known, block, a, b);
  if (machine.accumulator_bytes != 0 && needs.accumulators > machine.accumulator_bytes) return Limit::accumulators;
  return needs.staged > machine.scratch_bytes ? Limit::scratch : Limit::none;
}

// The deepest staging of up to 128 bytes that fits the scratch memory; 0 when none does.
int64_t staging_depth(const Machine& machine, const GemmConfigurations& known, GemmBlock block, int64_t k, DType a,
                      DType b) {
  // A packing kernel goes through k in slices whose rows stay in the closest cache.
  int64_t depth = known.packs ? 256 : 128 / static_cast<int64_t>(std::max(byte_size(a), byte_size(b)));
  for (; depth > 0; depth /= 2) {
    block.k = std::max<int64_t>(std::min(depth, k), 1);
    if (exceeded(machine, known, block, a, b) == Limit::none) return block.k;
  }
  return 0;
}

// Whether the sums have 32 bits, so that the kernel is blocked.
bool has_words(DType sum) { return sum == DType::f32 || sum == DType::i32 || sum == DType::u32; }

}  // namespace

bool are_pairs(DType math, DType a, DType b) {
  const auto fits = [](DType type) { return type == DType::bf16 || is_fp8(type); };
  return math == DType::bf16 && fits(a) && fits(b);
}

Shape GemmKernel::run_extents(std::span<const Shape> operands) const {
  return {operands[0][0], operands.back()[1], operands[0][1]};
}

Shape GemmKernel::operand_extents(const KernelContract&, const Shape& extents, size_t index) const {
  const int64_t m = extents[0], n = extents[1], k = extents[2];
  constexpr int64_t panel = device::panel_columns;
  if (index == 1 && panels) return {ceil_div(n, panel), k, panel};
  return index == 0 ? Shape{m, k} : index == 1 ? Shape{k, n} : Shape{m, n};
}

int64_t GemmKernel::elements_that_count(const KernelContract& contract, const Shape& extents, size_t index) const {
  return index == 1 ? extents[1] * extents[2] : operand_extents(contract, extents, index).elements();
}

std::string GemmKernel::problem(const KernelContract& contract) const {
  if (stage_k < 0) return fmt::format("stage_k is {}", stage_k);
  if (configuration &&
      (*configuration < 0 || *configuration >= static_cast<int>(std::size(device::gemm_configurations_amd))))
    return fmt::format("configuration is {}", *configuration);
  if (configuration && panels) return "a configuration of a GPU and panels of the host";
  if (!accumulates(accumulate)) return fmt::format("gemm cannot accumulate in {}", low::name(accumulate));
  for (const DType math : {math_a, math_b}) {
    if (math == DType::boolean || is_float(math) != is_float(accumulate) ||
        (math == DType::f64 && accumulate == DType::f32))
      return fmt::format("gemm cannot multiply in {} and accumulate in {}", low::name(math), low::name(accumulate));
  }
  if (!panels) return "";
  if (!has_words(accumulate)) return fmt::format("panels are summed in {}", low::name(accumulate));
  const std::vector<Access>& access = contract.operands[1].access;
  if (access.size() != 3 || access[1] == Access::broadcast || access[2] != Access::unit)
    return "a panel is not row by row";
  return "";
}

std::string GemmKernel::run_problem(const KernelContract&, const Shape& extents) const {
  if (!checked_elements(extents.extents())) return out_of_range(extents);
  if (!rows) return "";
  if (extents[0] != *rows) return fmt::format("{} rows, the kernel has {}", extents[0], *rows);
  if (extents[1] < device::least_unrolled_columns || extents[2] < 1)
    return fmt::format("extents {} of a kernel for few rows", to_string(extents));
  return "";
}

bool GemmKernel::multiplies_bytes(const KernelContract& contract) const {
  if (accumulate != DType::i32 && accumulate != DType::u32) return false;
  const auto fits = [&](size_t operand, DType math) {
    const DType type = contract.operands[operand].dtype;
    return (type == DType::i8 || type == DType::u8) && byte_size(math) == 4;
  };
  return fits(0, math_a) && fits(1, math_b);
}

bool GemmKernel::gains_by_dots(const KernelContract& contract) const {
  return multiplies_pairs(contract) || multiplies_bytes(contract);
}

bool GemmKernel::multiplies_pairs(const KernelContract& contract) const {
  return accumulate == DType::f32 && math_a == math_b &&
         are_pairs(math_a, contract.operands[0].dtype, contract.operands[1].dtype);
}

void GemmKernel::configure(const KernelContract& contract, const Shape& extents) {
  const int64_t m = extents[0], n = extents[1], k = extents[2];
  if (configuration) {
    configuration = static_cast<int>(&device::gemm_configuration_for(m, n) - device::gemm_configurations_amd);
    return;
  }
  const bool few = has_words(accumulate) && m >= 1 && m <= device::most_unrolled_rows &&
                   n >= device::least_unrolled_columns && k >= 1 &&
                   (panels || contract.operands[1].access[1] == Access::unit);
  rows = few ? std::optional(static_cast<int>(m)) : std::nullopt;
}

void GemmKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  work.kind = KernelWork::Kind::gemm;
  work.expression_nodes = expression_work(contract.expr);
  work.m = extents[0];
  work.n = extents[1];
  work.k = extents[2];
  work.a = contract.operands[0].dtype;
  work.b = contract.operands[1].dtype;
  work.strided = strided_both_ways(contract.operands[0]) || (!panels && strided_both_ways(contract.operands[1]));
}

double GemmKernel::matrix_flop(const Shape& extents) const {
  return 2 * static_cast<double>(extents[0]) * static_cast<double>(extents[1]) * static_cast<double>(extents[2]);
}

GemmConfigurations gemm_configurations(const Machine& machine) {
  if (const PackingTarget* target = packing_target(machine)) {
    const device::Tiling& tiling = target->tiling;
    return {.packs = true,
            .step_m = 1,  // panels of a block differ by one row at most, and compute no others
            .step_n = tiling.panel_n,
            .panel_m = tiling.panel_m,
            .few_rows = device::most_unrolled_rows,
            .most_m = tiling.block_m,
            .most_n = tiling.block_n};
  }
  GemmConfigurations staged{.step_m = machine.matrix_rows, .step_n = machine.matrix_columns};
  staged.panel_m = staged.step_m;
  // With global memory the sums of 256 x 256 elements fill a compute unit's registers; without it rows stream by.
  staged.most_m = machine.global_memory ? 256 : 1024;
  staged.most_n = 256;
  return staged;
}

std::optional<std::string> gemm_block_problem(const Machine& machine, const GemmBlock& block, DType a, DType b) {
  const GemmConfigurations known = gemm_configurations(machine);
  switch (exceeded(machine, known, block, a, b)) {
    case Limit::none:
      return std::nullopt;
    case Limit::sides:
      return fmt::format("a block of {} x {} where {} allows 1 to {} x 1 to {}", block.m, block.n, machine.name,
                         known.most_m, known.most_n);
    case Limit::depth:
      return fmt::format("a block depth of {}; expected is 1 to {}", block.k, deepest);
    case Limit::accumulators:
      return fmt::format("a block of {} x {} needs {} bytes of accumulators; {} has {}", block.m, block.n,
                         needs_of(known, block, a, b).accumulators, machine.name, machine.accumulator_bytes);
    case Limit::scratch:
      break;
  }
  return fmt::format("a block of {} x {} x {} stages {} bytes twice over; {} has {} bytes of scratch", block.m, block.n,
                     block.k, needs_of(known, block, a, b).staged / 2, machine.name, machine.scratch_bytes);
}

std::vector<GemmBlock> gemm_block_choices(const Machine& machine, int64_t m, int64_t n, int64_t depth, DType a,
                                          DType b) {
  const GemmConfigurations known = gemm_configurations(machine);
  std::vector<GemmBlock> choices;
  for (const int64_t rows : block_sizes(m, known.step_m, known.most_m)) {
    for (const int64_t columns : block_sizes(n, known.step_n, known.most_n)) {
      GemmBlock block{rows, columns, 0};
      block.k = staging_depth(machine, known, block, depth, a, b);
      // Too large for scratch or accumulators: shrink the longer side until it fits.
      while (block.k == 0 && std::max(block.m, block.n) > 1) {
        int64_t& longer = block.m >= block.n ? block.m : block.n;
        const int64_t step = &longer == &block.m ? known.step_m : known.step_n;
        longer = longer <= step ? longer / 2 : ceil_div(longer, step) / 2 * step;
        block.k = staging_depth(machine, known, block, depth, a, b);
      }
      if (block.k != 0 && (choices.empty() || choices.back() != block)) choices.push_back(block);
    }
  }
  return choices;
}

GemmKernel gemm_kernel(const Machine& machine, const MathRate& math, DType accumulate, int64_t depth) {
  const GemmConfigurations known = gemm_configurations(machine);
  GemmKernel kernel{.math_a = math.a, .math_b = math.b, .accumulate = accumulate};
  // Kernels that pack cut k themselves, alike in all runs (gemm_blocks), and so do those of GPUs.
  if (!known.packs && !machine.global_memory) kernel.stage_k = depth;
  if (!known.packs && machine.global_memory) kernel.configuration = 0;
  return kernel;
}

bool gemm_wants_panels(const Machine& machine, DType accumulate, int64_t n) {
  return gemm_configurations(machine).packs && has_words(accumulate) && n >= device::panel_columns;
}

int64_t gemm_depth(const Machine& machine, int64_t m, int64_t n, int64_t k, DType a, DType b) {
  const std::vector<GemmBlock> blocks = gemm_block_choices(machine, m, n, k, a, b);
  return blocks.empty() ? 1 : blocks.front().k;  // of the largest
}

Cost gemm_run_cost(const Machine& machine, const KernelWork& work) {
  const GemmConfigurations known = gemm_configurations(machine);
  const auto m = static_cast<double>(work.m), n = static_cast<double>(work.n);
  const auto k = static_cast<double>(std::max<int64_t>(work.k, 0));
  const MathRate math = matmul_rate(machine, work.a, work.b);
  const double rate = math.flop_per_cycle;
  const bool few_rows = work.m <= known.few_rows;
  const double padded = padded_to(work.m, known.step_m) * padded_to(work.n, known.step_n);
  // Operands become the format that is computed in: one conversion an element and run, on the vector unit.
  double converted = 0;
  if (known.packs || byte_size(work.a) != byte_size(math.a)) converted += m * k;
  if ((known.packs && !few_rows) || byte_size(work.b) != byte_size(math.b)) converted += k * n;
  const double expression = m * n * static_cast<double>(work.expression_nodes) / machine.vector_flop_per_cycle;
  Cost cost;
  cost.compute = 2 * padded * k / rate + converted / machine.vector_flop_per_cycle + expression;
  cost.padding = 2 * (padded - m * n) * k / rate;
  cost.memory = transfer_cycles(machine, work) * (work.strided ? strided_matrix_penalty : 1);
  return cost;
}

MathRate gemm_math(const Machine& machine, DType sum, DType a, DType b) {
  return sum == DType::f32 ? matmul_rate(machine, a, b) : MathRate{sum, sum};
}

uint64_t GemmKernel::scratch_bytes(const KernelContract& contract, const Shape& extents,
                                   const device::Tiling& tiling) const {
  if (!has_words(accumulate)) return 0;
  const int more_rows = multiplies_bytes(contract) ? 1 : 0;
  const device::GemmBlocks blocks = device::gemm_blocks(tiling, extents[0], extents[1], extents[2], more_rows);
  return static_cast<uint64_t>(blocks.end) * sizeof(float);
}

}  // namespace low
