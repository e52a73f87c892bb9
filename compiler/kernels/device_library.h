// The kernel library (data, device, and the ABI) as text, embedded at build time.
#pragma once

#include <span>
#include <string_view>

namespace low {

struct DeviceHeader {
  std::string_view path;  // relative to the project
  std::string_view text;
};
// In no particular order: a target's row says which it takes, and in which.
std::span<const DeviceHeader> device_library();

}  // namespace low
