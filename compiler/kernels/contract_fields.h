// The fields of contracts, by family: the one list that text, parser and hash go by.
#pragma once

#include <array>
#include <string_view>

#include "compiler/graph/kind_names.h"
#include "compiler/kernels/contract.h"

namespace low {

// In the order of Family.
inline constexpr std::array<std::string_view, 7> family_names = {"gemm",       "pointwise", "reduce",   "rowwise",
                                                                 "cumulative", "gather",    "attention"};

// Calls visit(name, field) for each field that contracts of the family have, in the order of their text; a contract's other fields
// have their default values. `kind` comes with the names of its values: visit(name, field, names).
template <typename Contract, typename Visitor>
void visit_fields(Contract& c, Visitor&& visit) {
  visit("extents", c.extents);
  switch (c.family) {
    case Family::gemm:
      visit("math", c.math);
      visit("math_b", c.math_b);
      visit("accumulate", c.accumulate);
      visit("stage_k", c.stage_k);
      break;
    case Family::pointwise:
      break;
    case Family::reduce:
      visit("inner", c.inner);
      visit("kind", c.kind, reduce_kinds);
      visit("accumulate", c.accumulate);
      visit("last", c.last);
      break;
    case Family::rowwise:
      visit("inner", c.inner);
      visit("kind", c.kind, rowwise_kinds);
      visit("accumulate", c.accumulate);
      visit("epsilon", c.epsilon);
      break;
    case Family::cumulative:
      visit("inner", c.inner);
      visit("accumulate", c.accumulate);
      visit("exclusive", c.exclusive);
      visit("reverse", c.reverse);
      break;
    case Family::gather:
      visit("inner", c.inner);
      break;
    case Family::attention:
      visit("math", c.math);
      visit("accumulate", c.accumulate);
      visit("scale", c.attention.scale);
      visit("softcap", c.attention.softcap);
      visit("masked_score", c.attention.masked_score);
      visit("masked", c.attention.masked);
      visit("causal", c.attention.causal);
      visit("continues", c.attention.continues);
      visit("partial", c.attention.partial);
      visit("empty_is_zero", c.attention.empty_is_zero);
      break;
  }
  visit("operands", c.operands);
  if (c.family == Family::reduce) visit("map", c.map);
  if (c.family != Family::cumulative && c.family != Family::gather) visit("expr", c.expr);
}

}  // namespace low
