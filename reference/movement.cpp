#include <cstring>

#include "reference/operations.h"
#include "reference/walk.h"

namespace low::reference {
namespace {

// Result element (i, j, …) is operand element base + i * strides[0] + j * strides[1] + ….
Tensor gather(const Tensor& operand, const Shape& shape, int64_t base, const Strides& strides) {
  Tensor result(operand.dtype(), shape);
  const int64_t elements = result.elements();
  Walk walk(shape, {strides}, 0);
  for (int64_t i = 0; i < elements; ++i, walk.next()) result.set_bits(i, operand.bits(base + walk.offset(0)));
  return result;
}

// Bytes of one element of axis 0.
size_t element_bytes(const Tensor& tensor) {
  size_t bytes = byte_size(tensor.dtype());
  for (int axis = 1; axis < tensor.shape().rank(); ++axis) bytes *= static_cast<size_t>(tensor.shape()[axis]);
  return bytes;
}

void copy_bytes(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

Tensor reshape(const Tensor& operand, const Shape& shape) {
  Tensor result(operand.dtype(), shape);
  copy_bytes(result.bytes(), operand.bytes());
  return result;
}

Tensor transpose(const Tensor& operand, const Shape& permutation) {
  const Shape own = operand.shape().row_major_strides();
  Shape shape = permutation;
  Strides strides = permutation;
  for (int axis = 0; axis < permutation.rank(); ++axis) {
    const int from = static_cast<int>(permutation[axis]);
    shape[axis] = operand.shape()[from];
    strides[axis] = own[from];
  }
  return gather(operand, shape, 0, strides);
}

Tensor slice(const Tensor& operand, const Slice& attributes, const Shape& shape) {
  if (shape.elements() == 0) return Tensor(operand.dtype(), shape);
  const Shape own = operand.shape().row_major_strides();
  int64_t base = 0;
  Strides strides = own;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    base += attributes.start[axis] * own[axis];
    // One element is never stepped from, and its step may be of any size.
    strides[axis] = shape[axis] == 1 ? 0 : attributes.step[axis] * own[axis];
  }
  return gather(operand, shape, base, strides);
}

Tensor expand(const Tensor& operand, const Shape& shape) {
  return gather(operand, shape, 0, broadcast_strides(operand.shape(), shape));
}

Tensor take(const Tensor& operand, int64_t index) {
  Tensor part(operand.dtype(), Shape(operand.shape().extents().subspan(1)));
  const size_t bytes = element_bytes(operand);
  copy_bytes(part.bytes(), operand.bytes().subspan(static_cast<size_t>(index) * bytes, bytes));
  return part;
}

void put(Tensor& whole, int64_t index, const Tensor& part) {
  const size_t bytes = element_bytes(whole);
  copy_bytes(whole.bytes().subspan(static_cast<size_t>(index) * bytes, bytes), part.bytes());
}

}  // namespace low::reference
