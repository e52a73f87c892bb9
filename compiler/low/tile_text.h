// Words of the text of tile graphs, in the order of their enums.
#pragma once

#include <string_view>

#include "compiler/graph/kind_names.h"

namespace low::tile_text {

inline constexpr std::string_view role_names[] = {"input", "output", "parameter", "intermediate"};
inline constexpr std::string_view family_names[] = {"gemm",       "pointwise", "reduce",   "rowwise",
                                                    "cumulative", "gather",    "attention"};
inline constexpr std::string_view overflow_names[] = {"saturate", "propagate"};
inline constexpr std::string_view end_names[] = {"first", "last"};
inline constexpr std::string_view whole_names[] = {"inclusive", "exclusive"};
inline constexpr std::string_view direction_names[] = {"forward", "reverse"};
// Flags of attention, in the order in which they stand; each is there or not.
inline constexpr std::string_view attention_names[] = {"masked", "causal", "continues", "partial", "empty_is_zero"};
inline constexpr char access_letters[] = {'b', 'u', 's'};
inline constexpr std::string_view header = "low-tiles 2";

}  // namespace low::tile_text
