#include "runtime/backends.h"

#include <fmt/format.h>

#include "runtime/host/host_device.h"

namespace low {
namespace {

BackendEntry host_backend() {
  BackendEntry entry;
  entry.name = "host";
  if (host_targets().empty()) {
    entry.unavailable = "this processor is below x86-64-v3";
  } else {
    entry.devices = {"host"};
  }
  entry.open = [](std::string_view, const DeviceOptions& options) { return open_host_device(options); };
  return entry;
}

BackendEntry hip_backend() {
  BackendEntry entry;
  entry.name = "hip";
  entry.unavailable = "the HIP backend is not part of this version";
  entry.open = [reason = entry.unavailable](std::string_view name,
                                            const DeviceOptions&) -> Result<std::unique_ptr<Device>> {
    return fail(ErrorKind::device, fmt::format("cannot open device '{}': {}", name, reason));
  };
  return entry;
}

}  // namespace

std::vector<BackendEntry> backends() { return {host_backend(), hip_backend()}; }

Result<std::unique_ptr<Device>> open_device(std::string_view name, const DeviceOptions& options) {
  std::vector<std::string> names;
  std::string reasons;
  for (const BackendEntry& backend : backends()) {
    for (const std::string& device : backend.devices) {
      if (device == name) return backend.open(name, options);
      names.push_back(device);
    }
    // "hip" and "hip:0" are of the backend "hip".
    if (!backend.unavailable.empty() && name.substr(0, name.find(':')) == backend.name) {
      reasons = fmt::format(" ({})", backend.unavailable);
    }
  }
  return fail(ErrorKind::device, fmt::format("there is no device '{}'{}, expected one of: {}", name, reasons,
                                             names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace low
