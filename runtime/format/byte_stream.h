// Little-endian bytes: what archive.cpp and program.cpp share. Not part of the module's interface.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace low {

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_ += static_cast<char>(static_cast<unsigned char>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  void raw(std::string_view text) { bytes_ += text; }
  void zeros(size_t count) { bytes_.append(count, '\0'); }
  size_t size() const { return bytes_.size(); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads from the front. What goes beyond the end gives zeros and sets failed(), which stays.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    const std::string_view text = raw(sizeof(T));
    uint64_t value = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    return static_cast<T>(value);
  }
  // Borrowed; empty when there are fewer.
  std::string_view raw(uint64_t count) {
    if (failed_ || count > left()) {
      failed_ = true;
      return {};
    }
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + position_;
    position_ += static_cast<size_t>(count);
    return {begin, static_cast<size_t>(count)};
  }
  uint64_t left() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }
  bool failed() const { return failed_; }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace low
