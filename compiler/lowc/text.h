// Text for terminals and JSON: names come from files and may hold any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace low::lowc {

// Bytes of the UTF-8 character at the front of a nonempty text; 0 when there is none (RFC 3629: no surrogates, no
// overlong forms).
size_t utf8_character(std::string_view text);
// On one line: control characters and bytes that are not UTF-8 become \xNN.
std::string one_line(std::string_view text);

}  // namespace low::lowc
