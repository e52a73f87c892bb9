#include "compiler/low/expand/expander.h"

namespace low {
namespace {

// Element `iteration` along axis 0: the place of one slice, stepping with the Repeat at `level`.
Placed slice_of(const Placed& place, uint32_t level, int64_t count) {
  Placed part = place;
  part.layout.strides = Strides(place.layout.strides.extents().subspan(1));
  const int64_t stride = place.layout.strides[0];
  if (stride != 0) part.terms.push_back({.level = level, .period = static_cast<uint32_t>(count), .stride = stride});
  return part;
}

}  // namespace

Result<void> Expander::expand_repeat(RegionState& region, OpId id, const RepeatPlan& plan) {
  const Graph& graph = region.graph;
  const Op& op = graph.op(id);
  const auto& repeat = std::get<Repeat>(op.attributes);
  const std::span<const ValueId> operands = graph.operands(op);

  if (repeat.count == 0) {
    for (uint32_t c = 0; c < repeat.carried; ++c) region.places[graph.result(op, c)] = region.places[operands[c]];
    for (uint32_t c = 0; c < repeat.collected; ++c) {
      const ValueId value = graph.result(op, repeat.carried + c);
      region.places[value] = result_place(region, value);  // has no elements
    }
    return {};
  }

  RegionState body{.graph = *repeat.body, .plan = plan.body[0], .level = region.level + 1};
  for (uint32_t c = 0; c < repeat.carried; ++c) {
    const Type& type = graph.type(operands[c]);
    const Placed& half = region.carried[id][c];
    const int64_t elements = type.shape.elements();
    if (!(region.wanted[operands[c]] && region.wanted[operands[c]]->allocation == half.allocation)) {
      const SplitPlan split{.axis = 0,
                            .parts = type.shape.rank() > 0 ? static_cast<uint32_t>(std::min<int64_t>(
                                                                 machine_.tiles, std::max<int64_t>(1, type.shape[0])))
                                                           : 1};
      LOW_TRY_VOID(copy_value(type, region.places[operands[c]], half, split));
    }
    Placed current = half, next = half;
    current.terms.push_back({.level = region.level, .period = 2, .stride = elements});
    next.layout.offset += elements;
    next.terms.push_back({.level = region.level, .period = 2, .stride = -elements});
    body.inputs.push_back(current);
    body.destinations.push_back(next);
    Placed last = half;
    if (repeat.count % 2 == 1) last.layout.offset += elements;
    region.places[graph.result(op, c)] = last;
  }
  for (uint32_t i = 0; i < repeat.invariant; ++i) body.inputs.push_back(region.places[operands[repeat.carried + i]]);
  for (uint32_t i = 0; i < repeat.iterated; ++i)
    body.inputs.push_back(
        slice_of(region.places[operands[repeat.carried + repeat.invariant + i]], region.level, repeat.count));
  for (uint32_t i = 0; i < repeat.collected; ++i) {
    const ValueId value = graph.result(op, repeat.carried + i);
    const Placed place = result_place(region, value);
    region.places[value] = place;
    body.destinations.push_back(slice_of(place, region.level, repeat.count));
  }

  builder_.begin_region();
  LOW_TRY_VOID(expand_region(body));
  const RegionId body_id = builder_.end_region();
  builder_.repeat(region.level, static_cast<uint64_t>(repeat.count), body_id);
  return {};
}

}  // namespace low
