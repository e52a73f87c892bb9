// Hashes of values that are made of several: for tables, never written down nor ordered by.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

namespace low {

// Mixes words one after another: a multiplication to 128 bits folded, as in the public-domain wyhash.
class WordHash {
 public:
  WordHash& add(uint64_t word) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(state_ ^ word) * 0x9e3779b97f4a7c15U + word;
    state_ = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    return *this;
  }
  template <typename T>
    requires(std::integral<T> || std::is_enum_v<T>)
  WordHash& add(T value) {
    return add(static_cast<uint64_t>(value));
  }
  // Of many words every fourth one is mixed with those before it: a multiplication then need not wait for the last.
  WordHash& add(std::span<const uint64_t> words) {
    size_t i = 0;
    if (words.size() >= 16) {
      WordHash second, third, fourth;
      for (; i + 4 <= words.size(); i += 4) {
        add(words[i]);
        second.add(words[i + 1]);
        third.add(words[i + 2]);
        fourth.add(words[i + 3]);
      }
      add(second.state_).add(third.state_).add(fourth.state_);
    }
    for (; i < words.size(); ++i) add(words[i]);
    return *this;
  }
  // A list's length, and its numbers one by one.
  template <std::ranges::input_range List>
  WordHash& add_list(const List& list) {
    uint64_t size = 0;
    for (const auto& number : list) {
      add(number);
      ++size;
    }
    return add(size);
  }
  uint64_t result() const { return state_ ^ (state_ >> 29); }

 private:
  uint64_t state_ = 0x243f6a8885a308d3U;  // digits of pi
};

// Two 32-bit words in one.
constexpr uint64_t packed_words(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

}  // namespace low
