#include "compiler/graph/ops/matmul.h"

#include <fmt/format.h>
#include <utility>

namespace low {
namespace {

std::string check_accumulator(DType a, DType b, DType accumulate) {
  if (a == DType::boolean || b == DType::boolean) return "operands may not be bool";
  if (is_float(a) || is_float(b)) {
    const DType expected = a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
    if (accumulate == expected) return "";
  } else if (accumulate == DType::i32 || accumulate == DType::i64 || accumulate == DType::u32 ||
             accumulate == DType::u64) {
    return "";
  }
  return fmt::format("{} x {} cannot be accumulated in {}", name(a), name(b), name(accumulate));
}

template <typename T>
T element(const Tensor& tensor, int64_t index) {
  if (is_float(tensor.dtype())) return static_cast<T>(decode(tensor.dtype(), tensor.bits(index)));
  if (tensor.dtype() == DType::u64) return static_cast<T>(tensor.bits(index));
  return static_cast<T>(tensor.integer(index));
}

template <typename T>
T dot(const Tensor& a, int64_t a_start, int64_t a_stride, const Tensor& b, int64_t b_start, int64_t b_stride,
      int64_t count) {
  T sum{};
  for (int64_t i = 0; i < count; ++i) {
    sum += element<T>(a, a_start + i * a_stride) * element<T>(b, b_start + i * b_stride);
  }
  return sum;
}

}  // namespace

std::string problem(const Matmul& a, const OpTypes& op) {
  if (std::string error = op.counts(2, a.epilogue ? UINT16_MAX : 2, 1); !error.empty()) return error;
  const Shape& left = op.operand(0).shape;
  const Shape& right = op.operand(1).shape;
  if (left.rank() < 2 || right.rank() < 2) {
    return fmt::format("operands {} and {} must have a rank of at least 2", to_string(op.operand(0)),
                       to_string(op.operand(1)));
  }
  const int lr = left.rank();
  const int rr = right.rank();
  const int64_t m = left[lr - (a.transpose_a ? 1 : 2)];
  const int64_t k = left[lr - (a.transpose_a ? 2 : 1)];
  const int64_t other_k = right[rr - (a.transpose_b ? 1 : 2)];
  const int64_t n = right[rr - (a.transpose_b ? 2 : 1)];
  const std::optional<Shape> batch = broadcast(Shape(left.extents().first(static_cast<size_t>(lr - 2))),
                                               Shape(right.extents().first(static_cast<size_t>(rr - 2))));
  if (k != other_k || !batch) {
    return fmt::format("operands {} and {} do not multiply", to_string(op.operand(0)), to_string(op.operand(1)));
  }
  if (std::string error = check_accumulator(op.operand(0).dtype, op.operand(1).dtype, a.accumulate); !error.empty()) {
    return error;
  }
  Shape shape = *batch;
  shape.append(m);
  shape.append(n);
  if (std::string error = op.expect({op.result().dtype, shape}); !error.empty()) return error;
  return op.epilogue(a.epilogue, a.accumulate, 2);
}

Tensor fold(const Matmul& matmul, FoldOperands operands, const Type& result) {
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
  for (size_t i = 2; i < operands.size(); ++i)
    strides.push_back(folding::broadcast_strides(operands[i]->shape(), shape));
  folding::Walk walk(shape, std::move(strides), std::vector<int64_t>(operands.size(), 0));
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

}  // namespace low
