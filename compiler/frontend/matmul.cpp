#include <fmt/format.h>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

// What products of this dtype are accumulated in; nothing for dtypes that ONNX does not multiply.
std::optional<DType> accumulator(DType type) {
  switch (type) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
      return DType::f32;
    case DType::f64:
      return DType::f64;
    case DType::i32:
    case DType::i64:
    case DType::u32:
    case DType::u64:
      return type;
    default:
      return std::nullopt;
  }
}

Result<DType> check_operands(const Node& node) {
  const DType type = node.input(0).dtype();
  if (node.input(1).dtype() != type) {
    return node.invalid(fmt::format("inputs are {} and {}: their data types differ", to_string(node.input(0).type),
                                    to_string(node.input(1).type)));
  }
  const auto accumulate = accumulator(type);
  if (!accumulate) return node.invalid(fmt::format("data type {} cannot be multiplied", name(type)));
  return *accumulate;
}

// As numpy.matmul: a 1-D operand gets a dimension of extent 1 (before a, after b) and the result loses it.
Handled import_matmul(Node& node) {
  LOW_TRY(const DType accumulate, check_operands(node));
  ModelValue a = node.input(0);
  ModelValue b = node.input(1);
  if (a.rank() == 0 || b.rank() == 0) {
    return node.invalid(
        fmt::format("inputs are {} and {}: a scalar is no matrix", to_string(a.type), to_string(b.type)));
  }
  const bool a_is_vector = a.rank() == 1;
  const bool b_is_vector = b.rank() == 1;
  if (a_is_vector) {
    LOW_TRY(a, node.emit().reshape(a, Shape{1, a.shape()[0]}));
  }
  if (b_is_vector) {
    LOW_TRY(b, node.emit().reshape(b, Shape{b.shape()[0], 1}));
  }
  LOW_TRY(const ModelValue product, node.emit().matmul(Matmul{.accumulate = accumulate}, a, b, node.input(0).dtype()));
  Shape shape;
  for (int axis = 0; axis < product.rank(); ++axis) {
    const bool is_added = (a_is_vector && axis == product.rank() - 2) || (b_is_vector && axis == product.rank() - 1);
    if (!is_added) shape.append(product.shape()[axis]);
  }
  return one(node.emit().reshape(product, shape));
}

// alpha * A B + beta * C, computed in the accumulator's format and rounded once.
Handled import_gemm(Node& node) {
  LOW_TRY(const DType accumulate, check_operands(node));
  LOW_TRY(const float alpha, node.number("alpha", 1));
  LOW_TRY(const float beta, node.number("beta", 1));
  LOW_TRY(const int64_t transpose_a, node.integer("transA", 0));
  LOW_TRY(const int64_t transpose_b, node.integer("transB", 0));
  const ModelValue& a = node.input(0);
  const ModelValue& b = node.input(1);
  const DType type = a.dtype();
  if (a.rank() != 2 || b.rank() != 2) {
    return node.invalid(
        fmt::format("inputs are {} and {}, matrices are expected", to_string(a.type), to_string(b.type)));
  }
  const Matmul attributes{.accumulate = accumulate, .transpose_a = transpose_a != 0, .transpose_b = transpose_b != 0};
  const bool has_c = node.has(2) && beta != 0;
  if (node.has(2) && node.input(2).dtype() != type) {
    return node.invalid(
        fmt::format("input 2 is {}, data type {} is expected", to_string(node.input(2).type), name(type)));
  }
  if (is_integer(type) && (alpha != 1 || (has_c && beta != 1))) {
    return node.unsupported("alpha and beta other than 1 are not supported for integers");
  }
  if (!has_c && alpha == 1) return one(node.emit().matmul(attributes, a, b, type));
  LOW_TRY(const ModelValue product, node.emit().matmul(attributes, a, b, accumulate));
  std::vector<ModelValue> operands{product};
  ExprBuilder expr(has_c ? 2 : 1);
  uint16_t result = expr.input(0, accumulate);
  if (alpha != 1) result = expr.binary(ExprOp::mul, expr.constant(accumulate, alpha), result);
  if (has_c) {
    const ModelValue& c = node.input(2);
    if (broadcast(product.shape(), c.shape()) != product.shape()) {
      return node.invalid(
          fmt::format("input 2 is {}, which does not broadcast to {}", to_string(c.type), to_string(product.shape())));
    }
    uint16_t addend = expr.convert(expr.input(1, type), accumulate);
    if (beta != 1) addend = expr.binary(ExprOp::mul, expr.constant(accumulate, beta), addend);
    result = expr.binary(ExprOp::add, result, addend);
    operands.push_back(c);
  }
  const uint16_t rounded = expr.convert(result, type);
  return one(node.emit().pointwise(std::move(expr).finish(rounded), operands));
}

}  // namespace

std::span<const OperatorInfo> matmul_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "Gemm", 7, 3, 3, 1, "alpha beta transA transB", import_gemm},
      {"", "Gemm", 11, 2, 3, 1, "alpha beta transA transB", import_gemm},
      {"", "MatMul", 1, 2, 2, 1, "", import_matmul},
  };
  return rows;
}

}  // namespace low
