#include <algorithm>

#include "compiler/base/integers.h"
#include "compiler/kernels/cost.h"

namespace low {
namespace {

int64_t node_work(const ExprNode& node) {
  // Small floats compute in f32 and round after every node.
  const int64_t rounding = is_fp8(node.dtype) ? 6 : node.dtype == DType::f16 || node.dtype == DType::bf16 ? 2 : 0;
  switch (node.op) {
    case ExprOp::constant:
      return 0;
    case ExprOp::input:
    case ExprOp::convert:
      return 1 + rounding;
    case ExprOp::exp:
    case ExprOp::log:
    case ExprOp::sin:
    case ExprOp::cos:
    case ExprOp::sigmoid:
    case ExprOp::tanh:
      return 12 + rounding;
    case ExprOp::erf:
    case ExprOp::pow:
      return 24 + rounding;
    case ExprOp::div:
    case ExprOp::sqrt:
    case ExprOp::reciprocal:
    case ExprOp::modulo:
      return 4 + rounding;
    default:
      return 1 + rounding;
  }
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  compute += other.compute;
  memory += other.memory;
  exchange += other.exchange;
  launch += other.launch;
  padding += other.padding;
  return *this;
}

void CostSum::add(const Cost& superstep, double times) { add(CostSum{superstep, superstep.total()}, times); }

void CostSum::add(const CostSum& other, double times) {
  items.compute += other.items.compute * times;
  items.memory += other.items.memory * times;
  items.exchange += other.items.exchange * times;
  items.launch += other.items.launch * times;
  items.padding += other.items.padding * times;
  cycles += other.cycles * times;
}

int64_t expression_work(const Expr& expr) {
  int64_t work = 0;
  for (const ExprNode& node : expr.nodes) work += node_work(node);
  return work;
}

int64_t reduce_work(Reduce::Kind kind, const std::optional<Expr>& map) {
  const bool index = kind == Reduce::Kind::index_max || kind == Reduce::Kind::index_min;
  return (map ? expression_work(*map) : 1) + (index ? 3 : 1);
}

int64_t rowwise_work(Rowwise::Kind kind) {
  switch (kind) {
    case Rowwise::Kind::softmax:
    case Rowwise::Kind::masked_softmax:
    case Rowwise::Kind::log_softmax:
      return 17;  // conversion, maximum, subtraction, exp, sum, and one more
    case Rowwise::Kind::layer_norm:
      return 7;
    case Rowwise::Kind::rms_norm:
      break;
  }
  return 4;
}

int64_t score_work(bool masked, bool causal, bool capped) {
  // Scale, maximum, subtraction, exp and sum.
  return 16 + (masked ? 2 : 0) + (causal ? 2 : 0) + (capped ? 18 : 0);
}

double transfer_cycles(const Machine& machine, const KernelWork& work) {
  const double bytes = static_cast<double>(work.read_bytes) + static_cast<double>(work.written_bytes);
  // Without global memory all operands lie in the tile's own.
  return bytes / (machine.global_memory ? machine.across_bytes_per_cycle : machine.own_bytes_per_cycle);
}

double padded_to(int64_t extent, int64_t step) {
  return static_cast<double>(round_up(extent, std::max<int64_t>(step, 1)));
}

Cost kernel_cost(const Machine& machine, const KernelWork& work) {
  Cost cost;
  if (work.m <= 0 || work.n <= 0) return cost;
  switch (work.kind) {
    case KernelWork::Kind::gemm:
      cost = gemm_run_cost(machine, work);
      break;
    case KernelWork::Kind::attention:
      cost = attention_run_cost(machine, work);
      break;
    case KernelWork::Kind::pointwise:
      cost = elementwise_run_cost(machine, work);
      break;
    case KernelWork::Kind::copy:
      cost.exchange = transfer_cycles(machine, work) * (work.strided ? strided_penalty : 1);
      break;
  }
  cost.launch = machine.command_cycles;
  return cost;
}

namespace {

// Each thread takes the next tile when it is done with one: what all of its tiles cost, for each thread.
std::vector<Cost> shared_out(std::span<const Cost> tiles, uint32_t threads) {
  std::vector<Cost> sums(threads);
  for (const Cost& tile : tiles) *std::ranges::min_element(sums, {}, &Cost::total) += tile;
  return sums;
}

}  // namespace

Cost superstep_cost(const Machine& machine, const SuperstepWork& work) {
  Cost cost;
  std::span<const Cost> busy = work.tiles;
  std::vector<Cost> threads;
  if (machine.workers > 0) busy = threads = shared_out(busy, machine.workers);
  for (const Cost& sum : busy) {
    if (sum.total() > cost.total()) cost = sum;
  }
  double device = work.bytes / machine.device_bytes_per_cycle;
  if (work.distinct_bytes >= 0 && work.distinct_bytes <= static_cast<double>(machine.shared_cache_bytes)) {
    device = work.distinct_bytes / machine.device_bytes_per_cycle +
             std::max(work.bytes - work.distinct_bytes, 0.0) / machine.shared_cache_bytes_per_cycle;
  }
  // Copies use the memory system, too: what they do not account for is left for the rest. Tiles' own memories are not
  // shared.
  if (machine.global_memory) cost.memory = std::max(cost.memory, device - cost.exchange);
  cost.launch += machine.launch_cycles;
  return cost;
}

double exchange_cycles(const Machine& machine, std::span<const TileExchange> tiles) {
  double longest = 0;
  for (const TileExchange& tile : tiles) longest = std::max(longest, exchange_cycles(machine, tile));
  return longest;
}

}  // namespace low
