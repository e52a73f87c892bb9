// The kernel library (device/*.h, and the ABI) as text, embedded at build time.
#pragma once

#include <span>
#include <string_view>

namespace low {

struct DeviceHeader {
  std::string_view path;  // relative to the project
  std::string_view text;
};
// In an order in which each header follows those that it includes.
std::span<const DeviceHeader> device_library();

}  // namespace low
