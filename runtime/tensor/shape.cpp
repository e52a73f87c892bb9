#include "runtime/tensor/shape.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace low {

Shape::Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) {
  LOW_CHECK(extents.size() <= static_cast<size_t>(max_rank));
  std::ranges::copy(extents, extents_.begin());
  rank_ = static_cast<int8_t>(extents.size());
}

void Shape::append(int64_t extent) {
  LOW_CHECK(rank_ < max_rank);
  extents_[static_cast<size_t>(rank_++)] = extent;
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t extent : extents()) LOW_CHECK(!__builtin_mul_overflow(product, extent, &product));
  return product;
}

Shape Shape::row_major_strides() const {
  Shape strides = *this;
  int64_t stride = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    LOW_CHECK(!__builtin_mul_overflow(stride, (*this)[axis], &stride));
  }
  return strides;
}

bool Shape::operator==(const Shape& other) const { return std::ranges::equal(extents(), other.extents()); }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ',';
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

std::optional<int64_t> checked_elements(std::span<const int64_t> extents) {
  int64_t product = 1;
  bool empty = false;
  for (const int64_t extent : extents) {
    if (extent < 0) return std::nullopt;
    empty = empty || extent == 0;
    // Zeros count as ones here, so that a stride cannot overflow either.
    if (__builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product)) return std::nullopt;
    if (product > max_tensor_bytes) return std::nullopt;
  }
  return empty ? 0 : product;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result;
  for (int axis = 0; axis < rank; ++axis) {
    const int a_axis = axis - (rank - a.rank());
    const int b_axis = axis - (rank - b.rank());
    const int64_t a_extent = a_axis < 0 ? 1 : a[a_axis];
    const int64_t b_extent = b_axis < 0 ? 1 : b[b_axis];
    if (a_extent != b_extent && a_extent != 1 && b_extent != 1) return std::nullopt;
    result.append(a_extent == 1 ? b_extent : a_extent);
  }
  return result;
}

}  // namespace low
