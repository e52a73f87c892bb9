#include <algorithm>
#include <cstring>

#include "compiler/graph/fold_ops.h"

namespace low {
namespace {

using Index = std::array<int64_t, max_rank>;

// The next index in row-major order; all zeros behind the last.
void advance(Index& index, const Shape& shape) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (++index[static_cast<size_t>(axis)] < shape[axis]) return;
    index[static_cast<size_t>(axis)] = 0;
  }
}

// Where `pad` reads its position `i` (counted from the operand's first element) of an axis; outside: nowhere, the fill.
int64_t padded_source(Pad::Mode mode, int64_t i, int64_t extent) {
  switch (mode) {
    case Pad::Mode::constant:
      return i;
    case Pad::Mode::edge:
      return std::clamp<int64_t>(i, 0, extent - 1);
    case Pad::Mode::wrap:
      return ((i % extent) + extent) % extent;
    case Pad::Mode::reflect:
      break;
  }
  if (extent == 1) return 0;
  const int64_t period = 2 * (extent - 1);
  const int64_t place = ((i % period) + period) % period;
  return place < extent ? place : period - place;
}

// From the end when negative, then into the axis.
int64_t place_on_axis(int64_t index, int64_t extent) {
  return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
}

}  // namespace

Tensor fold_concat(const Concat& concat, FoldOperands operands, const Type& result) {
  Tensor out(result.dtype, result.shape);
  int64_t outer = 1;
  for (int i = 0; i < concat.axis; ++i) outer *= result.shape[i];
  if (out.bytes().empty()) return out;
  std::byte* to = out.bytes().data();
  for (int64_t i = 0; i < outer; ++i) {
    for (const Tensor* operand : operands) {
      const size_t bytes = operand->bytes().size() / static_cast<size_t>(outer);
      if (bytes > 0) std::memcpy(to, operand->bytes().data() + static_cast<size_t>(i) * bytes, bytes);
      to += bytes;
    }
  }
  return out;
}

Tensor fold_pad(const Pad& pad, FoldOperands operands, const Type& result) {
  const Tensor& from = *operands[0];
  const Strides strides = from.shape().row_major_strides();
  Tensor out(result.dtype, result.shape);
  Index index{};
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, advance(index, result.shape)) {
    int64_t offset = 0;
    bool inside = true;
    for (int axis = 0; axis < result.shape.rank(); ++axis) {
      const int64_t extent = from.shape()[axis];
      const int64_t source = padded_source(pad.mode, index[static_cast<size_t>(axis)] - pad.before[axis], extent);
      inside = inside && source >= 0 && source < extent;
      offset += source * strides[axis];
    }
    out.set_bits(i, inside ? from.bits(offset) : operands[1]->bits(0));
  }
  return out;
}

Tensor fold_gather(const Gather& gather, FoldOperands operands, const Type& result) {
  const Tensor& data = *operands[0];
  const Tensor& indices = *operands[1];
  const Shape& shape = data.shape();
  const Strides strides = shape.row_major_strides();
  const Strides index_strides = indices.shape().row_major_strides();
  Tensor out(result.dtype, result.shape);
  Index index{};
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, advance(index, result.shape)) {
    const auto at = [&](int axis) { return index[static_cast<size_t>(axis)]; };
    int64_t offset = 0;
    if (gather.mode == Gather::Mode::nd) {
      const int prefix = indices.shape().rank() - 1;
      const auto depth = static_cast<int>(indices.shape()[prefix]);
      int64_t first = 0;
      for (int axis = 0; axis < prefix; ++axis) first += at(axis) * index_strides[axis];
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const int indexed = axis - gather.batch_axes;
        int64_t place = 0;
        if (indexed < 0) {
          place = at(axis);
        } else if (indexed < depth) {
          place = place_on_axis(indices.integer(first + indexed), shape[axis]);
        } else {
          place = at(prefix + indexed - depth);
        }
        offset += place * strides[axis];
      }
    } else {
      const bool elements = gather.mode == Gather::Mode::elements;
      int64_t from = 0;
      for (int axis = 0; axis < indices.shape().rank(); ++axis) {
        from += at(elements ? axis : axis + gather.axis) * index_strides[axis];
      }
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const int own = elements || axis < gather.axis ? axis : axis + indices.shape().rank() - 1;
        const int64_t place = axis == gather.axis ? place_on_axis(indices.integer(from), shape[axis]) : at(own);
        offset += place * strides[axis];
      }
    }
    out.set_bits(i, data.bits(offset));
  }
  return out;
}

}  // namespace low
