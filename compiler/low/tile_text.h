// Words of the text of tile graphs, in the order of their enums.
#pragma once

#include <string_view>

namespace low::tile_text {

inline constexpr std::string_view role_names[] = {"input", "output", "parameter", "intermediate"};
inline constexpr char access_letters[] = {'b', 'u', 's'};
inline constexpr std::string_view header = "low-tiles 4";

}  // namespace low::tile_text
