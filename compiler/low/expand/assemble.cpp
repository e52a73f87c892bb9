// concat and pad: results that are put together from boxes, by copies and constant fills.
#include <algorithm>
#include <vector>

#include "compiler/low/expand/expander.h"
#include "compiler/low/expand/pad_segments.h"

namespace low {
// A box of the result, of which part `part` owns what lies in its range of the split axis, is copied from `from`;
// segments say where each axis comes from.
void Expander::copy_box(const Placed& from, const Placed& to, std::span<const AxisPiece> box, const PartOf& part) {
  Shape extents;
  Strides source, destination;
  int64_t from_offset = from.layout.offset, to_offset = to.layout.offset;
  for (int axis = 0; axis < static_cast<int>(box.size()); ++axis) {
    const AxisPiece& segment = box[static_cast<size_t>(axis)];
    int64_t begin = segment.begin, end = segment.begin + segment.size;
    if (axis == part.axis) {
      begin = std::max(begin, part.range.begin);
      end = std::min(end, part.range.end);
    }
    if (begin >= end) return;
    extents.append(end - begin);
    from_offset += (segment.source + (begin - segment.begin) * segment.step) * from.layout.strides[axis];
    to_offset += begin * to.layout.strides[axis];
    source.append(segment.step * from.layout.strides[axis]);
    destination.append(to.layout.strides[axis]);
  }
  copy(view(from, from_offset, extents, source), view(to, to_offset, extents, destination), part.tile);
}

void Expander::fill_box(const std::optional<Placed>& scalar, const Placed& to, DType dtype, std::span<const Range> box,
                        const PartOf& part) {
  Shape extents;
  int64_t offset = to.layout.offset;
  for (int axis = 0; axis < static_cast<int>(box.size()); ++axis) {
    Range range = box[static_cast<size_t>(axis)];
    if (axis == part.axis) {
      range.begin = std::max(range.begin, part.range.begin);
      range.end = std::min(range.end, part.range.end);
    }
    if (range.begin >= range.end) return;
    extents.append(range.size());
    offset += range.begin * to.layout.strides[axis];
  }
  const Strides strides[] = {to.layout.strides};
  const CollapsedBox loops = collapse(extents, strides);
  KernelContract contract{.family = PointwiseKernel()};
  std::vector<View> views;
  Strides nowhere = loops.extents;
  for (int axis = 0; axis < nowhere.rank(); ++axis) nowhere[axis] = 0;
  ExprBuilder expr(scalar ? 1 : 0);
  contract.expr = std::move(expr).finish(scalar ? expr.input(0, dtype) : expr.constant_bits(dtype, 0));
  if (scalar) {
    views.push_back(view(*scalar, scalar->layout.offset, loops.extents, nowhere));
    contract.operands.push_back({dtype, std::vector<Access>(static_cast<size_t>(nowhere.rank()), Access::broadcast)});
  }
  views.push_back(view(to, offset, loops.extents, loops.strides[0]));
  contract.operands.push_back({dtype, access_list(loops.extents, loops.strides[0])});
  builder_.run(configured(builder_, contract, loops.extents), part.tile, views);
}

// Calls function(part) for each part of a result with elements, until one fails.
template <typename Function>
Result<void> Expander::for_each_part(const Shape& shape, const SplitPlan& split, Function&& function) {
  builder_.begin_superstep();
  for (uint32_t part = 0; part < split.parts; ++part) {
    const auto axis = static_cast<int>(split.axis);
    const int64_t extent = shape.rank() > 0 ? shape[axis] : 1;
    LOW_TRY_VOID(function(PartOf{axis, part_range(extent, split.parts, part), TileId(part % machine_.tiles)}));
  }
  builder_.end_superstep();
  return {};
}

Result<void> Expander::expand_concat(RegionState& region, const Op& op, const SplitPlan& split) {
  const Graph& graph = region.graph;
  const ValueId value = graph.result(op);
  const Type& type = graph.type(value);
  const int axis = std::get<Concat>(op.attributes).axis;
  const Placed place = result_place(region, value);
  region.places[value] = place;
  if (type.shape.elements() == 0) return {};
  return for_each_part(type.shape, split, [&](const PartOf& part) -> Result<void> {
    int64_t begin = 0;
    for (const ValueId operand : graph.operands(op)) {
      const Shape& shape = graph.type(operand).shape;
      std::vector<AxisPiece> box;
      for (int a = 0; a < shape.rank(); ++a) box.push_back({a == axis ? begin : 0, shape[a], 0, 1});
      begin += shape[axis];
      if (region.assembled[operand] == 0) copy_box(region.places[operand], place, box, part);
    }
    return {};
  });
}

Result<void> Expander::expand_pad(RegionState& region, const Op& op, const SplitPlan& split) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Type& type = graph.type(value);
  const auto& pad = std::get<Pad>(op.attributes);
  const Shape& from = graph.type(operands[0]).shape;
  const int rank = from.rank();
  const Placed place = result_place(region, value);
  const Placed source = region.places[operands[0]];
  region.places[value] = place;
  if (type.shape.elements() == 0) return {};

  if (pad.mode == Pad::Mode::constant) {
    std::optional<Placed> scalar;
    if (operands.size() > 1) scalar = region.places[operands[1]];
    return for_each_part(type.shape, split, [&](const PartOf& part) -> Result<void> {
      LOW_TRY_VOID(budget_.take(2 + 4 * rank));
      // Along one axis after the other: what lies outside of the data there and inside of it along the axes before.
      std::vector<Range> box;
      for (int axis = 0; axis < rank; ++axis) box.push_back({0, type.shape[axis]});
      std::vector<AxisPiece> data;
      for (int axis = 0; axis < rank; ++axis) {
        Range& range = box[static_cast<size_t>(axis)];
        const int64_t begin = pad.before[axis], end = begin + from[axis];
        range = {0, begin};
        fill_box(scalar, place, type.dtype, box, part);
        range = {end, type.shape[axis]};
        fill_box(scalar, place, type.dtype, box, part);
        range = {begin, end};
        data.push_back({begin, from[axis], 0, 1});
      }
      copy_box(source, place, data, part);
      return {};
    });
  }

  std::vector<std::vector<AxisPiece>> segments;
  for (int axis = 0; axis < rank; ++axis) {
    LOW_TRY_VOID(budget_.take(pad_segments_at_least(pad.mode, from[axis], type.shape[axis])));
    segments.push_back(pad_segments(pad.mode, pad.before[axis], from[axis], type.shape[axis]));
  }
  return for_each_part(type.shape, split, [&](const PartOf& part) -> Result<void> {
    // Of the split axis, what the part owns of it.
    std::vector<std::span<const AxisPiece>> owned(segments.begin(), segments.end());
    double boxes = 1;
    for (size_t axis = 0; axis < owned.size(); ++axis) {
      if (static_cast<int>(axis) == part.axis) {
        const auto end = [](const AxisPiece& piece) { return piece.begin + piece.size; };
        const auto first = std::ranges::upper_bound(owned[axis], part.range.begin, {}, end);
        const auto last = std::ranges::lower_bound(owned[axis], part.range.end, {}, &AxisPiece::begin);
        owned[axis] = {first, std::max(first, last)};
      }
      boxes *= static_cast<double>(owned[axis].size());
    }
    LOW_TRY_VOID(budget_.take(2 * boxes));
    const auto count = static_cast<size_t>(boxes);
    for (size_t i = 0; i < count; ++i) {
      std::vector<AxisPiece> box(static_cast<size_t>(rank));
      size_t rest = i;
      for (size_t axis = box.size(); axis-- > 0;) {
        box[axis] = owned[axis][rest % owned[axis].size()];
        rest /= owned[axis].size();
      }
      copy_box(source, place, box, part);
    }
    return {};
  });
}

}  // namespace low
