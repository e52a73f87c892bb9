#include <algorithm>

#include "compiler/low/expand/distributed_expander.h"

namespace low {

// The expansion of one repeat.
class DistributedExpander::RepeatExpansion {
 public:
  RepeatExpansion(DistributedExpander& expander, RegionState& region, OpId id, const RepeatPlan& plan)
      : e_(expander),
        region_(region),
        op_(region.graph.op(id)),
        repeat_(std::get<Repeat>(op_.attributes)),
        operands_(region.graph.operands(op_)),
        body_{.graph = *repeat_.body, .plan = plan.body[0], .level = region.level + 1} {}

  Result<void> run() {
    if (repeat_.count == 0) {
      skip();
      return {};
    }
    if (repeat_.carried > 0) {
      LOW_TRY_VOID(e_.begin_superstep());
      for (uint32_t c = 0; c < repeat_.carried; ++c) LOW_TRY_VOID(carry(c));
      e_.end_superstep();
    }
    for (uint32_t i = 0; i < repeat_.invariant; ++i) body_.inputs.push_back(value(operands_[repeat_.carried + i]));
    for (uint32_t i = 0; i < repeat_.iterated; ++i) LOW_TRY_VOID(iterate(repeat_.carried + repeat_.invariant + i));
    for (uint32_t i = 0; i < repeat_.collected; ++i) LOW_TRY_VOID(collect(repeat_.carried + i));
    e_.builder_.begin_region();
    LOW_TRY_VOID(e_.expand_region(body_));
    const RegionId body = e_.builder_.end_region();
    e_.builder_.repeat(region_.level, static_cast<uint64_t>(repeat_.count), body);
    return {};
  }

 private:
  DistributedValueRef& value(ValueId id) { return region_.values[id]; }
  ValueId result(uint32_t i) const { return region_.graph.result(op_, i); }

  DistributedValueRef new_value(const Type& type) { return e_.new_value(type.dtype, matrix_extents(type.shape)); }

  // The shard `offset` elements further, and `stride` elements further in each iteration of `period`.
  Shard stepping(const Shard& shard, int64_t period, int64_t stride, int64_t offset) const {
    Shard result = shard;
    result.place.layout.offset += offset;
    result.place.terms.push_back({.level = region_.level, .period = static_cast<uint32_t>(period), .stride = stride});
    return result;
  }
  // Where iteration `iteration` of a stacked value lies; a slice of rank 0 is one column of its value's only row.
  static Rect slice_of(Rect rect, const Type& slice, int64_t iteration) {
    if (slice.shape.rank() == 0) {
      rect.column += iteration;
    } else {
      rect.row += iteration * matrix_extents(slice.shape).rows;
    }
    return rect;
  }

  // No iterations: carried values are the initial ones, collected ones have no elements.
  void skip() {
    for (uint32_t c = 0; c < repeat_.carried; ++c) value(result(c)) = value(operands_[c]);
    for (uint32_t c = 0; c < repeat_.collected; ++c) {
      const ValueId collected = result(repeat_.carried + c);
      value(collected) = new_value(region_.graph.type(collected));
    }
  }

  // Two halves where the body writes the next value.
  Result<void> carry(uint32_t c) {
    const Type& type = region_.graph.type(operands_[c]);
    LOW_TRY(const std::vector<Part> parts, e_.output_parts(body_.graph, body_.plan, c));
    LOW_TRY(const Places halves, e_.new_places(type.dtype, parts, 2));
    LOW_TRY_VOID(e_.budget_.take(3.0 * static_cast<double>(halves.size())));  // the values that share them
    const DistributedValueRef current = new_value(type), last = new_value(type);
    Places next;
    for (const Shard& half : halves) {
      LOW_TRY_VOID(e_.pull_into(value(operands_[c]), half.rect, half.tile, half.place));
      const int64_t elements = half.rect.rows * half.rect.columns;
      current->shards.push_back(stepping(half, 2, elements, 0));
      next.push_back(stepping(half, 2, -elements, elements));
      last->shards.push_back(half);
      if (repeat_.count % 2 == 1) last->shards.back().place.layout.offset += elements;
    }
    body_.inputs.push_back(current);
    body_.destinations.emplace_back(std::move(next));
    value(result(c)) = last;
    return {};
  }

  // An operand of which each iteration reads a slice.
  Result<void> iterate(uint32_t operand) {
    const DistributedValueRef all = value(operands_[operand]);
    const Type& type = body_.graph.type(body_.graph.result(body_.graph.op(body_.graph.inputs()[operand])));
    const DistributedValueRef slice = new_value(type);
    body_.inputs.push_back(slice);
    if (all->constant && all->shards.empty()) {
      slice->constant = all->constant;
      slice->steps = all->steps;
      slice->steps.push_back({region_.level, repeat_.count});
      return {};
    }
    // A computed value: each tile takes its share of every iteration's rows beforehand.
    const auto parts = static_cast<uint32_t>(std::clamp<int64_t>(slice->rows, 1, e_.machine_.tiles));
    const std::vector<Part> split = split_parts({slice->rows, slice->columns}, {.axis = 0, .parts = parts});
    LOW_TRY(const Places shares, e_.new_places(type.dtype, split, repeat_.count));
    LOW_TRY_VOID(e_.begin_superstep());
    for (const Shard& share : shares) {
      const int64_t elements = share.rect.rows * share.rect.columns;
      for (int64_t iteration = 0; iteration < repeat_.count; ++iteration) {
        Placed place = share.place;
        place.layout.offset += iteration * elements;
        LOW_TRY_VOID(e_.pull_into(all, slice_of(share.rect, type, iteration), share.tile, place));
      }
      slice->shards.push_back(stepping(share, repeat_.count, elements, 0));
    }
    e_.end_superstep();
    return {};
  }

  // All iterations' values, where the body writes each of them.
  Result<void> collect(uint32_t output) {
    const ValueId one = body_.graph.operands(body_.graph.op(body_.graph.outputs()[output]))[0];
    const Type& type = body_.graph.type(one);
    LOW_TRY(const std::vector<Part> parts, e_.output_parts(body_.graph, body_.plan, output));
    LOW_TRY(const Places slots, e_.new_places(type.dtype, parts, repeat_.count));
    LOW_TRY_VOID(e_.budget_.take(static_cast<double>(slots.size()) * static_cast<double>(repeat_.count + 1)));
    const DistributedValueRef all = new_value(region_.graph.type(result(output)));
    Places next;
    for (const Shard& slot : slots) {
      const int64_t elements = slot.rect.rows * slot.rect.columns;
      next.push_back(stepping(slot, repeat_.count, elements, 0));
      for (int64_t iteration = 0; iteration < repeat_.count; ++iteration) {
        Shard shard = slot;
        shard.rect = slice_of(slot.rect, type, iteration);
        shard.place.layout.offset += iteration * elements;
        all->shards.push_back(std::move(shard));
      }
    }
    body_.destinations.emplace_back(std::move(next));
    value(result(output)) = all;
    return {};
  }

  DistributedExpander& e_;
  RegionState& region_;
  const Op& op_;
  const Repeat& repeat_;
  std::span<const ValueId> operands_;
  RegionState body_;
};

Result<void> DistributedExpander::expand_repeat(RegionState& region, OpId id, const RepeatPlan& plan) {
  return RepeatExpansion(*this, region, id, plan).run();
}

}  // namespace low
