#include "compiler/search/layout.h"

#include "compiler/base/hash.h"

#include "runtime/base/error.h"

namespace low {
namespace {

// A product that overflows can only be the stride of an axis with at most one element, where any number does.
int64_t stride_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? 0 : product;
}

int64_t offset_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? 0 : sum;
}

// Axes of one element take the stride that row-major order would give them, so that equal layouts compare equal.
void normalize_unit_axes(const Shape& shape, Strides& strides) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1) continue;
    strides[axis] = axis + 1 == shape.rank() ? 1 : stride_product(strides[axis + 1], shape[axis + 1]);
  }
}

}  // namespace

uint64_t hash_of(const Layout& layout) { return WordHash().add(layout.offset).add_list(layout.strides).result(); }

Layout row_major(const Shape& shape) { return {shape.row_major_strides(), 0}; }

bool is_row_major(const Shape& shape, const Layout& layout) {
  int64_t expected = 1;
  bool dense = true;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 0) return true;
    if (shape[axis] == 1) continue;
    dense = dense && layout.strides[axis] == expected;
    expected = stride_product(expected, shape[axis]);
  }
  return dense;
}

Layout transposed(const Layout& layout, const Shape& permutation) {
  Layout result;
  result.offset = layout.offset;
  for (int axis = 0; axis < permutation.rank(); ++axis) {
    result.strides.append(layout.strides[static_cast<int>(permutation[axis])]);
  }
  return result;
}

Layout sliced(const Layout& layout, const Shape& start, const Shape& step) {
  Layout result = layout;
  for (int axis = 0; axis < start.rank(); ++axis) {
    result.offset = offset_sum(result.offset, stride_product(start[axis], layout.strides[axis]));
    result.strides[axis] = stride_product(layout.strides[axis], step[axis]);
  }
  return result;
}

Layout expanded(const Layout& layout, const Shape& from, const Shape& to) {
  LOW_CHECK(from.rank() <= to.rank());
  Layout result;
  result.offset = layout.offset;
  const int added = to.rank() - from.rank();
  for (int axis = 0; axis < to.rank(); ++axis) {
    const bool kept = axis >= added && from[axis - added] == to[axis];
    result.strides.append(kept ? layout.strides[axis - added] : 0);
  }
  return result;
}

std::optional<Layout> reshaped(const Layout& layout, const Shape& from, const Shape& to) {
  const int64_t elements = from.elements();
  if (to.elements() != elements) return std::nullopt;
  if (elements == 0) return Layout{to.row_major_strides(), layout.offset};

  // Axes of one element do not matter on the left side.
  Shape extents;
  Strides strides;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (from[axis] == 1) continue;
    extents.append(from[axis]);
    strides.append(layout.strides[axis]);
  }

  // Both shapes fall into the shortest runs of axes with equal products. A run is one index that counts through the
  // left axes in row-major order; the right side can take it apart differently only if its elements are evenly spaced.
  Layout result;
  result.offset = layout.offset;
  result.strides = to;
  int left = 0;
  int right = 0;
  while (left < extents.rank() && right < to.rank()) {
    int left_end = left + 1;
    int right_end = right + 1;
    int64_t left_product = extents[left];
    int64_t right_product = to[right];
    while (left_product != right_product) {
      if (left_product < right_product) {
        left_product *= extents[left_end++];
      } else {
        right_product *= to[right_end++];
      }
    }
    for (int axis = left; axis + 1 < left_end; ++axis) {
      if (strides[axis] != stride_product(strides[axis + 1], extents[axis + 1])) return std::nullopt;
    }
    int64_t stride = strides[left_end - 1];
    for (int axis = right_end - 1; axis >= right; --axis) {
      result.strides[axis] = stride;
      stride = stride_product(stride, to[axis]);
    }
    left = left_end;
    right = right_end;
  }
  normalize_unit_axes(to, result.strides);  // those behind the last run, too
  return result;
}

}  // namespace low
