#include "compiler/graph/fold.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "compiler/graph/fold_ops.h"
#include "compiler/graph/quantize_expr.h"

namespace low {
namespace {

Tensor map(const Expr& expr, const Type& result, std::span<const Tensor* const> operands,
           std::span<const Shape> shapes) {
  Tensor out(result.dtype, result.shape);
  std::vector<Strides> strides;
  for (const Shape& shape : shapes) strides.push_back(broadcast_strides(shape, result.shape));
  Walk walk(result.shape, std::move(strides), std::vector<int64_t>(operands.size(), 0));
  std::vector<uint64_t> inputs(operands.size());
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, walk.next()) {
    for (size_t j = 0; j < operands.size(); ++j) inputs[j] = operands[j]->bits(walk.offset(j));
    out.set_bits(i, evaluate(expr, inputs));
  }
  return out;
}

Tensor map(const Expr& expr, const Type& result, std::span<const Tensor* const> operands) {
  std::vector<Shape> shapes;
  for (const Tensor* operand : operands) shapes.push_back(operand->shape());
  return map(expr, result, operands, shapes);
}

// Copies the elements start + index . strides.
Tensor move(const Tensor& from, const Shape& shape, const Strides& strides, int64_t start) {
  Tensor out(from.dtype(), shape);
  Walk walk(shape, {strides}, {start});
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, walk.next()) out.set_bits(i, from.bits(walk.offset(0)));
  return out;
}

template <typename T>
T element(const Tensor& tensor, int64_t index) {
  if (is_float(tensor.dtype())) return static_cast<T>(decode(tensor.dtype(), tensor.bits(index)));
  if (tensor.dtype() == DType::u64) return static_cast<T>(tensor.bits(index));
  return static_cast<T>(tensor.integer(index));
}

// The dot product of `count` elements; integers are unsigned 64-bit here and wrap.
template <typename T>
T dot(const Tensor& a, int64_t a_start, int64_t a_stride, const Tensor& b, int64_t b_start, int64_t b_stride,
      int64_t count) {
  T sum{};
  for (int64_t i = 0; i < count; ++i) {
    sum += element<T>(a, a_start + i * a_stride) * element<T>(b, b_start + i * b_stride);
  }
  return sum;
}

Tensor multiply(const Matmul& matmul, const Type& result, std::span<const Tensor* const> operands) {
  const Tensor& a = *operands[0];
  const Tensor& b = *operands[1];
  const Shape& shape = result.shape;
  const int rank = shape.rank();
  // Strides over the result's axes: 0 along n for a, along m for b, and along broadcast batch axes.
  const auto strides_of = [&](const Tensor& tensor, bool transposed, bool left) {
    const Shape& own = tensor.shape();
    const Strides full = own.row_major_strides();
    const int r = own.rank();
    const int row = r - (transposed ? 1 : 2);
    const int column = r - (transposed ? 2 : 1);
    Strides strides;
    for (int i = 0; i < rank - 2; ++i) {
      const int axis = i - (rank - r);
      strides.append(axis < 0 || own[axis] == 1 ? 0 : full[axis]);
    }
    strides.append(left ? full[row] : 0);
    strides.append(left ? 0 : full[column]);
    const int inner = left ? column : row;
    return std::pair(strides, std::pair(full[inner], own[inner]));
  };
  const auto [a_strides, a_inner] = strides_of(a, matmul.transpose_a, true);
  const auto [b_strides, b_inner] = strides_of(b, matmul.transpose_b, false);
  Expr epilogue;
  if (matmul.epilogue) {
    epilogue = *matmul.epilogue;
  } else {
    ExprBuilder builder(1);
    epilogue = std::move(builder).finish(builder.convert(builder.input(0, matmul.accumulate), result.dtype));
  }
  Tensor out(result.dtype, shape);
  std::vector<Strides> strides = {a_strides, b_strides};
  for (size_t i = 2; i < operands.size(); ++i) strides.push_back(broadcast_strides(operands[i]->shape(), shape));
  Walk walk(shape, std::move(strides), std::vector<int64_t>(operands.size(), 0));
  std::vector<uint64_t> inputs(operands.size() - 1);
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i, walk.next()) {
    const auto sum = [&](auto zero) {
      return dot<decltype(zero)>(a, walk.offset(0), a_inner.first, b, walk.offset(1), b_inner.first, a_inner.second);
    };
    switch (matmul.accumulate) {
      case DType::f64:
        inputs[0] = encode(DType::f64, sum(double{}), Overflow::propagate);
        break;
      case DType::f32:
        inputs[0] = encode(DType::f32, double{sum(float{})}, Overflow::propagate);
        break;
      default: {
        const uint64_t wrapped = sum(uint64_t{});
        inputs[0] = byte_size(matmul.accumulate) == 8 ? wrapped : wrapped & 0xffffffffu;
      }
    }
    for (size_t j = 2; j < operands.size(); ++j) inputs[j - 1] = operands[j]->bits(walk.offset(j));
    out.set_bits(i, evaluate(epilogue, inputs));
  }
  return out;
}

std::vector<Shape> quantization_shapes(const Shape& x, std::optional<int> axis, size_t operands) {
  std::vector<Shape> shapes(operands, parameter_shape(x, axis));
  shapes[0] = x;
  return shapes;
}

}  // namespace

bool foldable(const Attributes& attributes) {
  return !std::holds_alternative<Input>(attributes) && !std::holds_alternative<Output>(attributes) &&
         !std::holds_alternative<Attention>(attributes) && !std::holds_alternative<Repeat>(attributes);
}

Result<std::vector<Tensor>> fold(const Graph& graph, const Op& op, std::span<const Tensor* const> operands) {
  if (!foldable(op.attributes))
    return fail(ErrorKind::internal, fmt::format("{} cannot be folded", kind_name(op.attributes)));
  const Type& result = graph.type(graph.result(op));
  Tensor out;
  if (const auto* constant = std::get_if<Constant>(&op.attributes)) {
    out = *constant->tensor;
  } else if (const auto* pointwise = std::get_if<Pointwise>(&op.attributes)) {
    out = map(pointwise->expr, result, operands);
  } else if (const auto* matmul = std::get_if<Matmul>(&op.attributes)) {
    out = multiply(*matmul, result, operands);
  } else if (std::holds_alternative<Reshape>(op.attributes)) {
    out = Tensor(result.dtype, result.shape);
    std::ranges::copy(operands[0]->bytes(), out.bytes().begin());
  } else if (const auto* transpose = std::get_if<Transpose>(&op.attributes)) {
    const Strides own = operands[0]->shape().row_major_strides();
    Strides strides;
    for (const int64_t axis : transpose->permutation) strides.append(own[static_cast<int>(axis)]);
    out = move(*operands[0], result.shape, strides, 0);
  } else if (const auto* slice = std::get_if<Slice>(&op.attributes)) {
    const Strides own = operands[0]->shape().row_major_strides();
    Strides strides;
    int64_t start = 0;
    // Nothing is read from an empty result, whose steps may be anything.
    for (int i = 0; i < own.rank(); ++i) {
      strides.append(result.shape[i] <= 1 ? 0 : own[i] * slice->step[i]);
      start += result.shape.elements() == 0 ? 0 : own[i] * slice->start[i];
    }
    out = move(*operands[0], result.shape, strides, start);
  } else if (std::holds_alternative<Expand>(op.attributes)) {
    out = move(*operands[0], result.shape, broadcast_strides(operands[0]->shape(), result.shape), 0);
  } else if (const auto* quantize = std::get_if<Quantize>(&op.attributes)) {
    const Expr expr = quantize_expr(operands[0]->dtype(), operands[1]->dtype(), operands.size() > 2, result.dtype,
                                    quantize->overflow);
    out = map(expr, result, operands, quantization_shapes(result.shape, quantize->axis, operands.size()));
  } else if (const auto* dequantize = std::get_if<Dequantize>(&op.attributes)) {
    const Expr expr = dequantize_expr(operands[0]->dtype(), operands[1]->dtype(), operands.size() > 2, result.dtype);
    out = map(expr, result, operands, quantization_shapes(result.shape, dequantize->axis, operands.size()));
  } else if (const auto* cast = std::get_if<Cast>(&op.attributes)) {
    ExprBuilder builder(1);
    const Expr expr = std::move(builder).finish(
        builder.convert(builder.input(0, operands[0]->dtype()), result.dtype, cast->overflow));
    out = map(expr, result, operands);
  } else if (const auto* concat = std::get_if<Concat>(&op.attributes)) {
    out = fold_concat(*concat, operands, result);
  } else if (const auto* pad = std::get_if<Pad>(&op.attributes)) {
    out = fold_pad(*pad, operands, result);
  } else if (const auto* gather = std::get_if<Gather>(&op.attributes)) {
    out = fold_gather(*gather, operands, result);
  } else if (const auto* reduce = std::get_if<Reduce>(&op.attributes)) {
    out = fold_reduce(*reduce, operands, result);
  } else if (const auto* cumulative = std::get_if<Cumulative>(&op.attributes)) {
    out = fold_cumulative(*cumulative, operands, result);
  } else if (const auto* rowwise = std::get_if<Rowwise>(&op.attributes)) {
    out = fold_rowwise(*rowwise, operands, result);
  }
  std::vector<Tensor> results;
  results.push_back(std::move(out));
  return results;
}

}  // namespace low
