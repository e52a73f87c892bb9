// Kernels over (outer axes…, inner axes…): what joins axes, and gather.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "compiler/base/overloaded.h"
#include "compiler/low/expand/expander.h"
#include "compiler/low/expand/groups.h"
#include "compiler/search/gather_axes.h"

namespace low {
namespace {

// Axes from the largest to the smallest stride of x, so that neighbours come last and dense axes join.
std::vector<int> by_stride(std::vector<int> axes, const Strides& strides) {
  std::ranges::sort(axes, [&](int a, int b) {
    const int64_t x = std::abs(strides[a]), y = std::abs(strides[b]);
    return x != y ? x > y : a < b;
  });
  return axes;
}

Shape taken(const Shape& from, const std::vector<int>& axes) {
  Shape result;
  for (const int axis : axes) result.append(from[axis]);
  return result;
}

// One group of axes of some operands, collapsed. `strides` are over all axes.
CollapsedBox collapse_axes(const Shape& extents, const std::vector<int>& axes, const std::vector<Strides>& strides) {
  std::vector<Strides> some;
  for (const Strides& s : strides) some.push_back(taken(s, axes));
  return collapse(taken(extents, axes), some);
}

void append_all(Shape& to, const Shape& from) {
  for (const int64_t value : from) to.append(value);
}

}  // namespace

Result<void> Expander::expand_group(RegionState& region, const Op& op, const SplitPlan& plan) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Type& type = graph.type(value);
  const Type& x = graph.type(operands[0]);
  const int rank = x.shape.rank();

  KernelContract contract = kernel_of(graph, op);
  const Shape inner_axes = joined_axes(op.attributes);
  const bool reduces = contract.is<ReduceKernel>();

  // x, then extras as the result's shape sees them, then the result. A reduced axis has one element in all but x.
  std::vector<Placed> places{region.places[operands[0]]};
  for (const ValueId extra : operands.subspan(1)) {
    places.push_back(region.places[extra]);
    places.back().layout = expanded(places.back().layout, graph.type(extra).shape, type.shape);
  }
  places.push_back(result_place(region, value));
  region.places[value] = places.back();
  std::vector<Strides> strides;
  for (const Placed& place : places) strides.push_back(place.layout.strides);

  std::vector<int> outer, inner;
  for (int axis = 0; axis < rank; ++axis) {
    const bool is_inner = std::ranges::find(inner_axes, axis) != inner_axes.end();
    (is_inner ? inner : outer).push_back(axis);
  }
  outer = by_stride(outer, strides[0]);
  inner = by_stride(inner, strides[0]);
  const std::vector<Strides> of_x(strides.begin(), strides.begin() + 1);
  const CollapsedBox inside = collapse_axes(x.shape, inner, reduces ? of_x : strides);
  // Of the result, if it has fewer elements along the joined axis than x.
  const Shape kept = taken(type.shape, inner);
  const bool fewer = !reduces && kept != taken(x.shape, inner);
  const int inner_rank = inside.extents.rank();
  std::visit(Overloaded{[&](ReduceKernel& kernel) { kernel.inner = inner_rank; },
                        [&](RowwiseKernel& kernel) { kernel.inner = inner_rank; }, [](auto&) {}},
             contract.family);

  builder_.begin_superstep();
  for (uint32_t part = 0; part < plan.parts; ++part) {
    Shape extents = type.shape;
    int64_t first = 0;
    const int axis = static_cast<int>(plan.axis);
    if (rank > 0) {
      const Range range = part_range(extents[axis], plan.parts, part);
      extents[axis] = range.size();
      first = range.begin;
    }
    if (extents.elements() == 0) continue;
    const CollapsedBox outside = collapse_axes(extents, outer, strides);
    if (outside.extents.rank() + inner_rank + (fewer ? 1 : 0) > max_rank) {
      return fail(ErrorKind::unsupported, fmt::format("expand: operation \"{}\" ({}) has more than {} separate axes",
                                                      op.name, kind_name(op.attributes), max_rank));
    }
    std::vector<View> views;
    std::vector<Shape> boxes;
    for (size_t i = 0; i < places.size(); ++i) {
      Shape box = outside.extents;
      Strides steps = outside.strides[i];
      if (!reduces || i == 0) {
        append_all(box, fewer && i > 0 ? kept : inside.extents);
        append_all(steps, inside.strides[i]);
      }
      const int64_t begin = rank > 0 ? first * strides[i][axis] : 0;
      views.push_back(view(places[i], places[i].layout.offset + begin, box, steps));
      contract.operands[i].access = access_list(box, steps);
      boxes.push_back(box);
    }
    builder_.run(configured(builder_, contract, run_extents(contract, boxes)), TileId(part % machine_.tiles), views);
  }
  builder_.end_superstep();
  return {};
}

GatherRun gather_run(const KernelContract& contract, const Shape& extents, std::span<const Strides> strides,
                     const Shape& indexed, const Strides& indexed_strides, int64_t index_stride) {
  GatherRun run{.contract = contract, .boxes = {}, .strides = {}};
  const CollapsedBox outside = collapse(extents, strides);
  for (size_t i = 0; i < 3; ++i) {
    run.boxes[i] = outside.extents;
    run.strides[i] = outside.strides[i];
    run.contract.operands[i].access = access_list(run.boxes[i], run.strides[i]);
  }
  for (int axis = 0; axis < outside.extents.rank(); ++axis) {
    if (run.contract.operands[0].access[static_cast<size_t>(axis)] == Access::broadcast) run.boxes[0][axis] = 1;
  }
  if (outside.extents.rank() + std::max(indexed.rank(), 1) > max_rank) {
    run.too_many_axes = true;
    return run;
  }
  for (int i = 0; i < indexed.rank(); ++i) {
    run.boxes[0].append(indexed[i]);
    run.strides[0].append(indexed_strides[i]);
    run.contract.operands[0].access.push_back(access_of(indexed[i], indexed_strides[i]));
  }
  run.boxes[1].append(indexed.rank());
  run.strides[1].append(index_stride);
  run.contract.operands[1].access.push_back(access_of(indexed.rank(), index_stride));
  return run;
}

Result<void> Expander::expand_gather(RegionState& region, const Op& op, const SplitPlan& plan) {
  const Graph& graph = region.graph;
  const std::span<const ValueId> operands = graph.operands(op);
  const ValueId value = graph.result(op);
  const Type& type = graph.type(value);
  const Shape& data = graph.type(operands[0]).shape;
  const Placed places[] = {region.places[operands[0]], region.places[operands[1]], result_place(region, value)};
  region.places[value] = places[2];
  const GatherAxes axes = gather_axes(std::get<Gather>(op.attributes), type.shape.rank(), places[0].layout.strides,
                                      graph.type(operands[1]).shape, places[1].layout.strides);
  const std::vector<Strides> strides = {axes.data, axes.indices, places[2].layout.strides};

  const KernelContract contract = kernel_of(graph, op);
  Shape indexed;
  Strides indexed_strides;
  for (const int axis : axes.indexed) {
    indexed.append(data[axis]);
    indexed_strides.append(places[0].layout.strides[axis]);
  }

  builder_.begin_superstep();
  for (uint32_t part = 0; part < plan.parts; ++part) {
    Shape extents = type.shape;
    int64_t first = 0;
    const int axis = static_cast<int>(plan.axis);
    if (extents.rank() > 0) {
      const Range range = part_range(extents[axis], plan.parts, part);
      extents[axis] = range.size();
      first = range.begin;
    }
    if (extents.elements() == 0) continue;
    const GatherRun run = gather_run(contract, extents, strides, indexed, indexed_strides, axes.index_stride);
    if (run.too_many_axes) {
      return fail(ErrorKind::unsupported,
                  fmt::format("expand: gather \"{}\" has more than {} separate axes", op.name, max_rank));
    }
    std::vector<View> views;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t begin = extents.rank() > 0 ? first * strides[i][axis] : 0;
      views.push_back(view(places[i], places[i].layout.offset + begin, run.boxes[i], run.strides[i]));
    }
    builder_.run(builder_.contract(run.contract), TileId(part % machine_.tiles), views);
  }
  builder_.end_superstep();
  return {};
}

}  // namespace low
