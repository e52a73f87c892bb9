#include "compiler/graph/ops/movement.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace low {
namespace {

// Copies the elements start + index . strides.
Tensor moved(const Tensor& from, const Shape& shape, const Strides& strides, int64_t start) {
  Tensor out(from.dtype(), shape);
  folding::Walk walk(shape, {strides}, {start});
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, walk.next()) out.set_bits(i, from.bits(walk.offset(0)));
  return out;
}

template <size_t size>
void transpose_matrix(std::span<const std::byte> from, std::span<std::byte> to, int64_t rows, int64_t columns) {
  constexpr int64_t block = 32;  // both sides stay in the cache
  for (int64_t i0 = 0; i0 < rows; i0 += block)
    for (int64_t j0 = 0; j0 < columns; j0 += block)
      for (int64_t i = i0; i < std::min(i0 + block, rows); ++i)
        for (int64_t j = j0; j < std::min(j0 + block, columns); ++j)
          std::memcpy(to.data() + static_cast<size_t>(j * rows + i) * size,
                      from.data() + static_cast<size_t>(i * columns + j) * size, size);
}

// Matrix by matrix: weights, of which there are many millions.
Tensor last_two_exchanged(const Tensor& from, const Shape& shape) {
  Tensor out(from.dtype(), shape);
  const int64_t columns = shape[shape.rank() - 2], rows = shape[shape.rank() - 1];
  const size_t size = byte_size(from.dtype()), matrix = static_cast<size_t>(rows * columns) * size;
  for (size_t at = 0; matrix > 0 && at < from.bytes().size(); at += matrix) {
    const auto source = from.bytes().subspan(at, matrix);
    const auto destination = out.bytes().subspan(at, matrix);
    switch (size) {
      case 1:
        transpose_matrix<1>(source, destination, rows, columns);
        break;
      case 2:
        transpose_matrix<2>(source, destination, rows, columns);
        break;
      case 4:
        transpose_matrix<4>(source, destination, rows, columns);
        break;
      default:
        transpose_matrix<8>(source, destination, rows, columns);
    }
  }
  return out;
}

bool exchanges_last_two(const Shape& permutation) {
  const int rank = permutation.rank();
  if (rank < 2 || permutation[rank - 2] != rank - 1 || permutation[rank - 1] != rank - 2) return false;
  for (int axis = 0; axis < rank - 2; ++axis)
    if (permutation[axis] != axis) return false;
  return true;
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

}  // namespace

std::string problem(const Reshape&, const OpTypes& op) {
  if (std::string error = op.counts(1, 1, 1); !error.empty()) return error;
  if (op.operand(0).dtype == op.result().dtype && op.operand(0).shape.elements() == op.result().shape.elements())
    return "";
  return fmt::format("{} cannot become {}", to_string(op.operand(0)), to_string(op.result()));
}

Tensor fold(const Reshape&, FoldOperands operands, const Type& result) {
  Tensor out(result.dtype, result.shape);
  std::ranges::copy(operands[0]->bytes(), out.bytes().begin());
  return out;
}

std::string problem(const Transpose& a, const OpTypes& op) {
  if (std::string error = op.counts(1, 1, 1); !error.empty()) return error;
  const Shape& from = op.operand(0).shape;
  if (a.permutation.rank() != from.rank()) {
    return fmt::format("permutation {} of {}", to_string(a.permutation), to_string(op.operand(0)));
  }
  Shape shape;
  unsigned seen = 0;
  for (const int64_t axis : a.permutation) {
    if (axis < 0 || axis >= from.rank() || (seen >> axis & 1u) != 0) {
      return fmt::format("{} is not a permutation", to_string(a.permutation));
    }
    seen |= 1u << axis;
    shape.append(from[static_cast<int>(axis)]);
  }
  return op.expect({op.operand(0).dtype, shape});
}

Tensor fold(const Transpose& op, FoldOperands operands, const Type& result) {
  if (exchanges_last_two(op.permutation)) return last_two_exchanged(*operands[0], result.shape);
  const Strides own = operands[0]->shape().row_major_strides();
  Strides strides;
  for (const int64_t axis : op.permutation) strides.append(own[static_cast<int>(axis)]);
  return moved(*operands[0], result.shape, strides, 0);
}

std::string problem(const Slice& a, const OpTypes& op) {
  if (std::string error = op.counts(1, 1, 1); !error.empty()) return error;
  const Shape& from = op.operand(0).shape;
  const Shape& to = op.result().shape;
  if (op.result().dtype != op.operand(0).dtype || to.rank() != from.rank() || a.start.rank() != from.rank() ||
      a.step.rank() != from.rank()) {
    return fmt::format("start {} and step {} of {} to {}", to_string(a.start), to_string(a.step),
                       to_string(op.operand(0)), to_string(op.result()));
  }
  for (int i = 0; i < from.rank(); ++i) {
    if (a.step[i] == 0) return fmt::format("step 0 on axis {}", i);
    if (to[i] == 0) continue;
    int64_t last = 0;
    if (__builtin_mul_overflow(to[i] - 1, a.step[i], &last) || __builtin_add_overflow(last, a.start[i], &last) ||
        a.start[i] < 0 || a.start[i] >= from[i] || last < 0 || last >= from[i]) {
      return fmt::format("axis {}: {} elements from {} in steps of {} leave the extent {}", i, to[i], a.start[i],
                         a.step[i], from[i]);
    }
  }
  return "";
}

Tensor fold(const Slice& op, FoldOperands operands, const Type& result) {
  const Strides own = operands[0]->shape().row_major_strides();
  Strides strides;
  int64_t start = 0;
  // Nothing is read from an empty result, whose steps may be anything.
  for (int i = 0; i < own.rank(); ++i) {
    strides.append(result.shape[i] <= 1 ? 0 : own[i] * op.step[i]);
    start += result.shape.elements() == 0 ? 0 : own[i] * op.start[i];
  }
  return moved(*operands[0], result.shape, strides, start);
}

std::string problem(const Expand&, const OpTypes& op) {
  if (std::string error = op.counts(1, 1, 1); !error.empty()) return error;
  if (op.operand(0).dtype != op.result().dtype) return op.expect({op.operand(0).dtype, op.result().shape});
  return op.broadcasts(0);
}

Tensor fold(const Expand&, FoldOperands operands, const Type& result) {
  return moved(*operands[0], result.shape, folding::broadcast_strides(operands[0]->shape(), result.shape), 0);
}

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

std::string problem(const Concat& a, const OpTypes& op) {
  if (std::string error = op.counts(1, UINT16_MAX, 1); !error.empty()) return error;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operand(i).dtype != op.operand(0).dtype) return fmt::format("operand {} is {}", i, to_string(op.operand(i)));
    shapes.push_back(op.operand(i).shape);
  }
  const std::optional<Shape> shape = concat_shape(shapes, a.axis);
  if (!shape) return fmt::format("operands do not join along axis {}", a.axis);
  return op.expect({op.operand(0).dtype, *shape});
}

Tensor fold(const Concat& concat, FoldOperands operands, const Type& result) {
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

std::string problem(const Pad& a, const OpTypes& op) {
  const size_t needed = a.mode == Pad::Mode::constant ? 2 : 1;
  if (std::string error = op.counts(needed, needed, 1); !error.empty()) return error;
  const Shape& from = op.operand(0).shape;
  const Shape& to = op.result().shape;
  if (a.mode > Pad::Mode::wrap) return "unknown mode";
  if (needed == 2 && op.operand(1) != Type{op.operand(0).dtype, Shape()}) {
    return fmt::format("a fill of type {} for {}", to_string(op.operand(1)), to_string(op.operand(0)));
  }
  if (op.result().dtype != op.operand(0).dtype || to.rank() != from.rank() || a.before.rank() != from.rank()) {
    return fmt::format("{} before {} to {}", to_string(a.before), to_string(op.operand(0)), to_string(op.result()));
  }
  for (int i = 0; i < from.rank(); ++i) {
    // No extent is negative: a sum of two could overflow, a difference could not.
    if (a.before[i] < 0 || a.before[i] > to[i] || to[i] - a.before[i] < from[i]) {
      return fmt::format("axis {}: {} elements before {} of {}", i, a.before[i], from[i], to[i]);
    }
    if (needed == 1 && from[i] == 0 && to[i] != 0) return fmt::format("axis {} is empty", i);
  }
  return "";
}

Tensor fold(const Pad& pad, FoldOperands operands, const Type& result) {
  const Tensor& from = *operands[0];
  const Strides strides = from.shape().row_major_strides();
  Tensor out(result.dtype, result.shape);
  folding::FoldIndex index{};
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, folding::advance(index, result.shape)) {
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

}  // namespace low
