// cumulative: running sums.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/rules.h"

namespace low {

// (value) -> (value), of one type: running sum along `axis`; `exclusive` leaves the element itself out; `reverse` runs
// from the end. Floats (not FP8) are summed in f32 (f64 for f64) and rounded where they are written; integers wrap.
struct Cumulative {
  static constexpr std::string_view name = "cumulative";
  static constexpr Parts parts = Parts::rows;
  int axis = 0;
  bool exclusive = false, reverse = false;
  Shape joined_axes() const { return {axis}; }
  bool operator==(const Cumulative&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("axis", self.axis);
    visit("exclusive", self.exclusive);
    visit("reverse", self.reverse);
  }
};
std::string problem(const Cumulative& op, const OpTypes& types);
Tensor fold(const Cumulative& op, FoldOperands operands, const Type& result);

}  // namespace low
