#include "hwtests/gpu/memory_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace low::hwtests {
namespace {

constexpr uint64_t page_bytes = 4096;

struct MemoryExecutable final : Executable {
  AlignedBytes object;
  std::shared_ptr<const Program> program;
};

MemoryBuffer& ours(const Buffer& buffer) {
  const auto* const memory = dynamic_cast<const MemoryBuffer*>(&buffer);
  LOW_CHECK(memory != nullptr);
  return const_cast<MemoryBuffer&>(*memory);
}

}  // namespace

void MemoryBuffer::Free::operator()(unsigned char* memory) const { std::free(memory); }

MemoryBuffer::MemoryBuffer(uint64_t size)
    : size_(size),
      data_(static_cast<unsigned char*>(std::aligned_alloc(page_bytes, (size / page_bytes + 1) * page_bytes))) {
  LOW_CHECK(data_ != nullptr);
}

MemoryDevice::MemoryDevice(std::string name, std::string target)
    : info_{.name = std::move(name), .description = "without a GPU: " + target, .targets = {target}} {}

Result<std::unique_ptr<Buffer>> MemoryDevice::allocate(uint64_t bytes) { return std::make_unique<MemoryBuffer>(bytes); }

Result<void> MemoryDevice::copy_to_device(Buffer& to, uint64_t offset, std::span<const std::byte> from) {
  MemoryBuffer& memory = ours(to);
  LOW_CHECK(offset <= memory.bytes() && from.size() <= memory.bytes() - offset);
  if (!from.empty()) std::memcpy(memory.data().data() + offset, from.data(), from.size());
  memory.written.push_back({offset, from.size()});
  return {};
}

Result<void> MemoryDevice::copy_from_device(std::span<std::byte> to, const Buffer& from, uint64_t offset) {
  const MemoryBuffer& memory = ours(from);
  LOW_CHECK(offset <= memory.bytes() && to.size() <= memory.bytes() - offset);
  if (!to.empty()) std::memcpy(to.data(), memory.data().data() + offset, to.size());
  return {};
}

Result<void> MemoryDevice::fill(Buffer& buffer, std::byte value) {
  MemoryBuffer& memory = ours(buffer);
  std::memset(memory.data().data(), std::to_integer<int>(value), memory.bytes());
  memory.written.clear();
  return {};
}

Result<std::shared_ptr<const Executable>> MemoryDevice::load(std::shared_ptr<const Package> package, const VariantInfo&,
                                                             const TargetInfo& target,
                                                             std::shared_ptr<const Program> program) {
  auto executable = std::make_shared<MemoryExecutable>();
  LOW_TRY(executable->object, package->entry(target.file));
  executable->program = std::move(program);
  return executable;
}

Result<void> MemoryDevice::run(const Executable& executable, const Invocation& invocation) {
  const auto& loaded = dynamic_cast<const MemoryExecutable&>(executable);
  LOW_CHECK(invocation.samples.empty());
  return run_program(*loaded.program, loaded.object, ours(*invocation.arena), ours(*invocation.parameters));
}

}  // namespace low::hwtests
