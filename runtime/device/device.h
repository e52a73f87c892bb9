// Device: what a backend offers; runtime/backends.h knows which there are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/format/package.h"

namespace low {

// Device memory, 64-byte aligned, freed with its last reference.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual uint64_t bytes() const = 0;
};

// Code and command tables of one program on one device: immutable, shared by sessions, safe to use from several
// threads.
class Executable {
 public:
  virtual ~Executable() = default;
};

// Everything a call needs that is not shared with another session. `arena` and `parameters` must be this device's
// buffers of at least the program's sizes.
struct Invocation {
  Buffer* arena = nullptr;
  const Buffer* parameters = nullptr;
  // tiles x (supersteps executed, repeats unrolled) samples, superstep-major, or empty.
  std::span<abi::Sample> samples;
};

struct DeviceInfo {
  std::string name;                  // "host"
  std::string description;           // "x86-64-v4, 2 threads"
  std::vector<std::string> targets;  // that it can run, best first
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual Result<std::unique_ptr<Buffer>> allocate(uint64_t bytes) = 0;
  virtual Result<void> copy_to_device(Buffer& to, uint64_t offset, std::span<const std::byte> from) = 0;
  virtual Result<void> copy_from_device(std::span<std::byte> to, const Buffer& from, uint64_t offset) = 0;
  // Fills with a byte: to poison memory before a run.
  virtual Result<void> fill(Buffer& buffer, std::byte value) = 0;
  virtual Result<std::shared_ptr<const Executable>> load(std::shared_ptr<const Package> package,
                                                         const VariantInfo& variant, const TargetInfo& target,
                                                         std::shared_ptr<const Program> program) = 0;
  // Runs the program once and returns when its results can be read.
  virtual Result<void> run(const Executable& executable, const Invocation& invocation) = 0;
};

struct DeviceOptions {
  int threads = 0;  // host: 0 = one for each core
};

}  // namespace low
