// pointwise: an expression over broadcast inputs.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/graph/expr.h"
#include "compiler/graph/ops/fold.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/rules.h"

namespace low {

// (inputs…) -> (value). Inputs broadcast (NumPy rules) to the result's shape; input i is the expression's input i.
struct Pointwise {
  static constexpr std::string_view name = "pointwise";
  static constexpr Parts parts = Parts::elements;
  Expr expr;
  bool operator==(const Pointwise&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("expr", self.expr);
  }
};
std::string problem(const Pointwise& op, const OpTypes& types);
Tensor fold(const Pointwise& op, FoldOperands operands, const Type& result);

}  // namespace low
