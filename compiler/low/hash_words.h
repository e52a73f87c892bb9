// Hashes of a few 64-bit words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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
  uint64_t result() const { return state_ ^ (state_ >> 29); }

 private:
  uint64_t state_ = 0x243f6a8885a308d3U;  // digits of pi
};

// Two 32-bit words in one.
constexpr uint64_t packed_words(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

}  // namespace low
