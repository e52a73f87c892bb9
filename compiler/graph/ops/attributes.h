// The kinds of operations. Each has a file of its own, or shares one with its kin: what it means, its fields by name
// (`fields(op, visit)` calls visit(name, field[, names of an enum's values]) for each), its rule `problem(op, types)`
// and, but for some, its evaluation on constants, `fold(op, operands, type)`.
#pragma once

#include <concepts>
#include <optional>
#include <variant>

#include "compiler/base/named.h"
#include "compiler/graph/ops/attention.h"
#include "compiler/graph/ops/cumulative.h"
#include "compiler/graph/ops/gather.h"
#include "compiler/graph/ops/matmul.h"
#include "compiler/graph/ops/movement.h"
#include "compiler/graph/ops/parts.h"
#include "compiler/graph/ops/pointwise.h"
#include "compiler/graph/ops/quantize.h"
#include "compiler/graph/ops/reduce.h"
#include "compiler/graph/ops/rowwise.h"
#include "compiler/graph/ops/scatter.h"
#include "compiler/graph/ops/structure.h"
#include "compiler/graph/ops/top_k.h"

namespace low {

using Attributes =
    std::variant<Input, Constant, Output, Pointwise, Matmul, Reshape, Transpose, Slice, Expand, Quantize, Dequantize,
                 Cast, Repeat, Concat, Pad, Gather, Scatter, Reduce, Cumulative, TopK, Rowwise, Attention>;

template <typename Kind>
concept NamedKind = requires {
  { Kind::name } -> std::convertible_to<std::string_view>;
};
template <typename Kind>
concept ListsItsAttributes = requires(const Kind& op) { Kind::fields(op, [](auto&&...) {}); };
// A repeat's rule is that of its body, too: verify() has it.
template <typename Kind>
concept HasARule = std::same_as<Kind, Repeat> || requires(const Kind& op, const OpTypes& types) {
  { problem(op, types) } -> std::same_as<std::string>;
};
template <typename... Kinds>
constexpr bool are_kinds(const std::variant<Kinds...>*) {
  static_assert((NamedKind<Kinds> && ...), "a kind of operation has no name");
  static_assert((ListsItsAttributes<Kinds> && ...), "a kind of operation does not list its fields");
  static_assert((HasARule<Kinds> && ...), "a kind of operation has no rule");
  static_assert((std::equality_comparable<Kinds> && ...), "a kind of operation has no ==");
  static_assert((PartsAreKnown<Kinds> && ...), "a kind of operation does not say which axes it joins");
  return true;
}
static_assert(are_kinds(static_cast<const Attributes*>(nullptr)));

// In the order of Attributes.
inline constexpr auto kind_names = alternative_names(static_cast<const Attributes*>(nullptr));

// "pointwise", "matmul", …: the operation's name in text.
inline std::string_view kind_name(const Attributes& attributes) { return kind_names[attributes.index()]; }

// What a part of the result reads; nothing where results are not computed in parts like that.
inline std::optional<Parts> parts_of(const Attributes& attributes) {
  return std::visit(
      []<typename Kind>(const Kind&) -> std::optional<Parts> {
        if constexpr (InParts<Kind>) return Kind::parts;
        return std::nullopt;
      },
      attributes);
}
// The axes of operand 0 that no cut goes through; none of kinds that join none.
inline Shape joined_axes(const Attributes& attributes) {
  return std::visit(
      []<typename Kind>(const Kind& op) -> Shape {
        if constexpr (JoinsAxes<Kind>) return op.joined_axes();
        return {};
      },
      attributes);
}

}  // namespace low
