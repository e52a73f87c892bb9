// Movements: elements change places, nothing is computed.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/rules.h"

namespace low {

inline constexpr std::array<std::string_view, 4> pad_modes = {"constant", "edge", "reflect", "wrap"};

// (value) -> (value): moves elements without computing. All static.
struct Reshape {
  static constexpr std::string_view name = "reshape";
  bool operator==(const Reshape&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
};
std::string problem(const Reshape& op, const OpTypes& types);
Tensor fold(const Reshape& op, FoldOperands operands, const Type& result);

struct Transpose {
  static constexpr std::string_view name = "transpose";
  Shape permutation;  // result axis i is operand axis permutation[i]
  bool operator==(const Transpose&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("permutation", self.permutation);
  }
};
std::string problem(const Transpose& op, const OpTypes& types);
Tensor fold(const Transpose& op, FoldOperands operands, const Type& result);

// Result element i of an axis is operand element start + i * step, always in range. step may be negative, not 0.
struct Slice {
  static constexpr std::string_view name = "slice";
  Shape start;
  Shape step;
  bool operator==(const Slice&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("start", self.start);
    visit("step", self.step);
  }
};
std::string problem(const Slice& op, const OpTypes& types);
Tensor fold(const Slice& op, FoldOperands operands, const Type& result);

struct Expand {  // broadcasts to the result's shape
  static constexpr std::string_view name = "expand";
  bool operator==(const Expand&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
};
std::string problem(const Expand& op, const OpTypes& types);
Tensor fold(const Expand& op, FoldOperands operands, const Type& result);

// (values…) -> (value): one after another along `axis`. At least one operand; all agree on the other axes.
struct Concat {
  static constexpr std::string_view name = "concat";
  int axis = 0;
  bool operator==(const Concat&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("axis", self.axis);
  }
};
std::string problem(const Concat& op, const OpTypes& types);
Tensor fold(const Concat& op, FoldOperands operands, const Type& result);

// (value[, fill]) -> (value): `before` new elements in front of each axis, as many behind as the result's shape says.
// `constant`: the scalar operand `fill` (of the value's dtype); `edge`: the nearest element; `reflect`: mirrored
// without repeating the edge; `wrap`: periodic. Nothing is negative (cutting is a slice); reflect and wrap read an
// index modulo their period, which is 2 * extent - 2 (1 for an extent of 1) and the extent. Only `constant` has a fill,
// and only it may pad an axis of extent 0.
struct Pad {
  static constexpr std::string_view name = "pad";
  enum class Mode : uint8_t { constant, edge, reflect, wrap } mode = Mode::constant;
  Shape before;
  bool operator==(const Pad&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("mode", self.mode, pad_modes);
    visit("before", self.before);
  }
};
std::string problem(const Pad& op, const OpTypes& types);
Tensor fold(const Pad& op, FoldOperands operands, const Type& result);

// Nothing when there is no operand, the axis does not exist, or another axis disagrees.
std::optional<Shape> concat_shape(std::span<const Shape> operands, int axis);

}  // namespace low
