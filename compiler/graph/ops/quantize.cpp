#include "compiler/graph/ops/quantize.h"

#include <fmt/format.h>
#include <utility>

#include "compiler/graph/quantize_expr.h"

namespace low {
namespace {

// Scale and zero point (of dtype `storage`) of a quantization of `shape`.
std::string parameters_problem(const OpTypes& op, const Shape& shape, std::optional<int> axis, DType storage) {
  if (!is_float(op.operand(1).dtype) || is_fp8(op.operand(1).dtype)) {
    return fmt::format("a scale of dtype {}", name(op.operand(1).dtype));
  }
  Shape expected;
  if (axis) {
    if (*axis < 0 || *axis >= shape.rank()) return fmt::format("axis {} of {}", *axis, to_string(shape));
    expected.append(shape[*axis]);
  }
  for (size_t i = 1; i < op.operands.size(); ++i) {
    if (!(op.operand(i).shape == expected)) {
      return fmt::format("operand {} has the shape {}; {} was expected", i, to_string(op.operand(i).shape),
                         to_string(expected));
    }
  }
  if (op.operands.size() > 2 && op.operand(2).dtype != storage) {
    return fmt::format("a zero point of dtype {}; {} was expected", name(op.operand(2).dtype), name(storage));
  }
  return "";
}

bool is_storage(DType type) {
  return is_fp8(type) || type == DType::i8 || type == DType::u8 || type == DType::i16 || type == DType::u16;
}

std::vector<Shape> quantization_shapes(const Shape& x, std::optional<int> axis, size_t operands) {
  std::vector<Shape> shapes(operands, parameter_shape(x, axis));
  shapes[0] = x;
  return shapes;
}

}  // namespace

std::string problem(const Quantize& a, const OpTypes& op) {
  if (std::string error = op.counts(2, 3, 1); !error.empty()) return error;
  if (std::string error = op.expect({op.result().dtype, op.operand(0).shape}); !error.empty()) return error;
  if (!is_storage(op.result().dtype)) return fmt::format("to {}", name(op.result().dtype));
  if (op.operand(0).dtype == DType::boolean) return "of bool";
  return parameters_problem(op, op.operand(0).shape, a.axis, op.result().dtype);
}

Tensor fold(const Quantize& op, FoldOperands operands, const Type& result) {
  const Expr expr =
      quantize_expr(operands[0]->dtype(), operands[1]->dtype(), operands.size() > 2, result.dtype, op.overflow);
  return folding::fold_expression(expr, result, operands, quantization_shapes(result.shape, op.axis, operands.size()));
}

std::string problem(const Dequantize& a, const OpTypes& op) {
  if (std::string error = op.counts(2, 3, 1); !error.empty()) return error;
  if (std::string error = op.expect({op.result().dtype, op.operand(0).shape}); !error.empty()) return error;
  if (!is_storage(op.operand(0).dtype) && op.operand(0).dtype != DType::i32) {
    return fmt::format("of {}", name(op.operand(0).dtype));
  }
  if (!is_float(op.result().dtype)) return fmt::format("to {}", name(op.result().dtype));
  return parameters_problem(op, op.operand(0).shape, a.axis, op.operand(0).dtype);
}

Tensor fold(const Dequantize& op, FoldOperands operands, const Type& result) {
  const Expr expr = dequantize_expr(operands[0]->dtype(), operands[1]->dtype(), operands.size() > 2, result.dtype);
  return folding::fold_expression(expr, result, operands, quantization_shapes(result.shape, op.axis, operands.size()));
}

std::string problem(const Cast&, const OpTypes& op) {
  if (std::string error = op.counts(1, 1, 1); !error.empty()) return error;
  return op.expect({op.result().dtype, op.operand(0).shape});
}

Tensor fold(const Cast& op, FoldOperands operands, const Type& result) {
  ExprBuilder builder(1);
  const Expr expr =
      std::move(builder).finish(builder.convert(builder.input(0, operands[0]->dtype()), result.dtype, op.overflow));
  return folding::fold_expression(expr, result, operands);
}

}  // namespace low
