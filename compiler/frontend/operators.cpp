#include <algorithm>
#include <limits>
#include <span>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

constexpr int any_number = std::numeric_limits<int>::max();

// One row for each form of an operator that we tell apart, sorted by name and opset. Columns: domain, name, first opset, inputs
// (least, most), outputs (most), attributes, handler. Changes of allowed dtypes alone do not make a row: newer opsets allow more,
// and a model that uses them means the same in every opset.
constexpr OperatorInfo operators[] = {
    {"", "Abs", 6, 1, 1, 1, "", import_unary},
    {"", "Add", 7, 2, 2, 1, "", import_binary},
    {"", "And", 7, 2, 2, 1, "", import_binary},
    {"", "Cast", 6, 1, 1, 1, "to", import_cast},
    {"", "Cast", 19, 1, 1, 1, "to saturate", import_cast},
    {"", "Cast", 24, 1, 1, 1, "to saturate round_mode", import_cast},  // round_mode is for E8M0 alone
    {"", "CastLike", 15, 2, 2, 1, "", import_cast_like},
    {"", "CastLike", 19, 2, 2, 1, "saturate", import_cast_like},
    {"", "CastLike", 24, 2, 2, 1, "saturate round_mode", import_cast_like},
    {"", "Ceil", 6, 1, 1, 1, "", import_unary},
    {"", "Clip", 6, 1, 1, 1, "min max", import_clip_attributes},
    {"", "Clip", 11, 1, 3, 1, "", import_clip},
    {"", "Constant", 1, 0, 0, 1, "value", import_constant},
    {"", "Constant", 12, 0, 0, 1, "value value_float value_floats value_int value_ints", import_constant},
    {"", "ConstantOfShape", 9, 1, 1, 1, "value", import_constant_of_shape},
    {"", "Cos", 7, 1, 1, 1, "", import_unary},
    {"", "DequantizeLinear", 10, 2, 3, 1, "", import_dequantize},
    {"", "DequantizeLinear", 13, 2, 3, 1, "axis", import_dequantize},
    {"", "DequantizeLinear", 21, 2, 3, 1, "axis block_size", import_dequantize},
    {"", "DequantizeLinear", 23, 2, 3, 1, "axis block_size output_dtype", import_dequantize},
    {"", "Div", 7, 2, 2, 1, "", import_binary},
    {"", "Dropout", 7, 1, 1, 2, "ratio", import_dropout},
    {"", "Dropout", 12, 1, 3, 2, "seed", import_dropout},
    {"", "Equal", 7, 2, 2, 1, "", import_comparison},
    {"", "Erf", 9, 1, 1, 1, "", import_unary},
    {"", "Exp", 6, 1, 1, 1, "", import_unary},
    {"", "Expand", 8, 2, 2, 1, "", import_expand},
    {"", "Flatten", 1, 1, 1, 1, "axis", import_flatten},
    {"", "Floor", 6, 1, 1, 1, "", import_unary},
    {"", "Gelu", 20, 1, 1, 1, "approximate", import_gelu},
    {"", "Gemm", 7, 3, 3, 1, "alpha beta transA transB", import_gemm},
    {"", "Gemm", 11, 2, 3, 1, "alpha beta transA transB", import_gemm},
    {"", "Greater", 7, 2, 2, 1, "", import_comparison},
    {"", "GreaterOrEqual", 12, 2, 2, 1, "", import_comparison},
    {"", "Identity", 1, 1, 1, 1, "", import_identity},
    {"", "If", 1, 1, 1, any_number, "then_branch else_branch", import_if},
    {"", "IsNaN", 9, 1, 1, 1, "", import_unary},
    {"", "Less", 7, 2, 2, 1, "", import_comparison},
    {"", "LessOrEqual", 12, 2, 2, 1, "", import_comparison},
    {"", "Log", 6, 1, 1, 1, "", import_unary},
    {"", "Loop", 1, 0, any_number, any_number, "body", import_loop},
    {"", "MatMul", 1, 2, 2, 1, "", import_matmul},
    {"", "Max", 6, 1, any_number, 1, "", import_min_max},
    {"", "Min", 6, 1, any_number, 1, "", import_min_max},
    {"", "Mod", 10, 2, 2, 1, "fmod", import_binary},
    {"", "Mul", 7, 2, 2, 1, "", import_binary},
    {"", "Neg", 6, 1, 1, 1, "", import_unary},
    {"", "Not", 1, 1, 1, 1, "", import_unary},
    {"", "Or", 7, 2, 2, 1, "", import_binary},
    {"", "Pow", 7, 2, 2, 1, "", import_pow},
    {"", "QuantizeLinear", 10, 2, 3, 1, "", import_quantize},
    {"", "QuantizeLinear", 13, 2, 3, 1, "axis", import_quantize},
    {"", "QuantizeLinear", 19, 2, 3, 1, "axis saturate", import_quantize},
    {"", "QuantizeLinear", 21, 2, 3, 1, "axis saturate block_size output_dtype", import_quantize},
    {"", "QuantizeLinear", 23, 2, 3, 1, "axis saturate block_size output_dtype precision", import_quantize},
    {"", "Reciprocal", 6, 1, 1, 1, "", import_unary},
    {"", "Relu", 6, 1, 1, 1, "", import_relu},
    {"", "Reshape", 5, 2, 2, 1, "", import_reshape},
    {"", "Reshape", 14, 2, 2, 1, "allowzero", import_reshape},
    {"", "Round", 11, 1, 1, 1, "", import_unary},
    {"", "Scan", 8, 0, any_number, any_number, "body num_scan_inputs directions", import_scan_8},
    {"", "Scan", 9, 1, any_number, any_number,
     "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions", import_scan},
    {"", "Shape", 1, 1, 1, 1, "", import_shape},
    {"", "Shape", 15, 1, 1, 1, "start end", import_shape},
    {"", "Sigmoid", 6, 1, 1, 1, "", import_unary},
    {"", "Sign", 9, 1, 1, 1, "", import_unary},
    {"", "Sin", 7, 1, 1, 1, "", import_unary},
    {"", "Size", 1, 1, 1, 1, "", import_size},
    {"", "Sqrt", 6, 1, 1, 1, "", import_unary},
    {"", "Squeeze", 1, 1, 1, 1, "axes", import_squeeze},
    {"", "Squeeze", 13, 1, 2, 1, "", import_squeeze},
    {"", "Sub", 7, 2, 2, 1, "", import_binary},
    {"", "Tanh", 6, 1, 1, 1, "", import_unary},
    {"", "Transpose", 1, 1, 1, 1, "perm", import_transpose},
    {"", "Unsqueeze", 1, 1, 1, 1, "axes", import_unsqueeze},
    {"", "Unsqueeze", 13, 2, 2, 1, "", import_unsqueeze},
    {"", "Where", 9, 3, 3, 1, "", import_where},
    {"", "Xor", 7, 2, 2, 1, "", import_binary},
};

constexpr bool is_before(const OperatorInfo& a, const OperatorInfo& b) {
  if (a.domain != b.domain) return a.domain < b.domain;
  if (a.name != b.name) return a.name < b.name;
  return a.since < b.since;
}
static_assert(std::ranges::is_sorted(operators, is_before));

}  // namespace

const OperatorInfo* find_operator(std::string_view domain, std::string_view name, int64_t opset) {
  const OperatorInfo* best = nullptr;
  for (const OperatorInfo& info : operators) {
    if (info.domain == domain && info.name == name && info.since <= opset) best = &info;
  }
  return best;
}

}  // namespace low
