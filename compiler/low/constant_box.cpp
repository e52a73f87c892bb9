#include "compiler/low/constant_box.h"

#include <cstring>

namespace low {

ConstantBox whole_constant(std::shared_ptr<const Tensor> tensor) {
  const Shape shape = tensor->shape();
  return {.source = std::move(tensor), .shape = shape, .extents = {}, .strides = {}, .offset = 0};
}

std::shared_ptr<const Tensor> ConstantBox::tensor() const {
  if (whole()) return source;
  auto result = std::make_shared<Tensor>(dtype(), shape);
  if (elements() == 0) return result;
  const size_t size = byte_size(dtype());
  // Runs of the innermost axis where that is contiguous, else elements.
  const int last = extents.rank() - 1;
  const bool runs = strides[last] == 1;
  const int64_t length = runs ? extents[last] : 1;
  const int axes = runs ? last : last + 1;
  const std::byte* from = source->bytes().data();
  std::byte* to = result->bytes().data();
  const size_t bytes = static_cast<size_t>(length) * size;
  Shape index(std::span<const int64_t>(extents.extents().first(static_cast<size_t>(axes))));
  for (int axis = 0; axis < axes; ++axis) index[axis] = 0;
  int64_t at = offset;
  while (true) {
    std::memcpy(to, from + static_cast<size_t>(at) * size, bytes);
    to += bytes;
    int axis = axes - 1;
    for (; axis >= 0; --axis) {
      at += strides[axis];
      if (++index[axis] < extents[axis]) break;
      at -= strides[axis] * extents[axis];
      index[axis] = 0;
    }
    if (axis < 0) return result;
  }
}

bool ConstantBox::same_box(const ConstantBox& other) const {
  return source == other.source && shape == other.shape && extents == other.extents && strides == other.strides &&
         offset == other.offset;
}

bool operator==(const ConstantBox& a, const ConstantBox& b) {
  if (a.same_box(b)) return true;
  return a.dtype() == b.dtype() && a.shape == b.shape && *a.tensor() == *b.tensor();
}

}  // namespace low
