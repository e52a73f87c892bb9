#include "compiler/search/distributed_cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/search/distributed_account.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/op_cost.h"

namespace low {

using namespace distributed_account;

namespace {

// Elements of a, b or an extra that part (b, i, j) wants; `down` and `across` are in the operation's terms.
Wanted wanted_of(const DistributedMatmul::Operand& operand, Range batch, int64_t down_extent, Range down,
                 int64_t across_extent, Range across) {
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

Wanted wanted_extra(const DistributedMatmul::Operand& extra, const MatmulShape& shape, Range batch, Range m, Range n) {
  return wanted_of(extra, batch, extra.rows ? shape.m : 1, extra.rows ? m : Range{0, 1}, extra.columns ? shape.n : 1,
                   extra.columns ? n : Range{0, 1});
}

}  // namespace

DistributedMatmul distributed_matmul(const Graph& graph, const Op& op, std::span<const DistributedLayout> operands) {
  const auto& matmul = std::get<Matmul>(op.attributes);
  const std::span<const ValueId> values = graph.operands(op);
  DistributedMatmul work{matmul_facts(graph, op), {}, {}, {}};
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    DistributedMatmul::Operand operand;
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

namespace {

// The cost of one plan of a matmul.
class MatmulCost {
 public:
  MatmulCost(const Machine& machine, const DistributedMatmul& work, const MatmulPlan& plan)
      : account_(machine), work_(work), shape_(work.shape), plan_(plan), layout_(layout_of(work.shape, plan)) {
    depth_ = std::max<int64_t>(ceil_div(shape_.k, plan.grid_k), 1);
    panels_ = ceil_div(std::min(depth_, std::max<int64_t>(shape_.k, 1)), plan.block_k);
    panel_ = std::min(plan.block_k, depth_);
    right_matrices_ = work.right.matrices > 1 ? layout_.part_batch : 1;
    right_elements_ = right_matrices_ * depth_ * layout_.part_n;
    right_constant_ = work.right.layout.kind == DistributedLayout::Kind::constant;
    right_spread_ = right_constant_ && panel_ * layout_.part_n > max_replicated_elements && plan.grid_m > 1;
    right_direct_ = !right_spread_;
  }

  DistributedCost run() {
    const uint64_t parts = uint64_t{plan_.grid_batch} * plan_.grid_m * plan_.grid_n * plan_.grid_k;
    for_each_sample(parts, [&](uint64_t tile) { gather(tile); });
    add_parameters();
    add_panels();
    if (split()) add_reduction();
    add_memory();
    return std::move(result_);
  }

 private:
  static constexpr int64_t add_nodes = 3;  // of an expression that reads both terms and adds

  bool split() const { return plan_.grid_k > 1; }
  // Elements of a spread b that a part keeps.
  int64_t spread_elements() const { return right_matrices_ * ceil_div(depth_, plan_.grid_m) * layout_.part_n; }

  // What the busiest part gathers for all of its depth, and for its epilogue.
  void gather(uint64_t tile) {
    const auto [b, i, j, p] = place_in_grid(tile, plan_.grid_m, plan_.grid_n, plan_.grid_k);
    const Range batch = piece_range(shape_.batch, layout_.part_batch, b);
    const Range rows = piece_range(shape_.m, layout_.part_m, i);
    const Range columns = piece_range(shape_.n, layout_.part_n, j);
    const Range k = piece_range(shape_.k, depth_, p);
    const Machine& machine = account_.machine();
    uint64_t ignored = 0;
    // What a panel is gathered from; what a whole operand is gathered from says whether it is read where it lies.
    const auto add = [&](const DistributedMatmul::Operand& operand, Busiest& busiest, bool& direct, auto wanted_along) {
      const Arrival from = arrival(operand.layout, wanted_along(panel_of(k, panel_, panels_)), tile);
      direct = direct && from.direct() && (panels_ == 1 || arrival(operand.layout, wanted_along(k), tile).direct());
      Traffic traffic = account_.gather(from, operand.layout, operand.element_bytes, ignored);
      traffic.sent /= static_cast<double>(panels_);
      busiest.add(traffic, machine);
    };
    const auto of_left = [&](Range depth) { return wanted_of(work_.left, batch, shape_.m, rows, shape_.k, depth); };
    add(work_.left, left_, left_direct_, of_left);
    left_elements_ = std::max(left_elements_, of_left(k).elements());
    if (!right_constant_) {
      add(work_.right, right_, right_direct_,
          [&](Range depth) { return wanted_of(work_.right, batch, shape_.k, depth, shape_.n, columns); });
    }
    // The epilogue: on the whole part, or on the share that this tile finishes.
    const Range share = split() ? Range{std::min(rows.begin + p * layout_.share, rows.end),
                                        std::min(rows.begin + (p + 1) * layout_.share, rows.end)}
                                : rows;
    Traffic all;
    uint64_t gathered = 0;
    for (const DistributedMatmul::Operand& extra : work_.extras) {
      const Arrival from = arrival(extra.layout, wanted_extra(extra, shape_, batch, share, columns), tile);
      all += account_.gather(from, extra.layout, extra.element_bytes, gathered);
    }
    extras_.add(all, machine);
    extra_gathered_ = std::max(extra_gathered_, gathered);
  }

  // A large constant b is spread over the parts that want the same of it.
  Traffic spread() const {
    const int64_t own = spread_elements();
    const auto size = static_cast<double>(work_.right.element_bytes);
    Traffic result;
    result.received = static_cast<double>(right_elements_ - own) * size;
    result.copied = result.sent = static_cast<double>(own) * size;
    result.pieces = static_cast<double>(std::min<int64_t>(plan_.grid_m, depth_) - 1);
    result.copies = own > 0 ? 1 : 0;
    return divided(result, panels_);
  }

  void add_parameters() {
    const auto parameter = [&](const DistributedMatmul::Operand& operand, int64_t elements) {
      if (operand.layout.kind != DistributedLayout::Kind::constant) return;
      result_.parameter_bytes += account_.bytes(elements, operand.element_bytes) * operand.layout.iterations;
    };
    parameter(work_.left, left_elements_);
    parameter(work_.right, right_spread_ ? spread_elements() : right_elements_);
    for (const DistributedMatmul::Operand& extra : work_.extras) {
      parameter(extra, (extra.matrices > 1 ? layout_.part_batch : 1) * (extra.rows ? layout_.share : 1) *
                           (extra.columns ? layout_.part_n : 1));
    }
  }

  // A superstep's runs of one part: a panel of `k`, with an expression of `nodes` that reads `extra_bytes` and writes
  // `written` an element.
  Cost gemm(int64_t k, int64_t nodes, int64_t extra_bytes, int64_t written) const {
    const Machine& machine = account_.machine();
    KernelWork run = gemm_run(work_, layout_.part_m, layout_.part_n, k);
    run.expression_nodes = nodes;
    run.read_bytes =
        run.m * k * work_.left.element_bytes + k * run.n * work_.right.element_bytes + run.m * run.n * extra_bytes;
    run.written_bytes = run.m * run.n * written;
    CostSum all;
    all.add(kernel_cost(machine, run), static_cast<double>(layout_.part_batch));
    return all.items;
  }
  // Of the extras that vary along rows and columns, for an element.
  int64_t extra_bytes() const {
    int64_t bytes = 0;
    for (const DistributedMatmul::Operand& extra : work_.extras) {
      if (extra.rows && extra.columns) bytes += extra.element_bytes;
    }
    return bytes;
  }

  // One superstep a panel: the first starts the sums, the last applies the epilogue unless other tiles have sums, too.
  void add_panels() {
    Traffic each = left_.traffic();
    each += right_spread_ ? spread() : right_.traffic();
    const int64_t last_panel = std::max<int64_t>(std::min(depth_, shape_.k) - (panels_ - 1) * panel_, 0);
    const bool adds = panels_ > 1;
    if (adds) {
      account_.superstep(result_, each, gemm(panel_, 0, 0, work_.sum_bytes));
      if (panels_ > 2) {
        account_.superstep(result_, each, gemm(panel_, add_nodes, work_.sum_bytes, work_.sum_bytes),
                           static_cast<double>(panels_ - 2));
      }
    }
    if (!split()) each += extras_.traffic();
    account_.superstep(result_, each,
                       gemm(last_panel, (adds ? add_nodes : 0) + (split() ? 0 : work_.expression_nodes),
                            (adds ? work_.sum_bytes : 0) + (split() ? 0 : extra_bytes()),
                            split() ? work_.sum_bytes : work_.result_bytes));
  }

  // The superstep that adds up the partial sums of a split k.
  void add_reduction() {
    const int64_t share_elements = layout_.shard_elements();
    const auto size = static_cast<double>(work_.sum_bytes);
    Traffic partial;
    partial.received = static_cast<double>(share_elements) * size * (plan_.grid_k - 1);
    partial.sent = static_cast<double>(part_elements() - share_elements) * size;
    partial.pieces = plan_.grid_k - 1;
    partial += extras_.traffic();
    const KernelWork run = pointwise_run(
        layout_.part_batch * layout_.share, layout_.part_n, 2 * int64_t{plan_.grid_k} - 1 + work_.expression_nodes,
        share_elements * (plan_.grid_k * work_.sum_bytes + extra_bytes()), share_elements * work_.result_bytes);
    account_.superstep(result_, partial, kernel_cost(account_.machine(), run));
  }
  int64_t part_elements() const { return layout_.part_batch * layout_.part_m * layout_.part_n; }

  void add_memory() {
    const int64_t share_elements = layout_.shard_elements();
    result_.result_bytes = account_.bytes(share_elements, work_.result_bytes);
    const auto panel_bytes = [&](int64_t elements, int64_t element_bytes) {
      return account_.bytes(ceil_div(elements, depth_) * panel_, element_bytes);
    };
    uint64_t gathered = 0;
    if (!left_direct_) gathered += panel_bytes(left_elements_, work_.left.element_bytes);
    if (!right_direct_) gathered += panel_bytes(right_elements_, work_.right.element_bytes);
    const uint64_t sum_bytes = account_.bytes(part_elements(), work_.sum_bytes);
    const bool sums = split() || panels_ > 1;
    result_.working_bytes = gathered + (sums ? sum_bytes : 0) + (split() ? 0 : extra_gathered_ + result_.result_bytes);
    if (split()) {
      const uint64_t shares = account_.bytes(share_elements, work_.sum_bytes) * (plan_.grid_k - 1);
      result_.working_bytes =
          std::max(result_.working_bytes, sum_bytes + shares + extra_gathered_ + result_.result_bytes);
    }
  }

  const DistributedAccountant account_;
  const DistributedMatmul& work_;
  const MatmulShape& shape_;
  const MatmulPlan& plan_;
  const DistributedLayout layout_;
  DistributedCost result_;
  int64_t depth_ = 1, panels_ = 1, panel_ = 1;  // of k: a part's share, cut into panels of this size
  int64_t right_matrices_ = 1, right_elements_ = 0;
  bool right_constant_ = false, right_spread_ = false;
  // Of the busiest part: of a panel, and of the epilogue.
  Busiest left_, right_, extras_;
  int64_t left_elements_ = 0;
  bool left_direct_ = true, right_direct_ = true;
  uint64_t extra_gathered_ = 0;
};

}  // namespace

DistributedCost distributed_matmul_cost(const Machine& machine, const DistributedMatmul& work, const MatmulPlan& plan) {
  if (work.shape.batch == 0 || work.shape.m == 0 || work.shape.n == 0) return {};
  return MatmulCost(machine, work, plan).run();
}

namespace {

DistributedCost split_cost_of(const Machine& machine, const DistributedSplit& work, const DistributedLayout& layout) {
  DistributedCost result;
  if (work.shape.elements() == 0) return result;
  result.parameter_bytes = work.parameter_bytes;
  const DistributedAccountant account(machine);
  const MatrixExtents extents = matrix_extents(work.shape);
  Busiest busiest;
  uint64_t gathered = 0;
  std::vector<int64_t> constant(work.sources.size());
  for_each_sample(layout.parts(), [&](uint64_t tile) {
    const ShardRanges shard = shard_of(layout, tile);
    if (shard.elements() == 0) return;
    Traffic traffic;
    uint64_t mine = 0;
    for (size_t s = 0; s < work.sources.size(); ++s) {
      const DistributedSplit::Source& source = work.sources[s];
      Arrival from;
      if (source.kind == DistributedSplit::Operand::moved) {
        // Where its elements are is not followed: all of them come from elsewhere.
        from.remote = std::min(static_cast<int64_t>(std::ceil(static_cast<double>(shard.elements()) * source.share)),
                               shard.elements());
        const bool on_tiles = source.layout.kind == DistributedLayout::Kind::tiles;
        const uint64_t sources = on_tiles ? source.layout.parts() : 1;
        auto pieces = static_cast<int64_t>((sources + layout.parts() - 1) / layout.parts());
        if (source.pieces == DistributedSplit::Pieces::crossing) pieces = static_cast<int64_t>(sources);
        if (source.pieces == DistributedSplit::Pieces::ragged) pieces *= shard.batch.size() * shard.rows.size();
        from.pieces = std::min(pieces, from.remote);
        if (layout.parts() == 1 && on_tiles && sources == 1) from = {0, from.remote, 0};
      } else if (work.gather) {
        const GatherWanted wanted =
            gather_wanted(*work.gather, shard.rows.begin, shard.rows.end, shard.columns.begin, shard.columns.end);
        from =
            arrival(source.layout, source.kind == DistributedSplit::Operand::data ? wanted.data : wanted.indices, tile);
      } else {
        Wanted wanted;
        const bool whole = source.kind == DistributedSplit::Operand::whole;
        if (whole || source.kind == DistributedSplit::Operand::columns) {
          wanted.matrix_rows = wanted.row_end = source.extents.rows;
        } else if (source.extents.rows == extents.rows) {
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
        if (whole || source.kind == DistributedSplit::Operand::rows) {
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
    busiest.add(traffic, machine);
    gathered = std::max(gathered, mine);
  });
  for (size_t s = 0; s < work.sources.size(); ++s) {
    const DistributedSplit::Source& source = work.sources[s];
    if (source.layout.kind != DistributedLayout::Kind::constant) continue;
    result.parameter_bytes += account.bytes(constant[s], source.element_bytes) * source.layout.iterations;
  }
  result.result_bytes = account.bytes(layout.shard_elements(), work.result_bytes);
  result.working_bytes = gathered + result.result_bytes;
  Cost compute;
  if (!work.copies) {
    int64_t read = 0;
    for (size_t s = 0; s < work.sources.size(); ++s) {
      const DistributedSplit::Source& source = work.sources[s];
      // Of a gather's data one element for each of the result; of updates at most.
      const int64_t own = layout.shard_elements();
      read += source.element_bytes * (source.kind == DistributedSplit::Operand::data      ? own
                                      : source.kind == DistributedSplit::Operand::columns ? std::min(own, constant[s])
                                                                                          : constant[s]);
    }
    KernelWork run = pointwise_run(layout.part_batch * layout.share, layout.part_n, work.expression_nodes, read,
                                   layout.shard_elements() * work.result_bytes);
    if (work.updates > 0) {
      const KernelWork all = updating_run(run.m, run.n, work.updates);
      run.m = all.m;
      run.n = all.n;
    }
    compute = kernel_cost(machine, run);
  }
  account.superstep(result, busiest.traffic(), compute);
  return result;
}

}  // namespace

DistributedCost distributed_split_cost(const Machine& machine, const DistributedSplit& work, const SplitPlan& plan) {
  return split_cost_of(machine, work, layout_of(work.shape, plan));
}

DistributedCost distributed_copy_cost(const Machine& machine, const Type& type, const DistributedLayout& source,
                                      const DistributedLayout& to) {
  return split_cost_of(machine, distributed_copy(type, source), to);
}

DistributedCost distributed_output_cost(const Machine& machine, const Type& type, const DistributedLayout& source) {
  DistributedCost result;
  const int64_t elements = type.shape.elements();
  if (elements == 0) return result;
  const DistributedAccountant account(machine);
  Traffic traffic;
  const auto size = static_cast<double>(byte_size(type.dtype));
  // From elsewhere than the tiles, all tiles take a share of the work; from the tiles, each sends its own.
  const int64_t moved =
      source.kind == DistributedLayout::Kind::tiles ? source.shard_elements() : ceil_div(elements, machine.tiles);
  traffic.received = static_cast<double>(moved) * size;
  traffic.pieces = 1;
  account.superstep(result, traffic, {});
  return result;
}

}  // namespace low
