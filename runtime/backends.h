// The backends and their devices, by name: "host", "hip:N".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/device.h"

namespace low {

struct BackendEntry {
  std::string name;                  // "host"
  std::vector<std::string> devices;  // names that open() takes
  std::string unavailable;           // why there are none, if so
  std::function<Result<std::unique_ptr<Device>>(std::string_view name, const DeviceOptions&)> open;
};
// What is there, in a fixed order; nothing registers itself.
std::vector<BackendEntry> backends();
// ErrorKind::device with the names that exist when there is none of this name.
Result<std::unique_ptr<Device>> open_device(std::string_view name, const DeviceOptions& options);

}  // namespace low
