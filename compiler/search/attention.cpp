#include "compiler/search/attention.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "compiler/base/integers.h"
#include "compiler/search/space.h"

namespace low {
namespace {

uint64_t product(const AttentionPlan& plan) { return uint64_t{plan.grid_batch} * plan.grid_m * plan.grid_heads; }

int64_t part_rows(const AttentionExtents& extents, const AttentionPlan& plan) {
  return std::max<int64_t>(ceil_div(extents.m, plan.grid_m), 1);
}

// Bytes of so many rows of scores. Both extents may be as large as a tensor's; their product may be of any size.
int64_t score_bytes_of(int64_t rows, int64_t keys, int64_t element_bytes) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 8;  // so that sums of a few fit
  int64_t bytes = 0;
  if (__builtin_mul_overflow(rows, keys, &bytes) || __builtin_mul_overflow(bytes, element_bytes, &bytes)) return most;
  return std::min(bytes, most);
}

// Materialized scores are kept as a tensor.
bool scores_fit(const AttentionExtents& extents, int64_t rows) {
  return score_bytes_of(rows, extents.n, extents.score_bytes) <= max_tensor_bytes;
}

}  // namespace

AttentionExtents attention_extents(const Graph& graph, const Op& op) {
  const auto& attention = std::get<Attention>(op.attributes);
  const std::span<const ValueId> operands = graph.operands(op);
  const Shape& q = graph.type(operands[0]).shape;
  const Shape& k = graph.type(operands[1]).shape;
  const Shape& v = graph.type(operands[2]).shape;
  return {.batch = q[0],
          .m = q[1],
          .q_heads = attention.q_heads,
          .n = k[1],
          .d = q[2] / attention.q_heads,
          .dv = v[2] / attention.kv_heads,
          .kv_batch = k[0],
          .kv_heads = attention.kv_heads,
          .score_bytes = static_cast<int64_t>(byte_size(attention_type(
              graph.type(operands[0]).dtype, graph.type(operands[1]).dtype, graph.type(operands[2]).dtype))),
          .causal = attention.diagonal.has_value()};
}

bool can_compute(const AttentionExtents& extents, AttentionAlgorithm algorithm) {
  if (algorithm == AttentionAlgorithm::flash) return true;
  // The mask of the diagonal has to be written out.
  return !extents.causal || extents.m <= max_causal_mask_elements / std::max<int64_t>(extents.n, 1);
}

std::string attention_obstacle(const Graph& graph, const Op& op) {
  const AttentionExtents extents = attention_extents(graph, op);
  if (!can_compute(extents, AttentionAlgorithm::materialized))
    return "a causal mask of that size is too large to be written out for materialized scores";
  return "no decision for this attention fits the machine";
}

std::vector<AttentionPlan> attention_space(const Machine& machine, const AttentionExtents& extents,
                                           std::optional<AttentionAlgorithm> only, int64_t limit) {
  std::vector<AttentionPlan> grids;
  uint64_t most = 0;
  for (const uint32_t batch : splits(extents.batch, machine.tiles)) {
    for (const uint32_t heads : splits(extents.q_heads, machine.tiles)) {
      if (uint64_t{batch} * heads > machine.tiles) break;
      for (const uint32_t m : splits(extents.m, machine.tiles)) {
        if (uint64_t{batch} * heads * m > machine.tiles) break;
        AttentionPlan plan{.grid_batch = batch, .grid_m = m, .grid_heads = heads};
        most = std::max(most, product(plan));
        grids.push_back(plan);
      }
    }
  }
  // Grids that leave most of the usable tiles idle are not worth a place in the budget; on few tiles all are.
  constexpr uint64_t few = 64;
  if (machine.tiles > few) std::erase_if(grids, [&](const AttentionPlan& plan) { return product(plan) * 2 < most; });
  std::ranges::sort(grids, [](const AttentionPlan& a, const AttentionPlan& b) {
    if (product(a) != product(b)) return product(a) > product(b);
    return std::tie(a.grid_batch, a.grid_heads) < std::tie(b.grid_batch, b.grid_heads);
  });
  std::vector<AttentionPlan> result;
  for (const AttentionPlan& grid : grids) {
    for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized}) {
      if (!can_compute(extents, algorithm) || (only && *only != algorithm)) continue;
      for (const int64_t rows : attention_row_blocks(machine, part_rows(extents, grid), algorithm)) {
        if (algorithm == AttentionAlgorithm::materialized && !scores_fit(extents, rows)) continue;
        for (const int64_t keys : attention_key_blocks(machine, extents.n, algorithm)) {
          if (static_cast<int64_t>(result.size()) >= limit) return result;
          AttentionPlan plan = grid;
          plan.algorithm = algorithm;
          plan.block_m = rows;
          plan.block_n = keys;
          result.push_back(plan);
        }
      }
    }
  }
  return result;
}

std::vector<uint32_t> key_part_space(const Machine& machine, const AttentionExtents& extents) {
  constexpr uint32_t fewest = 4, most = 128;
  const uint64_t heads = static_cast<uint64_t>(std::max<int64_t>(extents.kv_batch * extents.kv_heads, 1));
  const auto limit = static_cast<uint32_t>(std::min<uint64_t>(machine.tiles / heads, most));
  std::vector<uint32_t> result;
  if (limit < fewest) return result;
  for (const uint32_t parts : splits(extents.n, limit)) {
    // Neighbours differ by an eighth at least.
    if (parts >= fewest && (result.empty() || parts * 8 >= result.back() * 9)) result.push_back(parts);
  }
  return result;
}

KeyParts key_parts(const AttentionExtents& extents, const AttentionPlan& plan, int64_t width) {
  KeyParts result;
  result.extents.batch = extents.kv_batch;
  result.extents.m = extents.n;
  result.extents.q_heads = extents.kv_heads;
  result.extents.dv = width;
  result.plan.grid_batch = static_cast<uint32_t>(extents.kv_batch);
  result.plan.grid_m = plan.key_parts;
  result.plan.grid_heads = static_cast<uint32_t>(extents.kv_heads);
  return result;
}

std::optional<std::string> attention_violation(const Machine& machine, const AttentionExtents& extents,
                                               const AttentionPlan& plan) {
  struct Axis {
    std::string_view name;
    uint32_t grid;
    int64_t extent;
  };
  uint64_t parts = 1;
  for (const Axis& axis : {Axis{"batch", plan.grid_batch, extents.batch}, Axis{"m", plan.grid_m, extents.m},
                           Axis{"heads", plan.grid_heads, extents.q_heads}}) {
    if (axis.grid < 1 || axis.grid > static_cast<uint64_t>(std::max<int64_t>(axis.extent, 1)))
      return fmt::format("a grid of {} along {} of extent {}", axis.grid, axis.name, axis.extent);
    parts *= axis.grid;
    if (parts > machine.tiles) return fmt::format("a grid of {} or more parts on {} tiles", parts, machine.tiles);
  }
  if (!can_compute(extents, plan.algorithm)) return "materialized scores, which cannot compute this attention";
  const int64_t rows = part_rows(extents, plan);
  if (plan.block_m < 1 || plan.block_m > rows || (!machine.global_memory && plan.block_m != rows))
    return fmt::format("a block of {} rows of a part of {}", plan.block_m, rows);
  if (plan.algorithm == AttentionAlgorithm::materialized && !scores_fit(extents, plan.block_m))
    return fmt::format("materialized scores of {} x {}; a tensor has at most {} bytes", plan.block_m, extents.n,
                       max_tensor_bytes);
  if (plan.block_n < 1 || plan.block_n > std::max<int64_t>(extents.n, 1))
    return fmt::format("panels of {} keys of {}", plan.block_n, extents.n);
  if (plan.key_parts > 0) {
    const auto key_count = static_cast<int64_t>(plan.key_parts);
    if (machine.global_memory) return fmt::format("keys in {} parts, with global memory", key_count);
    if (key_count > extents.n || ceil_div(extents.n, ceil_div(extents.n, key_count)) != key_count)
      return fmt::format("keys in {} parts of {}, some of which are empty", key_count, extents.n);
    if (key_count > static_cast<int64_t>(machine.tiles) / std::max<int64_t>(extents.kv_batch * extents.kv_heads, 1))
      return fmt::format("keys in {} parts for each of {} heads on {} tiles", key_count,
                         extents.kv_batch * extents.kv_heads, machine.tiles);
  }
  const bool panels = !machine.global_memory && plan.algorithm == AttentionAlgorithm::flash;
  if (!panels && plan.block_n != extents.n)
    return fmt::format("panels of {} keys; expected are all {} at once", plan.block_n, extents.n);
  return std::nullopt;
}

AttentionWork attention_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  const auto& attention = std::get<Attention>(op.attributes);
  const std::span<const ValueId> values = graph.operands(op);
  const Type& result = graph.type(graph.result(op));
  AttentionWork work;
  work.shape = attention_extents(graph, op);
  work.q = graph.type(values[0]).dtype;
  work.k = graph.type(values[1]).dtype;
  work.v = graph.type(values[2]).dtype;
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  if (attention.masked) {
    const Type& mask = graph.type(values[3]);
    if (mask.shape[2] != 1 && mask.shape[3] != 1) work.mask_bytes = static_cast<int64_t>(byte_size(mask.dtype));
  }
  work.score_nodes = score_work(attention.masked, attention.diagonal.has_value(), attention.softcap > 0);
  work.expression_nodes = attention.epilogue ? expression_work(*attention.epilogue) : 1;
  for (size_t i = attention.masked ? 4 : 3; i < values.size(); ++i) {
    const Type& extra = graph.type(values[i]);
    if (extra.shape == result.shape) work.extra_bytes += static_cast<int64_t>(byte_size(extra.dtype));
  }
  for (size_t i = 0; i < 3; ++i) {
    const Shape& shape = graph.type(values[i]).shape;
    const Layout& layout = operands[i];
    const bool contiguous = shape[2] <= 1 || layout.strides[2] == 1 || shape[1] <= 1 || layout.strides[1] == 1;
    work.strided = work.strided || !contiguous;
  }
  return work;
}

boost::container::static_vector<KernelWork, 3> attention_runs(const Machine& machine, const AttentionWork& work,
                                                              AttentionAlgorithm algorithm, int64_t rows,
                                                              int64_t keys) {
  const AttentionExtents& shape = work.shape;
  const auto q_bytes = static_cast<int64_t>(byte_size(work.q)), k_bytes = static_cast<int64_t>(byte_size(work.k)),
             v_bytes = static_cast<int64_t>(byte_size(work.v));
  const int64_t written = rows * shape.dv * work.result_bytes;
  if (algorithm == AttentionAlgorithm::flash) {
    KernelWork run;
    run.kind = KernelWork::Kind::attention;
    run.m = rows;
    run.n = keys;
    run.k = shape.d;
    run.v = shape.dv;
    run.a = run.b = attention_math(machine, work.q, work.k, work.v);
    run.score_nodes = work.score_nodes;
    run.expression_nodes = work.expression_nodes;
    run.read_bytes = rows * shape.d * q_bytes + keys * (shape.d * k_bytes + shape.dv * v_bytes) +
                     score_bytes_of(rows, keys, work.mask_bytes) + rows * shape.dv * work.extra_bytes;
    run.written_bytes = written;
    run.strided = work.strided;
    return {run};
  }
  const int64_t score_bytes = shape.score_bytes;
  KernelWork scores;
  scores.kind = KernelWork::Kind::gemm;
  scores.m = rows;
  scores.n = keys;
  scores.k = shape.d;
  scores.a = work.q;
  scores.b = work.k;
  scores.expression_nodes = work.score_nodes / 4;
  scores.read_bytes = rows * shape.d * q_bytes + keys * shape.d * k_bytes + score_bytes_of(rows, keys, work.mask_bytes);
  scores.written_bytes = score_bytes_of(rows, keys, score_bytes);
  scores.strided = work.strided;
  KernelWork softmax;
  softmax.kind = KernelWork::Kind::pointwise;
  softmax.m = rows;
  softmax.n = keys;
  softmax.expression_nodes = rowwise_work(Rowwise::Kind::softmax) + 1;
  softmax.read_bytes = softmax.written_bytes = score_bytes_of(rows, keys, score_bytes);
  KernelWork sums = scores;
  sums.n = shape.dv;
  sums.k = keys;
  sums.a = DType::f32;
  sums.b = work.v;
  sums.expression_nodes = work.expression_nodes;
  sums.read_bytes =
      score_bytes_of(rows, keys, score_bytes) + keys * shape.dv * v_bytes + rows * shape.dv * work.extra_bytes;
  sums.written_bytes = written;
  return {scores, softmax, sums};
}

CostSum attention_cost(const Machine& machine, const AttentionWork& work, const AttentionPlan& plan) {
  CostSum result;
  if (work.shape.batch == 0 || work.shape.m == 0) return result;
  result.add(superstep_cost(machine, attention_superstep(machine, work, plan)));
  return result;
}

SuperstepWork attention_superstep(const Machine& machine, const AttentionWork& work, const AttentionPlan& plan) {
  const AttentionExtents& shape = work.shape;
  const int64_t rows = part_rows(shape, plan);
  const int64_t heads = ceil_div(shape.q_heads, plan.grid_heads), batches = ceil_div(shape.batch, plan.grid_batch);
  // Tile 0 has the largest part of each axis: it is the busiest.
  CostSum busiest;
  double run_bytes = 0;  // of all runs of one part
  const auto add_block = [&](int64_t block, int64_t count) {
    if (block <= 0 || count <= 0) return;
    const auto times = static_cast<double>(count * heads * batches);
    for (const KernelWork& run : attention_runs(machine, work, plan.algorithm, block, shape.n)) {
      busiest.add(kernel_cost(machine, run), times);
      run_bytes += times * static_cast<double>(run.read_bytes + run.written_bytes);
    }
  };
  add_block(plan.block_m, rows / plan.block_m);
  add_block(rows % plan.block_m, 1);
  SuperstepWork superstep;
  superstep.tiles.push_back(busiest.items);
  superstep.bytes = run_bytes * static_cast<double>(product(plan));
  const auto size = [](DType dtype) { return static_cast<double>(byte_size(dtype)); };
  const auto of_q = static_cast<double>(shape.batch * shape.m * shape.q_heads);
  const auto of_kv = static_cast<double>(shape.kv_batch * shape.n * shape.kv_heads);
  superstep.distinct_bytes =
      of_q * (static_cast<double>(shape.d) * size(work.q) +
              static_cast<double>(shape.dv * (work.result_bytes + work.extra_bytes))) +
      of_kv * (static_cast<double>(shape.d) * size(work.k) + static_cast<double>(shape.dv) * size(work.v)) +
      of_q * static_cast<double>(shape.n * work.mask_bytes) +
      static_cast<double>(attention_scratch_bytes(machine, shape, plan));
  return superstep;
}

uint64_t attention_scratch_bytes(const Machine& machine, const AttentionExtents& extents, const AttentionPlan& plan) {
  if (plan.algorithm == AttentionAlgorithm::flash) return 0;
  const uint64_t tiles = std::min<uint64_t>(product(plan), machine.tiles);
  return tiles * static_cast<uint64_t>(score_bytes_of(plan.block_m, extents.n, extents.score_bytes));
}

}  // namespace low
