#include "compiler/search/space.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "compiler/base/integers.h"
#include "compiler/kernels/contract.h"

namespace low {
namespace {

// With global memory each partial sum is written and read again: many never pay.
constexpr uint32_t most_partial_sums = 16;

// Grids within the tiles, those that use most tiles first.
std::vector<MatmulPlan> grids(const Machine& machine, const MatmulShape& shape) {
  // Grids that leave most of the usable tiles idle are not worth a place in the budget.
  uint64_t most = 0, most_whole = 0;  // without partial sums
  for_each_grid(machine, shape, most_partial_sums, [&](const MatmulPlan& grid) {
    uint64_t& usable = grid.grid_k == 1 ? most_whole : most;
    usable = std::max(usable, grid_size(grid));
  });
  std::vector<MatmulPlan> result;
  for_each_grid(machine, shape, most_partial_sums, [&](const MatmulPlan& grid) {
    const bool whole = grid.grid_k == 1;
    if (grid_size(grid) * (whole ? 4 : 2) >= (whole ? most_whole : most)) result.push_back(grid);
  });
  // Those without partial sums come first: a budget cuts off what is least likely.
  const auto order = [](const MatmulPlan& grid) {
    return std::tuple(grid.grid_k != 1, -static_cast<int64_t>(grid_size(grid)), grid.grid_batch, grid.grid_m,
                      grid.grid_n, grid.grid_k);
  };
  std::ranges::sort(result, {}, order);
  return result;
}

}  // namespace

MatmulShape matmul_shape(const Graph& graph, const Op& op) {
  const Shape& result = graph.type(graph.result(op)).shape;
  const Shape& a = graph.type(graph.operands(op)[0]).shape;
  const int rank = result.rank();
  LOW_CHECK(rank >= 2 && a.rank() >= 2);
  MatmulShape shape;
  for (int axis = 0; axis + 2 < rank; ++axis) shape.batch *= result[axis];
  shape.m = result[rank - 2];
  shape.n = result[rank - 1];
  shape.k = a[std::get<Matmul>(op.attributes).transpose_a ? a.rank() - 2 : a.rank() - 1];
  return shape;
}

std::vector<uint32_t> splits(int64_t extent, uint32_t limit, double waste) {
  std::vector<uint32_t> result;
  const int64_t most = std::min<int64_t>(extent, limit);
  for (int64_t parts = 1; parts <= most; ++parts) {
    const int64_t part = ceil_div(extent, parts);
    if (ceil_div(extent, part) != parts) continue;  // some parts would be empty
    const auto total = static_cast<double>(part) * static_cast<double>(parts);
    if (total - static_cast<double>(extent) > waste * total && limit % parts != 0) continue;
    result.push_back(static_cast<uint32_t>(parts));
  }
  if (result.empty()) result.push_back(1);
  return result;
}

std::vector<uint32_t> partial_sums(int64_t k, uint32_t limit) {
  constexpr int64_t least_depth = 16;
  std::vector<uint32_t> result{1};
  for (const uint32_t parts : splits(k, static_cast<uint32_t>(std::clamp<int64_t>(k / least_depth, 1, limit)))) {
    if (parts > 1 && (parts <= 4 || parts * 4 >= result.back() * 5)) result.push_back(parts);
  }
  return result;
}

void for_each_grid(const Machine& machine, const MatmulShape& shape, uint32_t most_parts_of_k,
                   const std::function<void(const MatmulPlan&)>& function) {
  const std::vector<uint32_t> batch_splits = splits(shape.batch, machine.tiles);
  const std::vector<uint32_t> m_splits = splits(shape.m, machine.tiles);
  const std::vector<uint32_t> n_splits = splits(shape.n, machine.tiles);
  const std::vector<uint32_t> k_splits = partial_sums(shape.k, std::min(machine.tiles, most_parts_of_k));
  for (const uint32_t batch : batch_splits) {
    for (const uint32_t m : m_splits) {
      if (uint64_t{batch} * m > machine.tiles) break;
      for (const uint32_t n : n_splits) {
        if (uint64_t{batch} * m * n > machine.tiles) break;
        for (const uint32_t k : k_splits) {
          const MatmulPlan grid{.grid_batch = batch, .grid_m = m, .grid_n = n, .grid_k = k};
          if (grid_size(grid) > machine.tiles) break;
          function(grid);
        }
      }
    }
  }
}

std::vector<MatmulPlan> matmul_space(const Machine& machine, const MatmulShape& shape, DType a, DType b,
                                     int64_t limit) {
  std::vector<MatmulPlan> result;
  const auto full = [&] { return static_cast<int64_t>(result.size()) >= limit; };
  for (MatmulPlan plan : grids(machine, shape)) {
    const int64_t depth = ceil_div(shape.k, plan.grid_k);
    for (const GemmBlock& block :
         gemm_block_choices(machine, ceil_div(shape.m, plan.grid_m), ceil_div(shape.n, plan.grid_n), depth, a, b)) {
      if (full()) return result;
      plan.block_m = block.m;
      plan.block_n = block.n;
      plan.block_k = block.k;
      result.push_back(plan);
    }
  }
  return result;
}

void append_splits(const Machine& machine, uint32_t axis, int64_t extent, int64_t limit,
                   std::vector<SplitPlan>& plans) {
  std::vector<uint32_t> parts = splits(extent, machine.tiles);
  std::ranges::reverse(parts);  // a budget cuts off the least parallel ones
  for (const uint32_t part : parts) {
    if (part == 1 && axis > 0) continue;  // the same as one part along axis 0
    if (static_cast<int64_t>(plans.size()) >= limit) return;
    plans.push_back({axis, part});
  }
}

std::vector<SplitPlan> split_space(const Machine& machine, const Shape& shape, int64_t limit) {
  if (shape.rank() == 0 || shape.elements() == 0) return {SplitPlan{}};
  std::vector<SplitPlan> result;
  for (int axis = 0; axis < shape.rank(); ++axis)
    append_splits(machine, static_cast<uint32_t>(axis), shape[axis], limit, result);
  return result;
}

Shape split_shape(const Graph& graph, const Op& op) {
  Shape shape = graph.type(graph.result(op)).shape;
  for (const int64_t axis : joined_axes(op.attributes)) shape[static_cast<int>(axis)] = 1;
  return shape;
}

bool is_given(const Op& op) {
  return std::holds_alternative<Input>(op.attributes) || std::holds_alternative<Constant>(op.attributes);
}

bool is_split(const Op& op) { return parts_of(op.attributes).has_value(); }

bool is_movement(const Op& op) {
  return std::holds_alternative<Reshape>(op.attributes) || std::holds_alternative<Transpose>(op.attributes) ||
         std::holds_alternative<Slice>(op.attributes) || std::holds_alternative<Expand>(op.attributes) ||
         std::holds_alternative<Concat>(op.attributes) || std::holds_alternative<Pad>(op.attributes);
}

std::optional<Layout> view_layout(const Graph& graph, const Op& op, const Layout& operand) {
  const Shape& from = graph.type(graph.operands(op)[0]).shape;
  const Shape& to = graph.type(graph.result(op)).shape;
  if (const auto* transpose = std::get_if<Transpose>(&op.attributes))
    return transposed(operand, transpose->permutation);
  if (const auto* slice = std::get_if<Slice>(&op.attributes)) return sliced(operand, slice->start, slice->step);
  if (std::holds_alternative<Expand>(op.attributes)) return expanded(operand, from, to);
  if (std::holds_alternative<Reshape>(op.attributes)) return reshaped(operand, from, to);
  return std::nullopt;
}

bool needs_row_major(const Op& op, uint32_t operand) {
  const auto* repeat = std::get_if<Repeat>(&op.attributes);
  return repeat != nullptr && operand >= repeat->carried;
}

}  // namespace low
