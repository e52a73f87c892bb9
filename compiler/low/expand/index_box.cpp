#include "compiler/low/expand/index_box.h"

namespace low {
namespace {

// [begin, end) of the elements that share the first `axis` indices of `box`, `size` elements.
void add_range(const Shape& shape, int axis, int64_t size, int64_t begin, int64_t end, IndexBox box,
               std::vector<IndexBox>& boxes) {
  if (begin >= end) return;
  for (; begin > 0 || end < size; ++axis) {
    const int64_t inner = size / shape[axis];
    const int64_t first = begin / inner, last = (end - 1) / inner;
    if (first == last) {
      box.first.append(first);
      box.extents.append(1);
      begin -= first * inner;
      end -= first * inner;
      size = inner;
      continue;
    }
    const int64_t whole_begin = begin % inner == 0 ? first : first + 1;
    const int64_t whole_end = end % inner == 0 ? last + 1 : last;
    const auto with = [&](int64_t index, int64_t count) {
      IndexBox result = box;
      result.first.append(index);
      result.extents.append(count);
      return result;
    };
    if (whole_begin != first) add_range(shape, axis + 1, inner, begin % inner, inner, with(first, 1), boxes);
    if (whole_begin < whole_end) {
      add_range(shape, axis + 1, inner, 0, inner, with(whole_begin, whole_end - whole_begin), boxes);
    }
    if (whole_end <= last) add_range(shape, axis + 1, inner, 0, end - last * inner, with(last, 1), boxes);
    return;
  }
  for (; axis < shape.rank(); ++axis) {
    box.first.append(0);
    box.extents.append(shape[axis]);
  }
  boxes.push_back(box);
}

}  // namespace

std::vector<IndexBox> boxes_of_range(const Shape& shape, int64_t begin, int64_t end) {
  std::vector<IndexBox> boxes;
  add_range(shape, 0, shape.elements(), begin, end, {}, boxes);
  return boxes;
}

SplitShape split_axes(const Shape& shape, int axes) {
  SplitShape split;
  for (int axis = 0; axis < shape.rank(); ++axis) (axis < axes ? split.leading : split.trailing).append(shape[axis]);
  return split;
}

IndexBox joined(const IndexBox& leading, const IndexBox& trailing) {
  IndexBox box = leading;
  for (int axis = 0; axis < trailing.first.rank(); ++axis) {
    box.first.append(trailing.first[axis]);
    box.extents.append(trailing.extents[axis]);
  }
  return box;
}

}  // namespace low
