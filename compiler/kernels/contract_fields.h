// All fields of a contract: the one list that text, parser and hash go by.
#pragma once

#include <concepts>
#include <string_view>

#include "compiler/base/named.h"
#include "compiler/kernels/contract.h"

namespace low {

// What a family has to say of itself, see families/family.h; its source and its result are overloads that std::visit
// finds in codegen and in the interpreter, and the compiler names the one that is missing.
template <typename Kernel>
concept NamedFamily = requires {
  { Kernel::name } -> std::convertible_to<std::string_view>;
};
template <typename Kernel>
concept ListsItsFields = requires(const Kernel& kernel) { Kernel::fields(kernel, [](auto&&...) {}); };
template <typename Kernel>
concept HasOperands = requires(const Kernel& kernel, const KernelContract& contract, const Shape& extents) {
  { kernel.operand_count() } -> std::same_as<OperandCount>;
  { kernel.run_extents(std::span<const Shape>()) } -> std::same_as<Shape>;
  { kernel.operand_extents(contract, extents, size_t{0}) } -> std::same_as<Shape>;
};
template <typename Kernel>
concept HasProblems = requires(const Kernel& kernel, const KernelContract& contract, const Shape& extents) {
  { kernel.problem(contract) } -> std::same_as<std::string>;
  { kernel.run_problem(contract, extents) } -> std::same_as<std::string>;
};
template <typename Kernel>
concept HasWork = requires(const Kernel& kernel, KernelWork& work, const KernelContract& contract,
                           const Shape& extents) { kernel.add_work(work, contract, extents); };
template <typename... Kernels>
constexpr bool are_families(const std::variant<Kernels...>*) {
  static_assert((NamedFamily<Kernels> && ...), "a family has no name");
  static_assert((ListsItsFields<Kernels> && ...), "a family does not list its fields");
  static_assert((std::equality_comparable<Kernels> && ...), "a family has no ==");
  static_assert((HasOperands<Kernels> && ...), "a family does not say what operands it has");
  static_assert((HasProblems<Kernels> && ...), "a family does not say what is wrong with contracts and runs");
  static_assert((HasWork<Kernels> && ...), "a family does not say what its runs do");
  return true;
}
static_assert(are_families(static_cast<const KernelFamily*>(nullptr)));

// In the order of KernelFamily.
inline constexpr auto family_names = alternative_names(static_cast<const KernelFamily*>(nullptr));

// Calls visit(name, field[, names]) for each field but the family itself, in the order of the text.
template <typename Contract, typename Visitor>
void visit_fields(Contract& contract, Visitor&& visit) {
  std::visit([&](auto& kernel) { std::remove_cvref_t<decltype(kernel)>::fields(kernel, visit); }, contract.family);
  visit("operands", contract.operands);
  visit("expr", contract.expr);
}

}  // namespace low
