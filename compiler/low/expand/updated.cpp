// Operations that update a matrix (Parts::updated). A run reads the operation's operands behind operand 0, lists whole
// and of matrices the part's columns; the number of the part's first row, which stands in a table, since it is no
// extent of the run; and the part of operand 0.
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
struct UpdatingRun {
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

}  // namespace

Result<void> Expander::expand_updated(RegionState& region, const Op& op, const SplitPlan& plan) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Type& type = graph.type(value);
  const Placed result = result_place(region, value);
  region.places[value] = result;
  if (type.shape.elements() == 0) return {};
  const Placed firsts = constant_place({first_rows(type.shape[0], {type.shape[0]})});
  KernelContract contract = kernel_of(graph, op);
  builder_.begin_superstep();
  for (uint32_t part = 0; part < plan.parts; ++part) {
    const Range range = part_range(type.shape[static_cast<int>(plan.axis)], plan.parts, part);
    if (range.size() == 0) continue;
    const bool by_rows = plan.axis == 0;
    const Range rows = by_rows ? range : Range{0, type.shape[0]}, columns = by_rows ? Range{0, type.shape[1]} : range;
    UpdatingRun run;
    const auto add_matrix = [&](const Placed& place, const Range& of_rows) {
      const Strides& strides = place.layout.strides;
      const int64_t offset = of_rows.begin * strides[0] + columns.begin * strides[1];
      run.add(in_line(place, offset), {of_rows.size(), columns.size()}, strides);
    };
    for (const ValueId operand : operands.subspan(1)) {
      const Placed& place = region.places[operand];
      const Shape& shape = graph.type(operand).shape;
      if (shape.rank() == 1) {
        run.add(place, shape, place.layout.strides);
      } else {
        add_matrix(place, {0, shape[0]});
      }
    }
    run.add(in_line(firsts, rows.begin), {1}, {0});
    add_matrix(region.places[operands[0]], rows);
    add_matrix(result, rows);
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

Result<void> DistributedExpander::expand_updated(RegionState& region, const Op& op) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const MatrixExtents extents = matrix_extents(graph.type(value).shape);
  const DistributedValueRef firsts = new_value(DType::i64, {1, extents.rows});
  firsts->constant = first_rows(extents.rows, {1, extents.rows});
  KernelContract contract = kernel_of(graph, op);
  LOW_TRY_VOID(begin_superstep());
  for (const Shard& shard : region.values[value]->shards) {
    const Rect& rect = shard.rect;
    UpdatingRun run;
    for (const ValueId operand : operands.subspan(1)) {
      const Shape& shape = graph.type(operand).shape;
      const bool is_list = shape.rank() == 1;
      const Rect wanted = is_list ? Rect{0, 0, 1, shape[0]} : Rect{0, rect.column, shape[0], rect.columns};
      LOW_TRY(const Placed place, pull(region.values[operand], wanted, shard.tile));
      const Strides& strides = place.layout.strides;
      if (is_list) {
        run.add(place, shape, {strides[strides.rank() - 1]});
      } else {
        run.add(place, {wanted.rows, wanted.columns}, strides);
      }
    }
    LOW_TRY(const Placed first, pull(firsts, {0, rect.row, 1, 1}, shard.tile));
    run.add(first, {1}, {0});
    LOW_TRY(const Placed data, pull(region.values[operands[0]], rect, shard.tile));
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
