#include "compiler/low/constant_box.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/sha256.h"

namespace low {
namespace {

// Cuts the box out of its source.
std::shared_ptr<const Tensor> cut(const ConstantBox& box) {
  const auto& [source, shape, extents, strides, offset, panels, made] = box;
  auto result = std::make_shared<Tensor>(box.dtype(), shape);
  if (box.elements() == 0) return result;
  const size_t size = byte_size(box.dtype());
  const int rank = extents.rank();
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
  // Columns of the panel that begins at `at` which there are.
  const auto columns_there = [&] {
    const int64_t in_part = index[rank - 3] * extents[rank - 1];
    const int64_t in_matrix = index[rank - 4] * panels->part + in_part;
    return std::min(panels->part - in_part, panels->columns - in_matrix);
  };
  while (true) {
    const bool there = !panels || columns_there() > (runs ? length - 1 : index[rank - 1]);
    if (there) {
      std::memcpy(to, from + static_cast<size_t>(at) * size, bytes);
    } else if (runs && columns_there() > 0) {
      std::memcpy(to, from + static_cast<size_t>(at) * size, static_cast<size_t>(columns_there()) * size);
    }
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

}  // namespace

ConstantBox whole_constant(std::shared_ptr<const Tensor> tensor) {
  const Shape shape = tensor->shape();
  return {.source = std::move(tensor), .shape = shape, .extents = {}, .strides = {}, .offset = 0};
}

std::shared_ptr<const Tensor> ConstantBox::tensor() const {
  if (whole()) return source;
  std::call_once(made->tensor_once, [&] { made->tensor = cut(*this); });
  return made->tensor;
}

const std::string& ConstantBox::sha256() const {
  std::call_once(made->hash_once, [&] { made->hash = sha256_hex(tensor()->bytes()); });
  return made->hash;
}

bool ConstantBox::same_box(const ConstantBox& other) const {
  return source == other.source && shape == other.shape && extents == other.extents && strides == other.strides &&
         offset == other.offset && panels == other.panels;
}

bool operator==(const ConstantBox& a, const ConstantBox& b) {
  if (a.same_box(b)) return true;
  return a.dtype() == b.dtype() && a.shape == b.shape && *a.tensor() == *b.tensor();
}

}  // namespace low
