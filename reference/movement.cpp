#include <cstring>

#include "reference/operations.h"
#include "reference/walk.h"

namespace low::reference {
namespace {

// Result element (i, j, …) is operand element base + i * strides[0] + j * strides[1] + ….
Tensor strided(const Tensor& operand, const Shape& shape, int64_t base, const Strides& strides) {
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

Tensor compute(const Reshape&, Operands operands, const Type& type, ThreadPool*) {
  const Tensor& operand = *operands[0];
  Tensor result(operand.dtype(), type.shape);
  copy_bytes(result.bytes(), operand.bytes());
  return result;
}

Tensor compute(const Transpose& attributes, Operands operands, const Type&, ThreadPool*) {
  const Tensor& operand = *operands[0];
  const Shape own = operand.shape().row_major_strides();
  Shape shape = attributes.permutation;
  Strides strides = attributes.permutation;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int from = static_cast<int>(attributes.permutation[axis]);
    shape[axis] = operand.shape()[from];
    strides[axis] = own[from];
  }
  return strided(operand, shape, 0, strides);
}

Tensor compute(const Slice& attributes, Operands operands, const Type& type, ThreadPool*) {
  const Tensor& operand = *operands[0];
  const Shape& shape = type.shape;
  if (shape.elements() == 0) return Tensor(operand.dtype(), shape);
  const Shape own = operand.shape().row_major_strides();
  int64_t base = 0;
  Strides strides = own;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    base += attributes.start[axis] * own[axis];
    // One element is never stepped from, and its step may be of any size.
    strides[axis] = shape[axis] == 1 ? 0 : attributes.step[axis] * own[axis];
  }
  return strided(operand, shape, base, strides);
}

Tensor compute(const Expand&, Operands operands, const Type& type, ThreadPool*) {
  return strided(*operands[0], type.shape, 0, broadcast_strides(operands[0]->shape(), type.shape));
}

Tensor compute(const Concat& attributes, Operands operands, const Type& type, ThreadPool*) {
  const int axis = attributes.axis;
  Tensor result(operands[0]->dtype(), type.shape);
  const Strides strides = type.shape.row_major_strides();
  int64_t start = 0;  // along the axis
  for (const auto& operand : operands) {
    Walk walk(operand->shape(), {strides}, 0);
    const int64_t elements = operand->elements();
    for (int64_t i = 0; i < elements; ++i, walk.next()) {
      result.set_bits(walk.offset(0) + start * strides[axis], operand->bits(i));
    }
    start += operand->shape()[axis];
  }
  return result;
}

Tensor compute(const Pad& attributes, Operands operands, const Type& type, ThreadPool*) {
  const Shape& shape = type.shape;
  const Tensor& operand = *operands[0];
  const Shape& from = operand.shape();
  const Strides strides = from.row_major_strides();
  Tensor result(operand.dtype(), shape);
  const int64_t elements = result.elements();
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    bool inside = true;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      int64_t place = rest % shape[axis] - attributes.before[axis];
      rest /= shape[axis];
      const int64_t last = from[axis] - 1;
      switch (attributes.mode) {
        case Pad::Mode::constant:
          inside = inside && place >= 0 && place <= last;
          break;
        case Pad::Mode::edge:
          place = place < 0 ? 0 : place > last ? last : place;
          break;
        case Pad::Mode::reflect:  // one fold at an end after the other, until it lies inside
          while (place < 0 || place > last) place = last == 0 ? 0 : place < 0 ? -place : 2 * last - place;
          break;
        case Pad::Mode::wrap:
          while (place < 0) place += from[axis];
          while (place > last) place -= from[axis];
          break;
      }
      offset += place * strides[axis];
    }
    result.set_bits(i, inside ? operand.bits(offset) : operands[1]->bits(0));
  }
  return result;
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
