#include "compiler/low/expand/expander.h"

namespace low {

void Expander::expand_pointwise(RegionState& region, const Op& op, const SplitPlan& plan) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Type& type = graph.type(value);

  // The inputs as the result's shape sees them, then the result.
  std::vector<Placed> places;
  for (const ValueId operand : operands) {
    places.push_back(region.places[operand]);
    places.back().layout = expanded(places.back().layout, graph.type(operand).shape, type.shape);
  }
  places.push_back(result_place(region, value));
  region.places[value] = places.back();

  KernelContract contract{.family = PointwiseKernel(), .expr = std::get<Pointwise>(op.attributes).expr};
  contract.operands.resize(places.size());
  for (size_t i = 0; i < operands.size(); ++i) contract.operands[i].dtype = graph.type(operands[i]).dtype;
  contract.operands.back().dtype = type.dtype;

  std::vector<Strides> strides;
  for (const Placed& place : places) strides.push_back(place.layout.strides);

  builder_.begin_superstep();
  for (uint32_t part = 0; part < plan.parts; ++part) {
    Shape extents = type.shape;
    Range range{0, 1};
    const int axis = static_cast<int>(plan.axis);
    if (extents.rank() > 0) {
      range = part_range(extents[axis], plan.parts, part);
      extents[axis] = range.size();
    }
    if (extents.elements() == 0) continue;
    const CollapsedBox box = collapse(extents, strides);
    std::vector<View> views;
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t first = extents.rank() > 0 ? range.begin * strides[i][axis] : 0;
      views.push_back(view(places[i], places[i].layout.offset + first, box.extents, box.strides[i]));
      contract.operands[i].access = access_list(box.extents, box.strides[i]);
    }
    builder_.run(configured(builder_, contract, box.extents), TileId(part % machine_.tiles), views);
  }
  builder_.end_superstep();
}

}  // namespace low
