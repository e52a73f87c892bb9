// Programs for a GPU, compiled for its SIMT target, as a device: a run fails when a kernel does something wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hwtests/gpu/memory_device.h"

namespace low::simt {

class SimtDevice final : public hwtests::MemoryDevice {
 public:
  explicit SimtDevice(const std::string& target);

  uint64_t accesses() const { return accesses_; }
  uint64_t meetings() const { return meetings_; }

 private:
  Result<void> run_program(const Program& program, std::span<const std::byte> object, hwtests::MemoryBuffer& arena,
                           const hwtests::MemoryBuffer& parameters) override;

  uint64_t accesses_ = 0, meetings_ = 0;
};

}  // namespace low::simt
