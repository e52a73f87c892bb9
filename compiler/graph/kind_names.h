// Names of kinds and modes in text, in the order of their enums.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace low {

inline constexpr std::array<std::string_view, 4> pad_modes = {"constant", "edge", "reflect", "wrap"};
inline constexpr std::array<std::string_view, 3> gather_modes = {"axis", "elements", "nd"};
inline constexpr std::array<std::string_view, 6> reduce_kinds = {"sum", "product",   "max",
                                                                 "min", "index_max", "index_min"};
inline constexpr std::array<std::string_view, 5> rowwise_kinds = {"softmax", "log_softmax", "layer_norm", "rms_norm",
                                                                  "masked_softmax"};

template <typename Enum, size_t n>
std::optional<Enum> parse_name(const std::array<std::string_view, n>& names, std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace low
