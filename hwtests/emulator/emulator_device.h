// A program's gfx942 code object on an emulator of the chip's machine code, as a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hwtests/gpu/memory_device.h"

namespace low::emulator {

// Of all runs of a device.
struct Counts {
  uint64_t launches = 0, wave_instructions = 0, matrix_instructions = 0;
};

// Through tinygrad_runner.py; `checkout` is a source tree of tinygrad. Compiled instructions are kept in `cache_folder`
// between runs.
class EmulatorDevice final : public hwtests::MemoryDevice {
 public:
  EmulatorDevice(std::string checkout, std::string cache_folder);

  const Counts& counts() const { return counts_; }

  // Of a program that need not be in a package.
  Result<void> run_program(const Program& program, std::span<const std::byte> object, hwtests::MemoryBuffer& arena,
                           const hwtests::MemoryBuffer& parameters) override;

 private:
  std::string checkout_, cache_folder_;
  Counts counts_;
};

}  // namespace low::emulator
