// Values of enums by their names in texts, and alternatives of variants by their place.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

namespace low {

// The value whose name, in the order of the enum, is `text`.
template <typename Enum>
std::optional<Enum> named(std::string_view text, std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// The alternative at this place, with default fields.
template <typename Variant>
Variant alternative_at(size_t place) {
  return [&]<size_t... places>(std::index_sequence<places...>) {
    Variant made;
    ((place == places ? static_cast<void>(made.template emplace<places>()) : static_cast<void>(0)), ...);
    return made;
  }(std::make_index_sequence<std::variant_size_v<Variant>>());
}

// `name` of each alternative, in the variant's order.
template <typename... Alternatives>
constexpr std::array<std::string_view, sizeof...(Alternatives)> alternative_names(
    const std::variant<Alternatives...>*) {
  return {Alternatives::name...};
}

}  // namespace low
