// CRC-32 as ZIP uses it (ISO 3309: polynomial 0x04c11db7, reflected, all ones before and after).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace low {

[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace low
