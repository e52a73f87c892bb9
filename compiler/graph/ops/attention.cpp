#include "compiler/graph/ops/attention.h"

#include <cmath>
#include <fmt/format.h>

namespace low {
namespace {

std::string mask_problem(const Attention& a, const OpTypes& op) {
  if (!a.masked) return a.mask_heads == 1 ? "" : fmt::format("{} heads of no mask", a.mask_heads);
  const Type& type = op.operand(3);
  if (type.dtype != DType::boolean && !is_float(type.dtype)) return "masked by " + to_string(type);
  int64_t heads = 0;
  if (__builtin_mul_overflow(op.operand(0).shape[0], a.q_heads, &heads)) return "too many heads";
  if (a.mask_heads < 1 || heads % a.mask_heads != 0) {
    return fmt::format("a mask of {} heads for {}", a.mask_heads, heads);
  }
  const Shape full{heads / a.mask_heads, a.mask_heads, op.operand(0).shape[1], op.operand(1).shape[1]};
  bool fits = type.shape.rank() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = type.shape[i] == 1 || type.shape[i] == full[i];
  return fits ? "" : fmt::format("a mask {} for {}", to_string(type), to_string(full));
}

}  // namespace

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

std::string problem(const Attention& a, const OpTypes& op) {
  const size_t fixed = a.masked ? 4 : 3;
  if (std::string error = op.counts(fixed, a.epilogue ? UINT16_MAX : fixed, 1); !error.empty()) return error;
  for (size_t i = 0; i < 3; ++i) {
    if (!is_float(op.operand(i).dtype)) return "of " + to_string(op.operand(i));
  }
  const std::optional<Shape> shape = attention_shape(a, op.operand(0).shape, op.operand(1).shape, op.operand(2).shape);
  if (!shape) {
    return fmt::format("q {}, k {} and v {} do not fit {} and {} heads", to_string(op.operand(0)),
                       to_string(op.operand(1)), to_string(op.operand(2)), a.q_heads, a.kv_heads);
  }
  // Also refuses NaN.
  if (!std::isfinite(a.scale)) return fmt::format("scale {}", a.scale);
  if (!std::isfinite(a.softcap) || a.softcap < 0) return fmt::format("softcap {}", a.softcap);
  if (std::string error = op.expect({op.result().dtype, *shape}); !error.empty()) return error;
  if (std::string error = mask_problem(a, op); !error.empty()) return error;
  const bool chooses = a.masked && op.operand(3).dtype == DType::boolean;
  if (std::isnan(a.masked_score) || a.masked_score > max_finite(DType::f64) ||
      (!chooses && std::isfinite(a.masked_score)))
    return fmt::format("masked_score {}{}", a.masked_score, chooses ? "" : " without a mask of bool");
  if (!a.epilogue && !is_float(op.result().dtype)) return "to " + to_string(op.result());
  return op.epilogue(a.epilogue, attention_type(op.operand(0).dtype, op.operand(1).dtype, op.operand(2).dtype), fixed);
}

}  // namespace low
