#include "reference/walk.h"

#include <algorithm>
#include <utility>

namespace low::reference {

Strides broadcast_strides(const Shape& operand, const Shape& result) {
  const Shape own = operand.row_major_strides();
  const int missing = result.rank() - operand.rank();
  Strides strides = result;
  for (int axis = 0; axis < result.rank(); ++axis) {
    const int own_axis = axis - missing;
    strides[axis] = own_axis < 0 || operand[own_axis] == 1 ? 0 : own[own_axis];
  }
  return strides;
}

Walk::Walk(const Shape& shape, std::vector<Strides> strides, int64_t begin)
    : shape_(shape), strides_(std::move(strides)), coordinates_(shape), offsets_(strides_.size()) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    coordinates_[axis] = shape[axis] == 0 ? 0 : begin % shape[axis];
    begin = shape[axis] == 0 ? 0 : begin / shape[axis];
    for (size_t i = 0; i < strides_.size(); ++i) offsets_[i] += coordinates_[axis] * strides_[i][axis];
  }
}

void Walk::next() {
  for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
    const bool carry = ++coordinates_[axis] == shape_[axis];
    for (size_t i = 0; i < strides_.size(); ++i) {
      offsets_[i] += carry ? -(shape_[axis] - 1) * strides_[i][axis] : strides_[i][axis];
    }
    if (!carry) return;
    coordinates_[axis] = 0;
  }
}

void for_parts(ThreadPool* pool, int64_t elements, const std::function<void(int64_t, int64_t)>& work) {
  constexpr int64_t part = 1 << 16;
  const int64_t parts = (elements + part - 1) / part;
  const auto run_part = [&](int64_t i) { work(i * part, std::min(elements, (i + 1) * part)); };
  if (pool != nullptr && parts > 1) {
    pool->parallel_for(parts, run_part);
  } else {
    for (int64_t i = 0; i < parts; ++i) run_part(i);
  }
}

}  // namespace low::reference
