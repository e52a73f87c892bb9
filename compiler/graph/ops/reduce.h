// reduce: elements along axes combined.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/rules.h"

namespace low {

inline constexpr std::array<std::string_view, 6> reduce_kinds = {"sum", "product",   "max",
                                                                 "min", "index_max", "index_min"};

// (value, extras…) -> (value): reduces `axes` (none: only map and epilogue), which stay with extent 1. The map is
// applied to each element before: an expression of one input that gives `accumulate` (without one, the element is
// converted to it). Elements are then combined in `accumulate`, which is f32, f64 or an integer type (that wraps); f32
// sums may be taken in any order. Then the epilogue maps (accumulator, extras…) to the result's element as in Matmul;
// without one, the accumulator is converted. An empty reduction gives the identity: 0 for sum, 1 for product, -infinity
// or the lowest integer for max, the opposite for min. max and min propagate NaN. `index_max` / `index_min` compare in
// `accumulate` and give the accumulator's place, as i64, of the extreme element along one axis, which is not empty
// (unless the result is): the first one among equals, or the last with `last`; NaN counts as extreme, and NaNs as
// equal.
struct Reduce {
  static constexpr std::string_view name = "reduce";
  static constexpr Parts parts = Parts::rows;
  enum class Kind : uint8_t { sum, product, max, min, index_max, index_min } kind = Kind::sum;
  Shape axes;  // ascending
  DType accumulate = DType::f32;
  bool last = false;
  std::optional<Expr> map = std::nullopt;
  std::optional<Expr> epilogue = std::nullopt;
  Shape joined_axes() const { return axes; }
  bool operator==(const Reduce&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, reduce_kinds);
    visit("axes", self.axes);
    visit("accumulate", self.accumulate);
    visit("last", self.last);
    visit("map", self.map);
    visit("epilogue", self.epilogue);
  }
};
std::string problem(const Reduce& op, const OpTypes& types);
Tensor fold(const Reduce& op, FoldOperands operands, const Type& result);

// `axes` are in range.
Shape reduced_shape(const Shape& shape, const Shape& axes);

}  // namespace low
