#include <fmt/format.h>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

// A constant zero point of zeros adds nothing: without it, later passes see a plain scale.
bool is_zero(const ModelValue& value) {
  if (!value.constant) return false;
  const uint64_t sign = is_float(value.dtype()) ? uint64_t{1} << (8 * byte_size(value.dtype()) - 1) : 0;
  for (int64_t i = 0; i < value.constant->elements(); ++i) {
    const uint64_t bits = value.constant->bits(i);
    // In the FNUZ formats the sign bit alone is NaN.
    const bool fnuz = value.dtype() == DType::f8e4m3fnuz || value.dtype() == DType::f8e5m2fnuz;
    if (bits != 0 && (fnuz || bits != sign)) return false;
  }
  return true;
}

struct Granularity {
  std::optional<int> axis;
  ModelValue scale;
  std::optional<ModelValue> zero_point;
};

// Per tensor (a scalar or one element) or per axis (1-D); blocks are refused.
Result<Granularity> granularity(Node& node) {
  const ModelValue& x = node.input(0);
  const ModelValue& scale = node.input(1);
  LOW_TRY(const int64_t block_size, node.integer("block_size", 0));
  LOW_TRY(const int64_t axis, node.integer("axis", 1));
  if (block_size != 0 || scale.rank() > 1) return node.unsupported("blocked quantization is not supported");
  if (!is_float(scale.dtype()) || is_fp8(scale.dtype()) || scale.dtype() == DType::f64) {
    return node.invalid(fmt::format("the scale is {}, f32, f16 or bf16 is expected", to_string(scale.type)));
  }
  // Scalars and single elements are the same thing to exporters.
  const auto is_single = [](const ModelValue& value) { return value.rank() <= 1 && value.shape().elements() == 1; };
  if (node.has(2) && node.input(2).shape() != scale.shape() && !(is_single(scale) && is_single(node.input(2)))) {
    return node.invalid(fmt::format("scale and zero point are {} and {}: their shapes differ", to_string(scale.type),
                                    to_string(node.input(2).type)));
  }
  Granularity result;
  result.scale = scale;
  if (node.has(2) && !is_zero(node.input(2))) result.zero_point = node.input(2);
  if (!is_single(scale)) {
    LOW_TRY(result.axis, normalize_axis(node, axis, x.rank()));
    if (scale.shape()[0] != x.shape()[*result.axis]) {
      return node.invalid(fmt::format("the scale is {}, axis {} of {} needs {} elements", to_string(scale.type),
                                      *result.axis, to_string(x.type), x.shape()[*result.axis]));
    }
    return result;
  }
  LOW_TRY(result.scale, node.emit().reshape(result.scale, Shape{}));
  if (result.zero_point) {
    LOW_TRY(result.zero_point, node.emit().reshape(*result.zero_point, Shape{}));
  }
  return result;
}

std::vector<ModelValue> operands_of(const ModelValue& x, const Granularity& given) {
  std::vector<ModelValue> operands{x, given.scale};
  if (given.zero_point) operands.push_back(*given.zero_point);
  return operands;
}

bool is_quantized_type(DType type) {
  return is_fp8(type) || type == DType::i8 || type == DType::u8 || type == DType::i16 || type == DType::u16;
}

// The result's dtype is the zero point's, or `output_dtype`, or u8. `precision` may ask for a division
// in f16 or bf16; ours is in f32 always, so that its only rounding is the quantization's.
Handled import_quantize(Node& node) {
  const ModelValue& x = node.input(0);
  if (!(is_float(x.dtype()) && !is_fp8(x.dtype()) && x.dtype() != DType::f64) && x.dtype() != DType::i32) {
    return node.invalid(fmt::format("input 0 is {}, f32, f16, bf16 or i32 is expected", to_string(x.type)));
  }
  LOW_TRY(const Granularity given, granularity(node));
  LOW_TRY(const auto output_dtype, node.dtype("output_dtype"));
  LOW_TRY(const auto precision, node.dtype("precision"));
  LOW_TRY(const int64_t saturate, node.integer("saturate", 1));
  const DType to = node.has(2) ? node.input(2).dtype() : output_dtype.value_or(DType::u8);
  if (output_dtype && *output_dtype != to) {
    return node.invalid(fmt::format("output_dtype is {}, the zero point is {}", name(*output_dtype), name(to)));
  }
  if (!is_quantized_type(to)) return node.unsupported(fmt::format("quantization to {} is not supported", name(to)));
  if (precision && *precision != DType::f32 && *precision != DType::f16 && *precision != DType::bf16) {
    return node.unsupported(fmt::format("precision {} is not supported", name(*precision)));
  }
  const Overflow overflow = saturate != 0 || !is_fp8(to) ? Overflow::saturate : Overflow::propagate;
  return one(node.emit().quantize(Quantize{given.axis, overflow}, operands_of(x, given), to));
}

// The result's dtype is the scale's, or `output_dtype`.
Handled import_dequantize(Node& node) {
  const ModelValue& x = node.input(0);
  if (!is_quantized_type(x.dtype()) && x.dtype() != DType::i32) {
    return node.invalid(
        fmt::format("input 0 is {}, FP8 or an integer of 8, 16 or 32 bits is expected", to_string(x.type)));
  }
  if (node.has(2) && node.input(2).dtype() != x.dtype()) {
    return node.invalid(fmt::format("input 0 and zero point are {} and {}: their data types differ", to_string(x.type),
                                    to_string(node.input(2).type)));
  }
  LOW_TRY(const Granularity given, granularity(node));
  LOW_TRY(const auto output_dtype, node.dtype("output_dtype"));
  const DType to = output_dtype.value_or(given.scale.dtype());
  if (to != DType::f32 && to != DType::f16 && to != DType::bf16) {
    return node.invalid(fmt::format("output_dtype is {}, f32, f16 or bf16 is expected", name(to)));
  }
  return one(node.emit().dequantize(Dequantize{given.axis}, operands_of(x, given), to));
}

}  // namespace

std::span<const OperatorInfo> quantize_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "DequantizeLinear", 10, 2, 3, 1, "", import_dequantize},
      {"", "DequantizeLinear", 13, 2, 3, 1, "axis", import_dequantize},
      {"", "DequantizeLinear", 21, 2, 3, 1, "axis block_size", import_dequantize},
      {"", "DequantizeLinear", 23, 2, 3, 1, "axis block_size output_dtype", import_dequantize},
      {"", "QuantizeLinear", 10, 2, 3, 1, "", import_quantize},
      {"", "QuantizeLinear", 13, 2, 3, 1, "axis", import_quantize},
      {"", "QuantizeLinear", 19, 2, 3, 1, "axis saturate", import_quantize},
      {"", "QuantizeLinear", 21, 2, 3, 1, "axis saturate block_size output_dtype", import_quantize},
      {"", "QuantizeLinear", 23, 2, 3, 1, "axis saturate block_size output_dtype precision", import_quantize},
  };
  return rows;
}

}  // namespace low
