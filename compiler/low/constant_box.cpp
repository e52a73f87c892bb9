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
  Shape index(std::span<const int64_t>(extents.extents().first(static_cast<size_t>(axes))));
  for (int axis = 0; axis < axes; ++axis) index[axis] = 0;
  int64_t at = offset;
  // Of the run that begins at `at`, what there is.
  const auto there = [&] {
    if (!panels) return length;
    const int64_t in_part = index[rank - 3] * extents[rank - 1] + (runs ? 0 : index[rank - 1]);
    const int64_t in_matrix = index[rank - 4] * panels->part + in_part;
    return std::clamp<int64_t>(std::min(panels->part - in_part, panels->columns - in_matrix), 0, length);
  };
  while (true) {
    if (const auto count = static_cast<size_t>(there()); count > 0)
      std::memcpy(to, from + static_cast<size_t>(at) * size, count * size);
    to += static_cast<size_t>(length) * size;
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
  return made->tensor.get([&] { return cut(*this); });
}

const std::string& ConstantBox::sha256() const {
  return made->hash.get([&] { return sha256_hex(tensor()->bytes()); });
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
