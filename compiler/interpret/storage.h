// Bytes with a shadow: who owns each, who wrote and read it last. Finds reads of what nobody wrote and races between
// tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace low {

class Storage {
 public:
  // `granule`: what a shadow covers, in bytes; every access has to be aligned to it and a multiple of it.
  Storage(uint64_t bytes, size_t granule, bool read_only);

  uint64_t size() const { return bytes_.size(); }
  size_t granule() const { return granule_; }
  std::byte* data() { return bytes_.data(); }

  struct Accessor {
    uint32_t owner = 0;  // the allocation that is accessed
    uint32_t tile = 0;
    uint32_t step = 0;  // number of the superstep among all that were executed, from 1
  };
  // The element of `size` bytes at `address`, in range and aligned. "" or what is wrong with the access: "which nothing
  // wrote", ….
  std::string read(uint64_t address, size_t size, const Accessor& accessor, uint64_t& bits);
  std::string write(uint64_t address, size_t size, const Accessor& accessor, uint64_t bits);
  // Copies from outside of the program, before its first superstep.
  void fill(uint64_t address, uint64_t size, const std::byte* from, uint32_t owner);
  // The content is undefined from now on.
  void poison(uint64_t address, uint64_t size);

 private:
  static constexpr uint32_t nobody = UINT32_MAX;
  static constexpr uint32_t several = UINT32_MAX - 1;
  struct Shadow {
    uint32_t owner = nobody;  // nobody: undefined
    uint32_t writer = nobody, reader = nobody;
    uint32_t write_step = 0, read_step = 0;
  };
  std::vector<std::byte> bytes_;
  std::vector<Shadow> shadow_;  // empty when read-only
  size_t granule_;
};

}  // namespace low
