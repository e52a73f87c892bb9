// Elements of tensors and of expressions as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/tensor/dtype.h"

namespace low {

enum class LiteralStyle {
  hexadecimal,  // floats as 0x1.8p+1
  decimal,      // floats by the shortest decimal that reads back as the same element
};

// inf, -inf and nan:0xBITS besides numbers; integers in decimal; booleans as 0 and 1.
std::string literal_to_string(DType dtype, uint64_t bits, LiteralStyle style);
// Reads either style; nothing for anything else, for hexadecimal floats that the dtype cannot hold, and out of range.
std::optional<uint64_t> parse_literal(DType dtype, std::string_view text);

// Decimal, with an optional minus sign, in range, and nothing after it.
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace low
