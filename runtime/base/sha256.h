// SHA-256 (FIPS 180-4), which names weights and kernels by their content.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace low {

// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);

// The same of bytes that come in parts.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::string finish();  // once, as the last call

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace low
