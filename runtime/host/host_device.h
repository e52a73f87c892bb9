// The host backend: compiled x86-64 code on the threads of this machine. A program's tiles are handed to whichever
// thread is free; results do not depend on that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace low {

// Targets that this processor and its system can run, best first: "host-x86-64-v4-bf16", "host-x86-64-v4",
// "host-x86-64-v3". May be empty.
std::vector<std::string> host_targets();

// Sessions may share the device from several threads; their runs take turns. ErrorKind::usage for an impossible number
// of threads.
Result<std::unique_ptr<Device>> open_host_device(const DeviceOptions& options);

}  // namespace low
