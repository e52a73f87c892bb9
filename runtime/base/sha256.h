// SHA-256 (FIPS 180-4), which names weights and kernels by their content.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace low {

// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace low
