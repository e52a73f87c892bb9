#include "runtime/format/crc32.h"

#include <array>

namespace low {
namespace {

// Row 0 is the table for one byte; row k is for a byte with k zero bytes after it, so that eight bytes go at once.
constexpr auto tables = [] {
  std::array<std::array<uint32_t, 256>, 8> result{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320u : 0u);
    result[0][byte] = value;
  }
  for (size_t row = 1; row < result.size(); ++row) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t value = result[row - 1][byte];
      result[row][byte] = (value >> 8) ^ result[0][value & 255];
    }
  }
  return result;
}();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t state = 0xffffffffu;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint32_t next = 0;
    for (size_t i = 0; i < 8; ++i) {
      uint32_t byte = std::to_integer<uint32_t>(bytes[at + i]);
      if (i < 4) byte ^= (state >> (8 * i)) & 255;
      next ^= tables[7 - i][byte];
    }
    state = next;
  }
  for (; at < bytes.size(); ++at) {
    state = (state >> 8) ^ tables[0][(state ^ std::to_integer<uint32_t>(bytes[at])) & 255];
  }
  return ~state;
}

}  // namespace low
