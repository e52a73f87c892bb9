#include "compiler/search/tile_cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/search/op_cost.h"
#include "compiler/search/tile_account.h"
#include "compiler/search/tile_space.h"

namespace low {

using namespace tile_account;

namespace {

// Elements of a, b or an extra that part (b, i, j) wants; `down` and `across` are in the operation's terms.
Wanted wanted_of(const TileMatmul::Operand& operand, Interval batch, int64_t down_extent, Interval down,
                 int64_t across_extent, Interval across) {
  Wanted wanted;
  if (operand.matrices > 1) {
    wanted.matrix_begin = batch.begin;
    wanted.matrix_end = batch.end;
  }
  if (operand.transposed) {
    std::swap(down, across);
    std::swap(down_extent, across_extent);
  }
  wanted.matrix_rows = std::max<int64_t>(down_extent, 1);
  wanted.row_begin = down.begin;
  wanted.row_end = down.end;
  wanted.column_begin = across.begin;
  wanted.column_end = across.end;
  return wanted;
}

Wanted wanted_extra(const TileMatmul::Operand& extra, const MatmulShape& shape, Interval batch, Interval m,
                    Interval n) {
  return wanted_of(extra, batch, extra.rows ? shape.m : 1, extra.rows ? m : Interval{0, 1}, extra.columns ? shape.n : 1,
                   extra.columns ? n : Interval{0, 1});
}

KernelWork pointwise_run(const Machine& machine, int64_t rows, int64_t columns, int64_t nodes, int64_t read,
                         int64_t written) {
  KernelWork run;
  run.kind = KernelWork::Kind::pointwise;
  run.m = rows;
  run.n = columns;
  run.block_n = machine.vector_lanes;
  run.expression_nodes = nodes;
  run.read_bytes = read;
  run.written_bytes = written;
  return run;
}

}  // namespace

TileMatmul tile_matmul(const Graph& graph, const Op& op, std::span<const TileLayout> operands) {
  const auto& matmul = std::get<Matmul>(op.attributes);
  const std::span<const ValueId> values = graph.operands(op);
  const Type& result = graph.type(graph.result(op));
  TileMatmul work;
  work.shape = matmul_shape(graph, op);
  work.a = graph.type(values[0]).dtype;
  work.b = graph.type(values[1]).dtype;
  work.sum_bytes = static_cast<int64_t>(byte_size(matmul.accumulate));
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  work.expression_nodes = matmul.epilogue                     ? expression_work(*matmul.epilogue)
                          : result.dtype == matmul.accumulate ? 0
                                                              : 1;
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    TileMatmul::Operand operand;
    operand.layout = operands[i];
    operand.element_bytes = static_cast<int64_t>(byte_size(type.dtype));
    const int rank = type.shape.rank();
    for (int axis = 0; axis + 2 < rank; ++axis) {
      if (type.shape[axis] != 1) operand.matrices = work.shape.batch;
    }
    if (i < 2) {
      operand.transposed = i == 0 ? matmul.transpose_a : matmul.transpose_b;
      (i == 0 ? work.left : work.right) = operand;
      continue;
    }
    operand.rows = rank >= 2 && type.shape[rank - 2] != 1;
    operand.columns = rank >= 1 && type.shape[rank - 1] != 1;
    work.extras.push_back(operand);
  }
  return work;
}

TileCost tile_matmul_cost(const Machine& machine, const TileMatmul& work, const MatmulPlan& plan) {
  TileCost result;
  const MatmulShape& shape = work.shape;
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0) return result;
  const TileAccountant account(machine);
  const TileLayout layout = layout_of(shape, plan);
  const int64_t depth = std::max<int64_t>(ceil_div(shape.k, plan.grid_k), 1);
  const int64_t panels = ceil_div(std::min(depth, std::max<int64_t>(shape.k, 1)), plan.block_k);
  const int64_t panel = std::min(plan.block_k, depth);
  const bool split = plan.grid_k > 1;
  const bool sums = split || panels > 1;
  const int64_t part_elements = layout.part_batch * layout.part_m * layout.part_n;

  // A large constant b is spread over the parts that want the same of it.
  const int64_t right_matrices = work.right.matrices > 1 ? layout.part_batch : 1;
  const int64_t right_elements = right_matrices * depth * layout.part_n;
  const bool right_constant = work.right.layout.kind == TileLayout::Kind::constant;
  const bool right_spread = right_constant && panel * layout.part_n > max_replicated_elements && plan.grid_m > 1;

  // What the busiest part gathers for all of its depth, and for its epilogue.
  Traffic left, right, extras;
  int64_t left_elements = 0;
  bool left_direct = true, right_direct = !right_spread;
  const uint64_t parts = uint64_t{plan.grid_batch} * plan.grid_m * plan.grid_n * plan.grid_k;
  uint64_t extra_gathered = 0;
  for_each_sample(parts, [&](uint64_t tile) {
    const auto p = static_cast<int64_t>(tile % plan.grid_k);
    const auto j = static_cast<int64_t>(tile / plan.grid_k % plan.grid_n);
    const auto i = static_cast<int64_t>(tile / plan.grid_k / plan.grid_n % plan.grid_m);
    const auto b = static_cast<int64_t>(tile / plan.grid_k / plan.grid_n / plan.grid_m);
    const Interval batch = part(shape.batch, layout.part_batch, b);
    const Interval rows = part(shape.m, layout.part_m, i);
    const Interval columns = part(shape.n, layout.part_n, j);
    const Interval k = part(shape.k, depth, p);
    uint64_t ignored = 0;
    const Arrival a = arrival(work.left.layout, wanted_of(work.left, batch, shape.m, rows, shape.k, k), tile);
    left = busier(left, account.gather(a, work.left.layout, work.left.element_bytes, ignored), machine);
    left_elements = std::max(left_elements, a.remote + a.local);
    left_direct = left_direct && a.direct();
    if (!right_constant) {
      const Arrival from = arrival(work.right.layout, wanted_of(work.right, batch, shape.k, k, shape.n, columns), tile);
      right = busier(right, account.gather(from, work.right.layout, work.right.element_bytes, ignored), machine);
      right_direct = right_direct && from.direct();
    }
    // The epilogue: on the whole part, or on the share that this tile finishes.
    const Interval share = split ? Interval{std::min(rows.begin + p * layout.share, rows.end),
                                            std::min(rows.begin + (p + 1) * layout.share, rows.end)}
                                 : rows;
    Traffic all;
    uint64_t gathered = 0;
    for (const TileMatmul::Operand& extra : work.extras) {
      const Arrival from = arrival(extra.layout, wanted_extra(extra, shape, batch, share, columns), tile);
      all += account.gather(from, extra.layout, extra.element_bytes, gathered);
    }
    extras = busier(extras, all, machine);
    extra_gathered = std::max(extra_gathered, gathered);
  });
  if (right_spread) {
    const int64_t own = right_matrices * ceil_div(depth, plan.grid_m) * layout.part_n;
    const auto size = static_cast<double>(work.right.element_bytes);
    right.received = static_cast<double>(right_elements - own) * size;
    right.copied = right.sent = static_cast<double>(own) * size;
    right.pieces = static_cast<double>(std::min<int64_t>(plan.grid_m, depth) - 1);
  }

  // Constants.
  const auto parameter = [&](const TileLayout& of, int64_t elements, int64_t element_bytes) {
    if (of.kind != TileLayout::Kind::constant) return;
    result.parameter_bytes += account.bytes(elements, element_bytes) * of.iterations;
  };
  parameter(work.left.layout, left_elements, work.left.element_bytes);
  parameter(work.right.layout,
            right_spread ? right_matrices * ceil_div(depth, plan.grid_m) * layout.part_n : right_elements,
            work.right.element_bytes);
  for (const TileMatmul::Operand& extra : work.extras) {
    parameter(extra.layout,
              (extra.matrices > 1 ? layout.part_batch : 1) * (extra.rows ? layout.share : 1) *
                  (extra.columns ? layout.part_n : 1),
              extra.element_bytes);
  }

  // Supersteps: one a panel, and the reduction.
  constexpr int64_t add_nodes = 3;  // reads both terms and adds
  const auto gemm = [&](int64_t k, int64_t nodes, int64_t extra_bytes, int64_t written) {
    KernelWork run;
    run.kind = KernelWork::Kind::gemm;
    run.m = layout.part_m;
    run.n = layout.part_n;
    run.k = k;
    run.block_m = machine.block_m_step;
    run.block_n = machine.block_n_step;
    run.a = work.a;
    run.b = work.b;
    run.expression_nodes = nodes;
    run.read_bytes =
        run.m * k * work.left.element_bytes + k * run.n * work.right.element_bytes + run.m * run.n * extra_bytes;
    run.written_bytes = run.m * run.n * written;
    CostSum all;
    all.add(kernel_cost(machine, run), static_cast<double>(layout.part_batch));
    return all.items;
  };
  int64_t extra_bytes = 0;
  for (const TileMatmul::Operand& extra : work.extras) {
    if (extra.rows && extra.columns) extra_bytes += extra.element_bytes;
  }
  const auto divided = [&](Traffic traffic) {
    const auto count = static_cast<double>(panels);
    traffic.received /= count;
    traffic.sent /= count;
    traffic.copied /= count;
    if (traffic.pieces > 0) traffic.pieces = std::max(traffic.pieces / count, 1.0);
    return traffic;
  };
  Traffic each = divided(left);
  each += divided(right);
  const int64_t last_panel = std::max<int64_t>(std::min(depth, shape.k) - (panels - 1) * panel, 0);
  if (panels > 1) {
    account.superstep(result, each, gemm(panel, 0, 0, work.sum_bytes));  // the first starts the sums
    if (panels > 2) {
      account.superstep(result, each, gemm(panel, add_nodes, work.sum_bytes, work.sum_bytes),
                        static_cast<double>(panels - 2));
    }
  }
  Traffic last = each;
  if (!split) last += extras;
  account.superstep(
      result, last,
      gemm(last_panel, (panels > 1 ? add_nodes : 0) + (split ? 0 : work.expression_nodes),
           (panels > 1 ? work.sum_bytes : 0) + (split ? 0 : extra_bytes), split ? work.sum_bytes : work.result_bytes));
  const int64_t share_elements = layout.shard_elements();
  if (split) {
    Traffic partial;
    const auto size = static_cast<double>(work.sum_bytes);
    partial.received = static_cast<double>(share_elements) * size * (plan.grid_k - 1);
    partial.sent = static_cast<double>(part_elements - share_elements) * size;
    partial.pieces = plan.grid_k - 1;
    partial += extras;
    account.superstep(result, partial,
                      kernel_cost(machine, pointwise_run(machine, layout.part_batch * layout.share, layout.part_n,
                                                         2 * int64_t{plan.grid_k} - 1 + work.expression_nodes,
                                                         share_elements * (plan.grid_k * work.sum_bytes + extra_bytes),
                                                         share_elements * work.result_bytes)));
  }

  // Memory.
  result.result_bytes = account.bytes(share_elements, work.result_bytes);
  const auto panel_bytes = [&](int64_t elements, int64_t element_bytes) {
    return account.bytes(ceil_div(elements, depth) * panel, element_bytes);
  };
  uint64_t gathered = 0;
  if (!left_direct) gathered += panel_bytes(left_elements, work.left.element_bytes);
  if (!right_direct) gathered += panel_bytes(right_elements, work.right.element_bytes);
  const uint64_t sum_bytes = account.bytes(part_elements, work.sum_bytes);
  result.working_bytes = gathered + (sums ? sum_bytes : 0) + (split ? 0 : extra_gathered + result.result_bytes);
  if (split) {
    const uint64_t shares = account.bytes(share_elements, work.sum_bytes) * (plan.grid_k - 1);
    result.working_bytes = std::max(result.working_bytes, sum_bytes + shares + extra_gathered + result.result_bytes);
  }
  return result;
}

namespace {

// The result's shard on `tile`, in its matrix.
struct Shard {
  Interval batch, rows, columns;
  int64_t elements() const { return batch.size() * rows.size() * columns.size(); }
};
Shard shard_of(const TileLayout& layout, uint64_t tile) {
  const auto p = static_cast<int64_t>(tile % layout.shares);
  const auto j = static_cast<int64_t>(tile / layout.shares % layout.grid_n);
  const auto i = static_cast<int64_t>(tile / layout.shares / layout.grid_n % layout.grid_m);
  const auto b = static_cast<int64_t>(tile / layout.shares / layout.grid_n / layout.grid_m);
  const Interval rows = part(layout.m, layout.part_m, i);
  return {part(layout.batch, layout.part_batch, b),
          {std::min(rows.begin + p * layout.share, rows.end), std::min(rows.begin + (p + 1) * layout.share, rows.end)},
          part(layout.n, layout.part_n, j)};
}

TileCost split_cost_of(const Machine& machine, const TileSplit& work, const TileLayout& layout) {
  TileCost result;
  if (work.shape.elements() == 0) return result;
  result.parameter_bytes = work.parameter_bytes;
  const TileAccountant account(machine);
  const MatrixExtents extents = matrix_extents(work.shape);
  Traffic busiest;
  uint64_t gathered = 0;
  std::vector<int64_t> constant(work.sources.size());
  for_each_sample(layout.parts(), [&](uint64_t tile) {
    const Shard shard = shard_of(layout, tile);
    if (shard.elements() == 0) return;
    Traffic traffic;
    uint64_t mine = 0;
    for (size_t s = 0; s < work.sources.size(); ++s) {
      const TileSplit::Source& source = work.sources[s];
      Arrival from;
      if (source.kind == TileSplit::Operand::moved) {
        // Where its elements are is not followed: all of them come from elsewhere.
        from.remote = std::min(static_cast<int64_t>(std::ceil(static_cast<double>(shard.elements()) * source.share)),
                               shard.elements());
        const bool on_tiles = source.layout.kind == TileLayout::Kind::tiles;
        const uint64_t sources = on_tiles ? source.layout.parts() : 1;
        auto pieces = static_cast<int64_t>((sources + layout.parts() - 1) / layout.parts());
        if (source.pieces == TileSplit::Pieces::crossing) pieces = static_cast<int64_t>(sources);
        if (source.pieces == TileSplit::Pieces::ragged) pieces *= shard.batch.size() * shard.rows.size();
        from.pieces = std::min(pieces, from.remote);
        if (layout.parts() == 1 && on_tiles && sources == 1) from = {0, from.remote, 0};
      } else if (work.gather) {
        const GatherWanted wanted =
            gather_wanted(*work.gather, shard.rows.begin, shard.rows.end, shard.columns.begin, shard.columns.end);
        from = arrival(source.layout, source.kind == TileSplit::Operand::data ? wanted.data : wanted.indices, tile);
      } else {
        Wanted wanted;
        if (source.extents.rows == extents.rows) {
          wanted.matrix_begin = shard.batch.begin;
          wanted.matrix_end = shard.batch.end;
          wanted.matrix_rows = layout.m;
          wanted.row_begin = shard.rows.begin;
          wanted.row_end = shard.rows.end;
        } else {
          // Rows repeat, in some order: as many as there are, at most all.
          wanted.matrix_rows = source.extents.rows;
          wanted.row_end = std::min(source.extents.rows, shard.batch.size() * shard.rows.size());
        }
        if (source.kind == TileSplit::Operand::rows) {
          wanted.column_end = source.extents.columns;
        } else if (source.extents.columns == extents.columns) {
          wanted.column_begin = shard.columns.begin;
          wanted.column_end = shard.columns.end;
        }
        from = arrival(source.layout, wanted, tile);
      }
      constant[s] = std::max(constant[s], from.local + from.remote);
      uint64_t operand = 0;
      Traffic one = account.gather(from, source.layout, source.element_bytes, operand);
      if (work.copies && from.direct()) one.copied += static_cast<double>(from.local * source.element_bytes);
      traffic += one;
      if (!work.copies) mine += operand;  // copies go to the result's shard itself
    }
    busiest = busier(busiest, traffic, machine);
    gathered = std::max(gathered, mine);
  });
  for (size_t s = 0; s < work.sources.size(); ++s) {
    const TileSplit::Source& source = work.sources[s];
    if (source.layout.kind != TileLayout::Kind::constant) continue;
    result.parameter_bytes += account.bytes(constant[s], source.element_bytes) * source.layout.iterations;
  }
  result.result_bytes = account.bytes(layout.shard_elements(), work.result_bytes);
  result.working_bytes = gathered + result.result_bytes;
  Cost compute;
  if (!work.copies) {
    int64_t read = 0;
    for (size_t s = 0; s < work.sources.size(); ++s) {
      const TileSplit::Source& source = work.sources[s];
      // Of a gather's data one element for each of the result.
      read += source.element_bytes * (source.kind == TileSplit::Operand::data ? layout.shard_elements() : constant[s]);
    }
    compute =
        kernel_cost(machine, pointwise_run(machine, layout.part_batch * layout.share, layout.part_n,
                                           work.expression_nodes, read, layout.shard_elements() * work.result_bytes));
  }
  account.superstep(result, busiest, compute);
  return result;
}

}  // namespace

TileCost tile_split_cost(const Machine& machine, const TileSplit& work, const SplitPlan& plan) {
  return split_cost_of(machine, work, layout_of(work.shape, plan));
}

TileCost tile_copy_cost(const Machine& machine, const Type& type, const TileLayout& source, const TileLayout& to) {
  return split_cost_of(machine, tile_copy(type, source), to);
}

TileCost tile_output_cost(const Machine& machine, const Type& type, const TileLayout& source) {
  TileCost result;
  const int64_t elements = type.shape.elements();
  if (elements == 0) return result;
  const TileAccountant account(machine);
  Traffic traffic;
  const auto size = static_cast<double>(byte_size(type.dtype));
  // From elsewhere than the tiles, all tiles take a share of the work; from the tiles, each sends its own.
  const int64_t moved =
      source.kind == TileLayout::Kind::tiles ? source.shard_elements() : ceil_div(elements, machine.tiles);
  traffic.received = static_cast<double>(moved) * size;
  traffic.pieces = 1;
  account.superstep(result, traffic, {});
  return result;
}

}  // namespace low
