#include "compiler/search/op_cost.h"

#include <algorithm>

#include "compiler/base/integers.h"

namespace low {
namespace {

// Whether neighbours along the last axis that has any are apart.
bool innermost_strided(const Shape& shape, const Layout& layout) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] > 1) return layout.strides[axis] != 0 && layout.strides[axis] != 1;
  }
  return false;
}

// A matrix may lie by rows or by columns: kernels take both.
bool matrix_strided(const Shape& shape, const Layout& layout) {
  for (int axis = shape.rank() - 1; axis >= shape.rank() - 2; --axis) {
    if (shape[axis] <= 1 || layout.strides[axis] == 0 || layout.strides[axis] == 1) return false;
  }
  return true;
}

// Whether no axis is contiguous: kernels that reduce or normalize take rows along any axis.
bool all_strided(const Shape& shape, const Layout& layout) {
  bool any = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] <= 1 || layout.strides[axis] == 0) continue;
    if (layout.strides[axis] == 1) return false;
    any = true;
  }
  return any;
}

// The extents along which an operand that broadcasts to `result` varies.
Shape varying(const Shape& shape, const Layout& layout, const Shape& result) {
  Shape varies = result;
  const int added = result.rank() - shape.rank();
  for (int axis = 0; axis < result.rank(); ++axis) {
    const bool same = axis < added || shape[axis - added] == 1 || layout.strides[axis - added] == 0;
    if (same) varies[axis] = 1;
  }
  return varies;
}

// Blocks along an axis cut into `parts`: of all parts together.
double total_blocks(int64_t extent, int64_t part, int64_t block) {
  if (extent == 0) return 0;
  const int64_t full = (extent - 1) / part;
  return static_cast<double>(full * ceil_div(part, block) + ceil_div(extent - full * part, block));
}

// How often a block of this size occurs in the first, largest part.
struct BlockRun {
  int64_t size;
  int64_t count;
};
std::vector<BlockRun> block_runs(int64_t part, int64_t block) {
  std::vector<BlockRun> runs;
  if (part / block > 0) runs.push_back({block, part / block});
  if (part % block > 0) runs.push_back({part % block, 1});
  return runs;
}

}  // namespace

MatmulFacts matmul_facts(const Graph& graph, const Op& op) {
  const auto& matmul = std::get<Matmul>(op.attributes);
  const DType result = graph.type(graph.result(op)).dtype;
  MatmulFacts facts;
  facts.shape = matmul_shape(graph, op);
  facts.a = graph.type(graph.operands(op)[0]).dtype;
  facts.b = graph.type(graph.operands(op)[1]).dtype;
  facts.sum_bytes = static_cast<int64_t>(byte_size(matmul.accumulate));
  facts.result_bytes = static_cast<int64_t>(byte_size(result));
  if (matmul.epilogue) {
    facts.expression_nodes = expression_work(*matmul.epilogue);
  } else {
    facts.expression_nodes = result == matmul.accumulate ? 0 : 1;
  }
  return facts;
}

KernelWork gemm_run(const MatmulFacts& facts, int64_t m, int64_t n, int64_t k) {
  KernelWork run;
  run.kind = KernelWork::Kind::gemm;
  run.m = m;
  run.n = n;
  run.k = k;
  run.a = facts.a;
  run.b = facts.b;
  return run;
}

KernelWork pointwise_run(int64_t rows, int64_t columns, int64_t nodes, int64_t read_bytes, int64_t written_bytes) {
  KernelWork run;
  run.kind = KernelWork::Kind::pointwise;
  run.m = rows;
  run.n = columns;
  run.expression_nodes = nodes;
  run.read_bytes = read_bytes;
  run.written_bytes = written_bytes;
  return run;
}

MatmulWork matmul_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  const std::span<const ValueId> values = graph.operands(op);
  const Type& result = graph.type(graph.result(op));
  MatmulWork work{matmul_facts(graph, op), {}, false};
  for (size_t i = 0; i < 2; ++i)
    work.strided = work.strided || matrix_strided(graph.type(values[i]).shape, operands[i]);
  for (size_t i = 2; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    const Shape varies = varying(type.shape, operands[i], result.shape);
    const int rank = varies.rank();
    MatmulWork::Extra extra;
    for (int axis = 0; axis + 2 < rank; ++axis) extra.batch = extra.batch || varies[axis] != 1;
    extra.m = varies[rank - 2] != 1;
    extra.n = varies[rank - 1] != 1;
    extra.element_bytes = static_cast<int64_t>(byte_size(type.dtype));
    work.extras.push_back(extra);
  }
  return work;
}

// Rows of the result, cut over the tiles.
SuperstepWork partial_sums_superstep(const Machine& machine, const MatmulWork& work, const MatmulPlan& plan) {
  const int64_t rows = work.shape.batch * work.shape.m;
  const int64_t columns = work.shape.n;
  const int64_t part = ceil_div(rows, std::min<int64_t>(rows, machine.tiles));
  const auto read_bytes = [&](int64_t of_rows) {
    int64_t bytes = of_rows * columns * plan.grid_k * work.sum_bytes;
    for (const MatmulWork::Extra& extra : work.extras) {
      bytes += (extra.m || extra.batch ? of_rows : 1) * (extra.n ? columns : 1) * extra.element_bytes;
    }
    return bytes;
  };
  const int64_t nodes = 2 * int64_t{plan.grid_k} - 1 + work.expression_nodes;  // reads and additions
  const KernelWork run = pointwise_run(part, columns, nodes, read_bytes(part), part * columns * work.result_bytes);
  SuperstepWork superstep;
  superstep.tiles.push_back(kernel_cost(machine, run));
  superstep.bytes = static_cast<double>(read_bytes(rows)) + static_cast<double>(rows * columns * work.result_bytes);
  superstep.distinct_bytes = superstep.bytes;
  return superstep;
}

CostSum matmul_cost(const Machine& machine, const MatmulWork& work, const MatmulPlan& plan) {
  CostSum result;
  if (work.shape.batch == 0 || work.shape.m == 0 || work.shape.n == 0) return result;
  result.add(superstep_cost(machine, matmul_superstep(machine, work, plan)));
  if (plan.grid_k > 1) result.add(superstep_cost(machine, partial_sums_superstep(machine, work, plan)));
  return result;
}

SuperstepWork matmul_superstep(const Machine& machine, const MatmulWork& work, const MatmulPlan& plan) {
  const MatmulShape& shape = work.shape;
  const int64_t part_batch = ceil_div(shape.batch, plan.grid_batch);
  const int64_t part_m = ceil_div(shape.m, plan.grid_m);
  const int64_t part_n = ceil_div(shape.n, plan.grid_n);
  const auto a_bytes = static_cast<int64_t>(byte_size(work.a));
  const auto b_bytes = static_cast<int64_t>(byte_size(work.b));
  const bool partial = plan.grid_k > 1;
  const int64_t part_k = partial ? ceil_div(shape.k, plan.grid_k) : shape.k;
  const int64_t written_bytes = partial ? work.sum_bytes : work.result_bytes;

  // Tile 0 has the largest part of each axis: it is the busiest.
  CostSum busiest;
  for (const BlockRun& m : block_runs(part_m, plan.block_m)) {
    for (const BlockRun& n : block_runs(part_n, plan.block_n)) {
      KernelWork run = gemm_run(work, m.size, n.size, part_k);
      run.expression_nodes = partial ? 0 : work.expression_nodes;
      run.read_bytes = m.size * part_k * a_bytes + part_k * n.size * b_bytes;
      for (const MatmulWork::Extra& extra : work.extras) {
        if (partial) break;
        run.read_bytes += (extra.m ? m.size : 1) * (extra.n ? n.size : 1) * extra.element_bytes;
      }
      run.written_bytes = m.size * n.size * written_bytes;
      run.strided = work.strided;
      busiest.add(kernel_cost(machine, run), static_cast<double>(m.count * n.count * part_batch));
    }
  }

  const auto batch = static_cast<double>(shape.batch);
  const auto rows = static_cast<double>(shape.m);
  const auto columns = static_cast<double>(shape.n);
  const auto depth = static_cast<double>(shape.k);
  const double blocks_m = total_blocks(shape.m, part_m, plan.block_m);
  const double blocks_n = total_blocks(shape.n, part_n, plan.block_n);
  SuperstepWork superstep;
  superstep.tiles.push_back(busiest.items);
  superstep.bytes = batch * (rows * depth * blocks_n * static_cast<double>(a_bytes) +
                             depth * columns * blocks_m * static_cast<double>(b_bytes) +
                             rows * columns * plan.grid_k * static_cast<double>(written_bytes));
  superstep.distinct_bytes =
      batch * (rows * depth * static_cast<double>(a_bytes) + depth * columns * static_cast<double>(b_bytes) +
               rows * columns * plan.grid_k * static_cast<double>(written_bytes));
  for (const MatmulWork::Extra& extra : work.extras) {
    if (partial) break;
    const auto size = static_cast<double>(extra.element_bytes);
    superstep.bytes += batch * (extra.m ? rows : blocks_m) * (extra.n ? columns : blocks_n) * size;
    superstep.distinct_bytes += (extra.batch ? batch : 1) * (extra.m ? rows : 1) * (extra.n ? columns : 1) * size;
  }
  return superstep;
}

uint64_t partial_sum_bytes(const MatmulWork& work, const MatmulPlan& plan) {
  if (plan.grid_k <= 1) return 0;
  return static_cast<uint64_t>(work.shape.batch * work.shape.m * work.shape.n) * plan.grid_k *
         static_cast<uint64_t>(work.sum_bytes);
}

SplitWork pointwise_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  const Type& result = graph.type(graph.result(op));
  const std::span<const ValueId> values = graph.operands(op);
  SplitWork work;
  work.shape = work.written = result.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  work.expression_nodes = expression_work(std::get<Pointwise>(op.attributes).expr);
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    work.operands.push_back(
        {static_cast<int64_t>(byte_size(type.dtype)), varying(type.shape, operands[i], result.shape)});
    // Only an operand that is read element by element suffers; one that broadcasts along the last axis is read once a
    // row.
    work.strided = work.strided || innermost_strided(type.shape, operands[i]);
  }
  return work;
}

namespace {

// What one element of x costs the kernel of an operation that joins axes.
int64_t element_work(const Graph& graph, const Op& op) {
  KernelContract contract = kernel_of(graph, op);
  std::vector<Shape> shapes;
  for (const ValueId value : graph.operands(op)) shapes.push_back(graph.type(value).shape);
  shapes.push_back(graph.type(graph.result(op)).shape);
  if (shapes[0].rank() == 0) shapes.front() = shapes.back() = {1};
  for (size_t i = 0; i < shapes.size(); ++i)
    contract.operands[i].access.assign(static_cast<size_t>(shapes[i].rank()), Access::unit);
  return work_of(contract, run_extents(contract, shapes)).expression_nodes;
}

// x is operand 0; the others broadcast to the result.
SplitWork rows_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  const Type& result = graph.type(graph.result(op));
  const std::span<const ValueId> values = graph.operands(op);
  const Type& x = graph.type(values[0]);
  SplitWork work;
  work.shape = x.shape;
  work.written = result.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  work.expression_nodes = element_work(graph, op);
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& type = graph.type(values[i]);
    work.operands.push_back(
        {static_cast<int64_t>(byte_size(type.dtype)), varying(type.shape, operands[i], result.shape)});
  }
  work.operands[0].varies = varying(x.shape, operands[0], x.shape);
  work.strided = all_strided(x.shape, operands[0]);
  return work;
}

// Each element of the result reads one of data, and the indices that name it.
SplitWork indexed_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  const Type& result = graph.type(graph.result(op));
  const std::span<const ValueId> values = graph.operands(op);
  const auto& gather = std::get<Gather>(op.attributes);
  const Type& data = graph.type(values[0]);
  const Type& indices = graph.type(values[1]);
  SplitWork work;
  work.shape = work.written = result.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  work.expression_nodes = 1;
  work.operands.push_back({work.result_bytes, result.shape});
  Shape named = result.shape;  // axes of the result that the indices have
  const int rank = indices.shape.rank();
  for (int axis = 0; axis < named.rank(); ++axis) {
    const bool is_named =
        gather.mode == Gather::Mode::elements ||
        (gather.mode == Gather::Mode::axis ? axis >= gather.axis && axis < gather.axis + rank : axis < rank - 1);
    if (!is_named) named[axis] = 1;
  }
  const int64_t depth = gather.mode == Gather::Mode::nd ? indices.shape[rank - 1] : 1;
  work.operands.push_back({static_cast<int64_t>(byte_size(indices.dtype)) * depth, named});
  // Rows are contiguous unless an index names elements of the last axis.
  const int last = data.shape.rank() - 1;
  const bool by_element = gather.mode == Gather::Mode::nd ? gather.batch_axes + depth > last : gather.axis == last;
  work.strided = by_element || innermost_strided(data.shape, operands[0]);
  return work;
}

// Operand 0 is copied; each part goes through all indices, and reads as many updates as it has rows, at most.
SplitWork updated_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  const Type& result = graph.type(graph.result(op));
  const std::span<const ValueId> values = graph.operands(op);
  SplitWork work;
  work.shape = work.written = result.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(result.dtype));
  work.expression_nodes = update_work;
  work.updates = update_rows(graph, op);
  work.operands.push_back({work.result_bytes, result.shape});
  const Type& indices = graph.type(values[1]);
  work.operands.push_back({indices.shape.elements() * static_cast<int64_t>(byte_size(indices.dtype)), {1, 1}});
  work.operands.push_back({work.result_bytes, {std::min(work.updates, result.shape[0]), result.shape[1]}});
  work.strided = innermost_strided(result.shape, operands[0]);
  return work;
}

}  // namespace

int64_t update_rows(const Graph& graph, const Op& op) {
  if (parts_of(op.attributes) != Parts::updated) return 0;
  return graph.type(graph.operands(op)[1]).shape[0];
}

SplitWork split_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  switch (*parts_of(op.attributes)) {
    case Parts::elements:
      return pointwise_work(graph, op, operands);
    case Parts::rows:
      return rows_work(graph, op, operands);
    case Parts::indexed:
      return indexed_work(graph, op, operands);
    case Parts::updated:
      break;
  }
  return updated_work(graph, op, operands);
}

SplitWork assembly_work(const Graph& graph, const Op& op, std::span<const Layout> operands) {
  const std::span<const ValueId> values = graph.operands(op);
  const Type& result = graph.type(graph.result(op));
  SplitWork work = copy_work(result, row_major(result.shape));
  if (const auto* pad = std::get_if<Pad>(&op.attributes)) {
    work.strided = innermost_strided(graph.type(values[0]).shape, operands[0]);
    for (int axis = 0; axis < result.shape.rank(); ++axis) {
      if (pad->before[axis] > 0 || result.shape[axis] > graph.type(values[0]).shape[axis]) work.commands += 2;
    }
    return work;
  }
  work.commands = static_cast<int64_t>(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    work.strided = work.strided || innermost_strided(graph.type(values[i]).shape, operands[i]);
  return work;
}

SplitWork copy_work(const Type& type, const Layout& source) {
  SplitWork work;
  work.kind = KernelWork::Kind::copy;
  work.shape = work.written = type.shape;
  work.result_bytes = static_cast<int64_t>(byte_size(type.dtype));
  work.operands.push_back({work.result_bytes, varying(type.shape, source, type.shape)});
  work.strided = innermost_strided(type.shape, source);
  return work;
}

Cost split_cost(const Machine& machine, const SplitWork& work, const SplitPlan& plan) {
  const Shape& written = work.written.rank() == work.shape.rank() ? work.written : work.shape;
  if (written.elements() == 0) return {};
  return superstep_cost(machine, split_superstep(machine, work, plan));
}

SuperstepWork split_superstep(const Machine& machine, const SplitWork& work, const SplitPlan& plan) {
  const Shape& written = work.written.rank() == work.shape.rank() ? work.written : work.shape;
  const int rank = work.shape.rank();
  const auto axis = static_cast<int>(plan.axis);
  const int64_t extent = rank == 0 ? 1 : written[axis];
  const int64_t part = ceil_div(extent, plan.parts);
  const auto used = static_cast<double>(ceil_div(extent, part));

  // The first part, a box: rows of contiguous elements.
  KernelWork run;
  for (int i = 0; i < rank; ++i) (i < axis ? run.m : run.n) *= i == axis && written[i] > 1 ? part : work.shape[i];
  if (work.updates > 0) run = updating_run(axis == 0 ? part : written[0], axis == 0 ? written[1] : part, work.updates);
  run.kind = work.kind;
  run.expression_nodes = work.expression_nodes;
  run.written_bytes = work.result_bytes;
  for (int i = 0; i < rank; ++i) run.written_bytes *= i == axis ? part : written[i];
  run.strided = work.strided;
  double bytes = static_cast<double>(written.elements()) * static_cast<double>(work.result_bytes);
  double distinct = bytes;
  for (const SplitWork::Operand& operand : work.operands) {
    int64_t read = operand.element_bytes;
    double all = static_cast<double>(operand.element_bytes);
    for (int i = 0; i < rank; ++i) {
      read *= i == axis && written[i] > 1 ? std::min(operand.varies[i], part) : operand.varies[i];
      all *= static_cast<double>(operand.varies[i]);
    }
    const bool each_part = rank == 0 || operand.varies[axis] == 1;  // read by all of them
    run.read_bytes += read;
    bytes += each_part ? all * used : all;
    distinct += all;
  }
  SuperstepWork superstep;
  superstep.tiles.push_back(kernel_cost(machine, run));
  superstep.tiles.back().launch += static_cast<double>(work.commands - 1) * machine.command_cycles;
  superstep.bytes = bytes;
  superstep.distinct_bytes = distinct;
  return superstep;
}

}  // namespace low
