#include "compiler/graph/shapes.h"

#include <vector>

namespace low {
namespace {

std::optional<Shape> shape_of(std::span<const int64_t> extents) {
  if (extents.size() > static_cast<size_t>(max_rank) || !checked_elements(extents)) return std::nullopt;
  return Shape(extents);
}

}  // namespace

std::optional<Shape> concat_shape(std::span<const Shape> operands, int axis) {
  if (operands.empty() || axis < 0 || axis >= operands[0].rank()) return std::nullopt;
  Shape result = operands[0];
  for (const Shape& operand : operands.subspan(1)) {
    if (operand.rank() != result.rank()) return std::nullopt;
    for (int i = 0; i < result.rank(); ++i) {
      if (i != axis && operand[i] != result[i]) return std::nullopt;
    }
    if (__builtin_add_overflow(result[axis], operand[axis], &result[axis])) return std::nullopt;
  }
  return shape_of(result.extents());
}

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

Shape reduced_shape(const Shape& shape, const Shape& axes) {
  Shape result = shape;
  for (const int64_t axis : axes) result[static_cast<int>(axis)] = 1;
  return result;
}

bool are_axes(const Shape& axes, int rank) {
  int64_t last = -1;
  for (const int64_t axis : axes) {
    if (axis <= last || axis >= rank) return false;
    last = axis;
  }
  return true;
}

std::optional<Shape> attention_shape(const Attention& attention, const Shape& q, const Shape& k, const Shape& v) {
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3) return std::nullopt;
  const int64_t q_heads = attention.q_heads;
  const int64_t kv_heads = attention.kv_heads;
  if (q_heads < 1 || kv_heads < 1 || q_heads % kv_heads != 0) return std::nullopt;
  if (q[2] % q_heads != 0 || k[2] % kv_heads != 0 || v[2] % kv_heads != 0) return std::nullopt;
  // d, dv and the number of keys.
  if (q[2] == 0 || v[2] == 0 || k[1] == 0 || q[2] / q_heads != k[2] / kv_heads) return std::nullopt;
  if (k[0] != v[0] || k[1] != v[1]) return std::nullopt;
  if (q[0] != k[0] && (k[0] == 0 || q[0] == 0 || q[0] % k[0] != 0)) return std::nullopt;
  int64_t width = 0;
  if (__builtin_mul_overflow(v[2] / kv_heads, q_heads, &width)) return std::nullopt;
  return Shape{q[0], q[1], width};
}

DType attention_type(DType q, DType k, DType v) {
  return q == DType::f64 || k == DType::f64 || v == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace low
