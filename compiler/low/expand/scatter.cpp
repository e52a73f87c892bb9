// Scatters: each part of the rows goes through all updates. Where a part's rows begin stands in a table, since it is no
// extent of its run.
#include <memory>
#include <vector>

#include "compiler/low/expand/distributed_expander.h"
#include "compiler/low/expand/expander.h"

namespace low {
namespace {

// 0, 1, … rows - 1: element r is where a part that begins at row r finds its number.
std::shared_ptr<const Tensor> first_rows(int64_t rows, const Shape& shape) {
  Tensor table(DType::i64, shape);
  for (int64_t row = 0; row < rows; ++row) table.data<int64_t>()[row] = row;
  return std::make_shared<const Tensor>(std::move(table));
}

Placed in_line(Placed place, int64_t offset) {
  place.layout.offset += offset;
  return place;
}

// The operands of a run in the kernel's order, with the accesses that they have.
struct ScatterRun {
  std::vector<Placed> places;
  std::vector<Shape> boxes;
  std::vector<Strides> strides;

  void add(const Placed& place, const Shape& box, const Strides& steps) {
    places.push_back(place);
    boxes.push_back(box);
    strides.push_back(steps);
  }
  void set_access(KernelContract& contract) const {
    for (size_t i = 0; i < boxes.size(); ++i) contract.operands[i].access = access_list(boxes[i], strides[i]);
  }
};

// Views over the last axis of a vector.
Strides last_stride(const Placed& place) { return {place.layout.strides[place.layout.strides.rank() - 1]}; }

}  // namespace

Result<void> Expander::expand_scatter(RegionState& region, const Op& op, const SplitPlan& plan) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Type& type = graph.type(value);
  const int64_t updates = graph.type(operands[1]).shape[0];
  const Placed result = result_place(region, value);
  region.places[value] = result;
  if (type.shape.elements() == 0) return {};
  const Placed firsts = constant_place({first_rows(type.shape[0], {type.shape[0]})});
  const Placed &data = region.places[operands[0]], &indices = region.places[operands[1]],
               &values = region.places[operands[2]];
  KernelContract contract = kernel_of(graph, op);
  builder_.begin_superstep();
  for (uint32_t part = 0; part < plan.parts; ++part) {
    const Range range = part_range(type.shape[static_cast<int>(plan.axis)], plan.parts, part);
    if (range.size() == 0) continue;
    const bool by_rows = plan.axis == 0;
    const Range rows = by_rows ? range : Range{0, type.shape[0]}, columns = by_rows ? Range{0, type.shape[1]} : range;
    const auto matrix = [&](const Placed& place, int64_t row) {
      return in_line(place, row * place.layout.strides[0] + columns.begin * place.layout.strides[1]);
    };
    ScatterRun run;
    run.add(indices, {updates}, indices.layout.strides);
    run.add(in_line(firsts, rows.begin), {1}, {0});
    run.add(matrix(values, 0), {updates, columns.size()}, values.layout.strides);
    run.add(matrix(data, rows.begin), {rows.size(), columns.size()}, data.layout.strides);
    run.add(matrix(result, rows.begin), {rows.size(), columns.size()}, result.layout.strides);
    run.set_access(contract);
    std::vector<View> views;
    for (size_t i = 0; i < run.places.size(); ++i)
      views.push_back(view(run.places[i], run.places[i].layout.offset, run.boxes[i], run.strides[i]));
    builder_.run(configured(builder_, contract, run_extents(contract, run.boxes)), TileId(part % machine_.tiles),
                 views);
  }
  builder_.end_superstep();
  return {};
}

Result<void> DistributedExpander::expand_scatter(RegionState& region, const Op& op) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const MatrixExtents extents = matrix_extents(graph.type(value).shape);
  const int64_t updates = graph.type(operands[1]).shape[0];
  const DistributedValueRef firsts = new_value(DType::i64, {1, extents.rows});
  firsts->constant = first_rows(extents.rows, {1, extents.rows});
  KernelContract contract = kernel_of(graph, op);
  LOW_TRY_VOID(begin_superstep());
  for (const Shard& shard : region.values[value]->shards) {
    const Rect& rect = shard.rect;
    LOW_TRY(const Placed indices, pull(region.values[operands[1]], {0, 0, 1, updates}, shard.tile));
    LOW_TRY(const Placed first, pull(firsts, {0, rect.row, 1, 1}, shard.tile));
    LOW_TRY(const Placed values, pull(region.values[operands[2]], {0, rect.column, updates, rect.columns}, shard.tile));
    LOW_TRY(const Placed data, pull(region.values[operands[0]], rect, shard.tile));
    ScatterRun run;
    run.add(indices, {updates}, last_stride(indices));
    run.add(first, {1}, {0});
    run.add(values, {updates, rect.columns}, values.layout.strides);
    run.add(data, {rect.rows, rect.columns}, data.layout.strides);
    run.add(shard.place, {rect.rows, rect.columns}, shard.place.layout.strides);
    run.set_access(contract);
    LOW_TRY_VOID(budget_.take(static_cast<double>(run.places.size())));
    std::vector<View> views;
    for (size_t i = 0; i < run.places.size(); ++i)
      views.push_back(view(run.places[i], run.places[i].layout.offset, run.boxes[i], run.strides[i]));
    builder_.run(configured(builder_, contract, run_extents(contract, run.boxes)), shard.tile, views);
  }
  end_superstep();
  return {};
}

}  // namespace low
