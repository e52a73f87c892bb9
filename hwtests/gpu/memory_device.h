// A device whose memory is this process's, for running GPUs' programs without a GPU: what SIMT targets and emulators
// have in common. A backend says how one run goes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/device/device.h"

namespace low::hwtests {

// Bytes, and the ones among them that were written from outside since they were filled.
class MemoryBuffer final : public Buffer {
 public:
  explicit MemoryBuffer(uint64_t size);
  uint64_t bytes() const override { return size_; }
  std::span<unsigned char> data() const { return {data_.get(), size_}; }

  struct Range {
    uint64_t begin = 0, bytes = 0;
  };
  std::vector<Range> written;

 private:
  struct Free {
    void operator()(unsigned char* memory) const;
  };
  uint64_t size_;
  std::unique_ptr<unsigned char, Free> data_;  // 4096-byte aligned
};

class MemoryDevice : public Device {
 public:
  MemoryDevice(std::string name, std::string target);

  const DeviceInfo& info() const override { return info_; }
  Result<std::unique_ptr<Buffer>> allocate(uint64_t bytes) override;
  Result<void> copy_to_device(Buffer& to, uint64_t offset, std::span<const std::byte> from) override;
  Result<void> copy_from_device(std::span<std::byte> to, const Buffer& from, uint64_t offset) override;
  Result<void> fill(Buffer& buffer, std::byte value) override;
  Result<std::shared_ptr<const Executable>> load(std::shared_ptr<const Package> package, const VariantInfo& variant,
                                                 const TargetInfo& target,
                                                 std::shared_ptr<const Program> program) override;
  Result<void> run(const Executable& executable, const Invocation& invocation) override;

 protected:
  // `object`: the target's code object.
  virtual Result<void> run_program(const Program& program, std::span<const std::byte> object, MemoryBuffer& arena,
                                   const MemoryBuffer& parameters) = 0;

 private:
  DeviceInfo info_;
};

}  // namespace low::hwtests
