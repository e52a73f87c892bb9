#include "compiler/graph/ops/gather.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace low {
namespace {

// From the end when negative, then into the axis.
int64_t place_on_axis(int64_t index, int64_t extent) {
  return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
}

}  // namespace

std::optional<Shape> gather_shape(const Gather& gather, const Shape& data, const Shape& indices) {
  std::vector<int64_t> extents;
  bool indexes_empty_axis = false;
  if (gather.mode == Gather::Mode::nd) {
    const int batch = gather.batch_axes;
    if (batch < 0 || indices.rank() < 1 || batch >= indices.rank() || batch >= data.rank()) return std::nullopt;
    const int64_t depth = indices[indices.rank() - 1];
    if (depth < 1 || depth > data.rank() - batch) return std::nullopt;
    for (int i = 0; i < batch; ++i) {
      if (indices[i] != data[i]) return std::nullopt;
    }
    for (int i = 0; i + 1 < indices.rank(); ++i) extents.push_back(indices[i]);
    for (int i = batch; i < batch + depth; ++i) indexes_empty_axis = indexes_empty_axis || data[i] == 0;
    for (int i = batch + static_cast<int>(depth); i < data.rank(); ++i) extents.push_back(data[i]);
  } else {
    if (gather.axis < 0 || gather.axis >= data.rank()) return std::nullopt;
    indexes_empty_axis = data[gather.axis] == 0;
    if (gather.mode == Gather::Mode::elements) {
      if (indices.rank() != data.rank()) return std::nullopt;
      for (int i = 0; i < data.rank(); ++i) {
        if (i != gather.axis && indices[i] > data[i]) return std::nullopt;
        extents.push_back(indices[i]);
      }
    } else {
      for (int i = 0; i < gather.axis; ++i) extents.push_back(data[i]);
      for (const int64_t extent : indices) extents.push_back(extent);
      for (int i = gather.axis + 1; i < data.rank(); ++i) extents.push_back(data[i]);
    }
  }
  const std::optional<Shape> shape = shape_of(extents);
  if (shape && indexes_empty_axis && shape->elements() > 0) return std::nullopt;
  return shape;
}

std::string problem(const Gather& a, const OpTypes& op) {
  if (std::string error = op.counts(2, 2, 1); !error.empty()) return error;
  if (a.mode > Gather::Mode::nd || (a.mode == Gather::Mode::nd ? a.axis : a.batch_axes) != 0) return "bad mode";
  if (op.operand(1).dtype != DType::i32 && op.operand(1).dtype != DType::i64) {
    return fmt::format("indices of type {}", to_string(op.operand(1)));
  }
  const std::optional<Shape> shape = gather_shape(a, op.operand(0).shape, op.operand(1).shape);
  if (!shape) {
    return fmt::format("indices {} do not fit data {}", to_string(op.operand(1)), to_string(op.operand(0)));
  }
  return op.expect({op.operand(0).dtype, *shape});
}

Tensor fold(const Gather& gather, FoldOperands operands, const Type& result) {
  const Tensor& data = *operands[0];
  const Tensor& indices = *operands[1];
  const Shape& shape = data.shape();
  const Strides strides = shape.row_major_strides();
  const Strides index_strides = indices.shape().row_major_strides();
  Tensor out(result.dtype, result.shape);
  folding::FoldIndex index{};
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, folding::advance(index, result.shape)) {
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
