// All fields of a contract: the one list that text, parser and hash go by.
#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <utility>

#include "compiler/kernels/contract.h"

namespace low {

// What a family has to say of itself; functions that std::visit finds (the check of a contract, its operands' extents,
// its work, source and result) are overloads, and the compiler names the one that is missing.
template <typename Kernel>
concept NamedFamily = requires {
  { Kernel::name } -> std::convertible_to<std::string_view>;
};
template <typename Kernel>
concept ListsItsFields = requires(const Kernel& kernel) { Kernel::fields(kernel, [](auto&&...) {}); };
template <typename... Kernels>
constexpr bool are_families(const std::variant<Kernels...>*) {
  static_assert((NamedFamily<Kernels> && ...), "a family has no name");
  static_assert((ListsItsFields<Kernels> && ...), "a family does not list its fields");
  static_assert((std::equality_comparable<Kernels> && ...), "a family has no ==");
  return true;
}
static_assert(are_families(static_cast<const KernelFamily*>(nullptr)));

// In the order of KernelFamily.
template <typename... Kernels>
constexpr std::array<std::string_view, sizeof...(Kernels)> names_of(const std::variant<Kernels...>*) {
  return {Kernels::name...};
}
inline constexpr auto family_names = names_of(static_cast<const KernelFamily*>(nullptr));

// The family of this place in KernelFamily, with default fields.
template <size_t... places>
KernelFamily family_at(size_t place, std::index_sequence<places...>) {
  KernelFamily family;
  ((place == places ? static_cast<void>(family.emplace<places>()) : static_cast<void>(0)), ...);
  return family;
}
inline KernelFamily family_at(size_t place) {
  return family_at(place, std::make_index_sequence<std::variant_size_v<KernelFamily>>());
}

// Calls visit(name, field[, names]) for each field but the family itself, in the order of the text.
template <typename Contract, typename Visitor>
void visit_fields(Contract& contract, Visitor&& visit) {
  std::visit([&](auto& kernel) { std::remove_cvref_t<decltype(kernel)>::fields(kernel, visit); }, contract.family);
  visit("operands", contract.operands);
  visit("expr", contract.expr);
}

}  // namespace low
