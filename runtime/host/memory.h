// Pages of our own: aligned, zero, and a refusal instead of an abort when there are not enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "runtime/base/error.h"

namespace low {

class HostMemory {
 public:
  HostMemory() = default;
  // At least `bytes` zero bytes at a page boundary; 0 bytes have an address too. ErrorKind::device when the machine has
  // not that much memory.
  static Result<HostMemory> map(uint64_t bytes);
  HostMemory(HostMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostMemory();

  unsigned char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }  // as asked for

 private:
  unsigned char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace low
