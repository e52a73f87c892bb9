// scatter: rows of a matrix updated by index.
#pragma once

#include <array>
#include <string_view>

#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/rules.h"

namespace low {

inline constexpr std::array<std::string_view, 5> scatter_kinds = {"replace", "add", "mul", "max", "min"};

// (data [n, w], indices [m], updates [m, w]) -> [n, w] of data's type: data, in which update after update, in their
// order, is put in the place of row indices[i], or combined with it element by element. Indices are i32 or i64; one
// that is not in [0, n) is skipped. Each combination is rounded to data's type (narrow floats are combined in f32);
// integers wrap; `max` and `min` give NaN where one of both is. Booleans are replaced only.
struct Scatter {
  static constexpr std::string_view name = "scatter";
  static constexpr Parts parts = Parts::updated;
  enum class Kind : uint8_t { replace, add, mul, max, min } kind = Kind::replace;
  bool operator==(const Scatter&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, scatter_kinds);
  }
};
std::string problem(const Scatter& op, const OpTypes& types);
Tensor fold(const Scatter& op, FoldOperands operands, const Type& result);

}  // namespace low
