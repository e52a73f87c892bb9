#include "compiler/search/distributed_space.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "compiler/base/integers.h"
#include "compiler/search/distributed_layout.h"

namespace low {

std::vector<MatmulPlan> distributed_matmul_space(const Machine& machine, const MatmulShape& shape, int64_t limit) {
  // Grids that leave most of the usable tiles idle are not worth a place in the budget; on few tiles all are.
  constexpr uint32_t few = 64;
  uint64_t most = 0;
  for_each_grid(machine, shape, machine.tiles, [&](const MatmulPlan& plan) { most = std::max(most, grid_size(plan)); });
  std::vector<MatmulPlan> result;
  for_each_grid(machine, shape, machine.tiles, [&](MatmulPlan plan) {
    if (machine.tiles > few && grid_size(plan) * 2 < most) return;
    plan.block_m = part_size(shape.m, plan.grid_m);
    plan.block_n = part_size(shape.n, plan.grid_n);
    plan.block_k = part_size(shape.k, plan.grid_k);
    result.push_back(plan);
  });
  // Without partial sums first: a budget cuts off what is least likely.
  std::ranges::sort(result, [](const MatmulPlan& a, const MatmulPlan& b) {
    const uint64_t x = grid_size(a) * (a.grid_k == 1 ? 2 : 1);
    const uint64_t y = grid_size(b) * (b.grid_k == 1 ? 2 : 1);
    if (x != y) return x > y;
    return std::tie(a.grid_batch, a.grid_m, a.grid_n, a.grid_k) < std::tie(b.grid_batch, b.grid_m, b.grid_n, b.grid_k);
  });
  if (static_cast<int64_t>(result.size()) > limit) result.resize(static_cast<size_t>(limit));
  return result;
}

std::vector<int64_t> distributed_panels(int64_t depth) {
  std::vector<int64_t> result;
  for (int64_t panels = 1; panels <= depth; panels *= 2) {
    const int64_t panel = ceil_div(depth, panels);
    if (result.empty() || panel != result.back()) result.push_back(panel);
    if (panels > 512) break;
  }
  if (result.empty()) result.push_back(1);
  return result;
}

int64_t distributed_split_extent(const Shape& shape, uint32_t axis) {
  const MatrixExtents extents = matrix_extents(shape);
  return static_cast<int>(axis) + 1 < shape.rank() ? extents.rows : extents.columns;
}

std::vector<SplitPlan> distributed_split_space(const Machine& machine, const Shape& shape, int64_t limit) {
  if (shape.rank() == 0 || shape.elements() == 0) return {SplitPlan{}};
  std::vector<SplitPlan> result;
  for (const int axis : {0, shape.rank() - 1}) {
    if (axis == 0 && !result.empty()) break;  // rank 1
    const auto cut = static_cast<uint32_t>(axis);
    append_splits(machine, cut, distributed_split_extent(shape, cut), limit, result);
  }
  return result;
}

SplitPlan distributed_constant_split(const Machine& machine, const Shape& shape) {
  if (shape.elements() <= max_replicated_elements) return {};
  const MatrixExtents extents = matrix_extents(shape);
  const bool by_rows = extents.rows >= std::min<int64_t>(extents.columns, machine.tiles);
  const int64_t parts = std::min<int64_t>(by_rows ? extents.rows : extents.columns, machine.tiles);
  return {by_rows ? 0 : static_cast<uint32_t>(shape.rank() - 1), static_cast<uint32_t>(parts)};
}

bool needs_whole_rows(const Op& op) { return parts_of(op.attributes) == Parts::rows; }

bool is_distributed_operation(const Graph& graph, const Op& op) {
  if (std::holds_alternative<Matmul>(op.attributes) || std::holds_alternative<Attention>(op.attributes)) return true;
  if (needs_whole_rows(op))
    return joined_axes(op.attributes) == Shape{graph.type(graph.operands(op)[0]).shape.rank() - 1};
  return is_split(op) || (is_movement(op) && !std::holds_alternative<Pad>(op.attributes));
}

bool is_distributed_view(const Graph& graph, const Op& op) {
  if (!std::holds_alternative<Reshape>(op.attributes)) return false;
  const MatrixExtents from = matrix_extents(graph.type(graph.operands(op)[0]).shape);
  const MatrixExtents to = matrix_extents(graph.type(graph.result(op)).shape);
  return from.rows == to.rows && from.columns == to.columns;
}

OutputWriters output_writers(const Graph& graph, uint32_t kept) {
  OutputWriters writers{Table<ValueId, uint32_t>(graph.value_count(), OutputWriters::none),
                        std::vector<bool>(graph.outputs().size(), false)};
  for (uint32_t output = 0; output < kept; ++output) {
    ValueId value = graph.operands(graph.op(graph.outputs()[output]))[0];
    while (is_distributed_view(graph, graph.op(graph.value(value).producer))) {
      value = graph.operands(graph.op(graph.value(value).producer))[0];
    }
    const Op& producer = graph.op(graph.value(value).producer);
    const bool computes = std::holds_alternative<Matmul>(producer.attributes) ||
                          std::holds_alternative<Attention>(producer.attributes) || is_split(producer) ||
                          is_movement(producer);
    if (!computes || writers.output[value] != OutputWriters::none) continue;
    writers.output[value] = output;
    writers.written[output] = true;
  }
  return writers;
}

std::optional<std::string> distributed_matmul_violation(const MatmulShape& shape, const MatmulPlan& plan) {
  const int64_t m = part_size(shape.m, plan.grid_m);
  const int64_t n = part_size(shape.n, plan.grid_n);
  if (plan.block_m != m || plan.block_n != n) {
    return fmt::format("a block of {} x {}; a part of {} x {} is one block", plan.block_m, plan.block_n, m, n);
  }
  const int64_t depth = part_size(shape.k, plan.grid_k);
  if (plan.block_k < 1 || plan.block_k > depth) {
    return fmt::format("panels of depth {}; expected is 1 to {}", plan.block_k, depth);
  }
  return std::nullopt;
}

std::optional<std::string> distributed_split_violation(const Shape& shape, const SplitPlan& plan) {
  const auto last = static_cast<uint32_t>(std::max(shape.rank() - 1, 0));
  if (plan.axis != 0 && plan.axis != last) {
    return fmt::format("a cut along axis {}; a machine without global memory cuts axis 0 or axis {}", plan.axis, last);
  }
  return std::nullopt;
}

}  // namespace low
