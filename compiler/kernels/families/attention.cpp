#include "compiler/kernels/families/attention.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "compiler/base/integers.h"
#include "compiler/graph/ops/attention.h"
#include "compiler/kernels/contract.h"
#include "compiler/kernels/cost.h"

namespace low {

AttentionOperands AttentionKernel::named_operands() const {
  AttentionOperands found;
  if (masked) found.mask = found.extras++;
  if (causal) found.diagonal = found.extras++;
  if (continues) found.state = found.extras++;
  return found;
}

Shape AttentionKernel::run_extents(std::span<const Shape> operands) const {
  return {operands[0][0], operands[1][0], d, dv};
}

Shape AttentionKernel::operand_extents(const KernelContract& contract, const Shape& extents, size_t index) const {
  const int64_t m = extents[0], n = extents[1], head = extents[2], value = extents[3];
  const AttentionOperands known = named_operands();
  if (index == 0) return Shape{m, head};
  if (index == 1) return Shape{n, head};
  if (index == 2) return Shape{n, value};
  if (index == known.mask) return Shape{m, n};
  if (index == known.diagonal) return Shape{1};
  const bool state = index == known.state || (index + 1 == contract.operands.size() && partial);
  return Shape{m, state ? value + 2 : value};
}

std::string AttentionKernel::problem(const KernelContract& contract) const {
  const DType sum = accumulate;
  if (d < 1 || dv < 1 || dv > INT64_MAX - 2) return fmt::format("attention has head sizes {} and {}", d, dv);
  if (sum != DType::f32 && sum != DType::f64) return fmt::format("attention cannot accumulate in {}", low::name(sum));
  if (!is_float(math) || (math == DType::f64 && sum == DType::f32))
    return fmt::format("attention cannot multiply in {} and accumulate in {}", low::name(math), low::name(sum));
  if (!std::isfinite(scale)) return "attention has a scale that is not finite";
  if (!std::isfinite(softcap) || softcap < 0) return "attention has a softcap that is negative or not finite";
  if (std::isnan(masked_score) || masked_score > max_finite(DType::f64))
    return fmt::format("attention has a masked_score of {}", masked_score);
  const AttentionOperands known = named_operands();
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const DType dtype = contract.operands[i].dtype;
    if (i < 3 && !is_float(dtype))
      return fmt::format("attention has operand {} of {}, expected a float", i, low::name(dtype));
    if (i < 3) continue;
    if (i == known.mask && dtype != DType::boolean && !is_float(dtype))
      return fmt::format("attention has a mask of {}, expected bool or a float", low::name(dtype));
    if (i == known.diagonal && dtype != DType::i32)
      return fmt::format("attention has a diagonal of {}, expected i32", low::name(dtype));
    if ((i == known.state || (partial && i + 1 == contract.operands.size())) && dtype != sum)
      return fmt::format("attention has a state of {}, expected {}", low::name(dtype), low::name(sum));
  }
  return "";
}

std::string AttentionKernel::run_problem(const KernelContract&, const Shape& extents) const {
  const int64_t m = extents[0], n = extents[1];
  if (m < 0 || n < 1) return out_of_range(extents);
  // Scores, rows of a state, and the operands.
  for (const Shape& shape : {Shape{m, n}, Shape{m, d}, Shape{n, d}, Shape{n, dv}, Shape{m, dv + 2}})
    if (!checked_elements(shape.extents())) return out_of_range(extents);
  return "";
}

void AttentionKernel::add_work(KernelWork& work, const KernelContract& contract, const Shape& extents) const {
  work.kind = KernelWork::Kind::attention;
  work.expression_nodes = expression_work(contract.expr);
  work.m = extents[0];
  work.n = extents[1];
  work.k = extents[2];
  work.v = extents[3];
  work.a = work.b = math;
  work.score_nodes = score_work(masked, causal, softcap > 0);
  for (size_t i = 0; i < 3; ++i) work.strided = work.strided || strided_both_ways(contract.operands[i]);
}

double AttentionKernel::matrix_flop(const Shape& extents) const {
  return 2 * static_cast<double>(extents[0]) * static_cast<double>(extents[1]) * static_cast<double>(d + dv);
}

// Rows of a block: all of a part, or so few that a block of scores stays small.
std::vector<int64_t> attention_row_blocks(const Machine& machine, int64_t rows, AttentionAlgorithm algorithm) {
  std::vector<int64_t> blocks{rows};
  if (!machine.global_memory || algorithm == AttentionAlgorithm::flash) return blocks;
  const int64_t step = gemm_configurations(machine).panel_m;
  for (const int64_t steps : {32, 16, 8, 4, 2})
    if (steps * step < rows) blocks.push_back(steps * step);
  return blocks;
}

// Depths of panels of keys: all, and fractions.
std::vector<int64_t> attention_key_blocks(const Machine& machine, int64_t keys, AttentionAlgorithm algorithm) {
  std::vector<int64_t> blocks{keys};
  if (machine.global_memory || algorithm == AttentionAlgorithm::materialized) return blocks;
  for (int64_t parts = 2; parts <= 64 && parts <= keys; parts *= 2)
    if (const int64_t block = ceil_div(keys, parts); block != blocks.back()) blocks.push_back(block);
  return blocks;
}

Cost attention_run_cost(const Machine& machine, const KernelWork& work) {
  const GemmConfigurations products = gemm_configurations(machine);
  const auto m = static_cast<double>(work.m), n = static_cast<double>(work.n);
  const auto k = static_cast<double>(std::max<int64_t>(work.k, 0)), v = static_cast<double>(work.v);
  const double rate = matmul_rate(machine, work.a, work.b).flop_per_cycle;
  // Of the kernels that pack, rows are lanes, and what the scores become stays f32.
  const double value_rate =
      products.packs && work.a != DType::f64 ? matmul_rate(machine, DType::f32, DType::f32).flop_per_cycle : rate;
  const double rows = padded_to(work.m, products.packs ? machine.vector_lanes : products.step_m);
  const double keys = padded_to(work.n, products.packs ? 1 : products.step_n);
  // Per score both products' share and the softmax; per element of q, k, v and the result, conversion and epilogue.
  const double score =
      2 * (k / rate + v / value_rate) + static_cast<double>(work.score_nodes) / machine.vector_flop_per_cycle;
  const double elements = m * k + n * (k + v) + m * v * static_cast<double>(work.expression_nodes);
  Cost cost;
  cost.compute = rows * keys * score + elements / machine.vector_flop_per_cycle;
  cost.padding = (rows * keys - m * n) * score;
  cost.memory = transfer_cycles(machine, work) * (work.strided ? strided_matrix_penalty : 1);
  return cost;
}

DType attention_math(const Machine& machine, DType q, DType k, DType v) {
  const DType accumulate = attention_type(q, k, v);
  if (accumulate != DType::f32) return accumulate;
  const DType operands[] = {q, k, v};
  return matmul_rate(machine, operands).a;
}

bool AttentionKernel::gains_by_dots(const KernelContract& contract) const {
  return accumulate == DType::f32 && are_pairs(math, contract.operands[0].dtype, contract.operands[1].dtype);
}

std::string AttentionKernel::unimplemented() const {
  constexpr int64_t largest = 1 << 16;  // rows of a block of keys are kept in scratch
  for (const int64_t size : {d, dv})
    if (size > largest) return fmt::format("a head size of {}, above {}", size, largest);
  return "";
}

uint64_t AttentionKernel::scratch_bytes(const KernelContract&, const Shape& extents,
                                        const device::Tiling& tiling) const {
  if (accumulate == DType::f64) return static_cast<uint64_t>(dv) * sizeof(double);
  return static_cast<uint64_t>(device::attention_blocks(tiling, extents[0], extents[1], d, dv, masked).end) *
         sizeof(float);
}

}  // namespace low
