#include "compiler/interpret/storage.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace low {

Storage::Storage(uint64_t bytes, size_t granule, bool read_only)
    : bytes_(bytes, std::byte{0xa5}), shadow_(read_only ? 0 : bytes / granule), granule_(granule) {}

std::string Storage::read(uint64_t address, size_t size, const Accessor& accessor, uint64_t& bits) {
  if (!shadow_.empty()) {
    for (uint64_t i = address / granule_; i < (address + size) / granule_; ++i) {
      Shadow& shadow = shadow_[i];
      if (shadow.owner == nobody) return "which nothing wrote";
      if (shadow.owner != accessor.owner) return fmt::format("where other data lies (of storage {})", shadow.owner);
      if (shadow.write_step == accessor.step && shadow.writer != accessor.tile) {
        return fmt::format("which tile {} writes in the same superstep", shadow.writer);
      }
      shadow.reader = shadow.read_step == accessor.step && shadow.reader != accessor.tile ? several : accessor.tile;
      shadow.read_step = accessor.step;
    }
  }
  bits = 0;
  std::memcpy(&bits, bytes_.data() + address, size);
  return "";
}

std::string Storage::write(uint64_t address, size_t size, const Accessor& accessor, uint64_t bits) {
  if (shadow_.empty()) return "which is constant";
  for (uint64_t i = address / granule_; i < (address + size) / granule_; ++i) {
    Shadow& shadow = shadow_[i];
    if (shadow.write_step == accessor.step && shadow.writer != accessor.tile) {
      return fmt::format("which tile {} writes in the same superstep", shadow.writer);
    }
    if (shadow.read_step == accessor.step && shadow.reader != accessor.tile) {
      return shadow.reader == several ? std::string("which several tiles read in the same superstep")
                                      : fmt::format("which tile {} reads in the same superstep", shadow.reader);
    }
    shadow.owner = accessor.owner;
    shadow.writer = accessor.tile;
    shadow.write_step = accessor.step;
  }
  std::memcpy(bytes_.data() + address, &bits, size);
  return "";
}

void Storage::fill(uint64_t address, uint64_t size, const std::byte* from, uint32_t owner) {
  std::copy_n(from, size, bytes_.data() + address);
  if (shadow_.empty()) return;
  for (uint64_t i = address / granule_; i < (address + size) / granule_; ++i)
    shadow_[i] = {owner, nobody, nobody, 0, 0};
}

void Storage::poison(uint64_t address, uint64_t size) {
  std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(address), size, std::byte{0xa5});
  if (shadow_.empty()) return;
  for (uint64_t i = address / granule_; i < (address + size) / granule_; ++i) shadow_[i] = Shadow{};
}

}  // namespace low
