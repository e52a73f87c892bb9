#include "compiler/lowc/text.h"

#include <fmt/format.h>

#include <cstdint>

namespace low::lowc {

size_t utf8_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >> 5 == 0x6 ? 2 : first >> 4 == 0xe ? 3 : first >> 3 == 0x1e ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t code = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t least[] = {0x80, 0x800, 0x10000};  // with 2, 3 and 4 bytes
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least[length - 2] || code > 0x10ffff || surrogate ? 0 : length;
}

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const size_t length = utf8_character(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0 || first < 0x20 || first == 0x7f) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned>(first));
      text.remove_prefix(1);
    } else {
      line += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return line;
}

}  // namespace low::lowc
