// quantize, dequantize and cast: to and from narrow types.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/rules.h"

namespace low {

// Of Overflow, in its order.
inline constexpr std::array<std::string_view, 2> overflow_names = {"saturate", "propagate"};

// (x, scale[, zero_point]) -> (value): saturate(round(x / scale) + zero_point), as ONNX. `axis` is the axis that a 1-D
// scale runs along; nothing for a scalar scale. The zero point has the result's dtype (quantize) or the operand's
// (dequantize).
struct Quantize {
  static constexpr std::string_view name = "quantize";
  std::optional<int> axis;
  Overflow overflow = Overflow::saturate;
  bool operator==(const Quantize&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("axis", self.axis);
    visit("overflow", self.overflow, overflow_names);
  }
};
std::string problem(const Quantize& op, const OpTypes& types);
Tensor fold(const Quantize& op, FoldOperands operands, const Type& result);

// (x, scale[, zero_point]) -> (value): (x - zero_point) * scale, subtracted in i32 for integers.
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  std::optional<int> axis;
  bool operator==(const Dequantize&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("axis", self.axis);
  }
};
std::string problem(const Dequantize& op, const OpTypes& types);
Tensor fold(const Dequantize& op, FoldOperands operands, const Type& result);

// (value) -> (value), to the result's dtype; as `convert` of an expression.
struct Cast {
  static constexpr std::string_view name = "cast";
  Overflow overflow = Overflow::propagate;
  bool operator==(const Cast&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("overflow", self.overflow, overflow_names);
  }
};
std::string problem(const Cast& op, const OpTypes& types);
Tensor fold(const Cast& op, FoldOperands operands, const Type& result);

}  // namespace low
