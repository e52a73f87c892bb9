#include "runtime/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "runtime/base/error.h"

namespace low {

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  // Fails only if the library lacks SHA-256 or memory.
  LOW_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1);
  LOW_CHECK(length == digest.size());
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const unsigned char byte : digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace low
