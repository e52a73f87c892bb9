// A shared object in memory as callable code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/format/abi.h"

namespace low {

class HostCode {
 public:
  // Loads `object` and finds low_entry_0 to low_entry_<entries-1>; `base` has those that it lacks (null: it lacks none),
  // and stays loaded as long. ErrorKind::invalid for what is not a complete x86-64 shared object with these symbols;
  // ErrorKind::device when the system refuses a file in memory. Safe to call from several threads.
  static Result<HostCode> load(std::span<const std::byte> object, uint32_t entries, std::string_view what,
                               std::unique_ptr<HostCode> base = nullptr);
  HostCode(HostCode&& other) noexcept;
  HostCode& operator=(HostCode&&) = delete;
  ~HostCode();

  abi::HostEntry entry(uint32_t index) const { return entries_[index]; }
  // The address of any other symbol, or null.
  void* symbol(const char* name) const;

 private:
  HostCode() = default;
  int file_ = -1;
  void* library_ = nullptr;
  std::unique_ptr<HostCode> base_;
  std::vector<abi::HostEntry> entries_;
};

}  // namespace low
