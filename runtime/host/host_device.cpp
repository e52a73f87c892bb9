#include "runtime/host/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/host/code.h"
#include "runtime/host/memory.h"
#include "runtime/host/processor.h"
#include "runtime/host/workers.h"

namespace low {
namespace {

constexpr int max_threads = 1024;

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(HostMemory memory) : memory_(std::move(memory)) {}
  uint64_t bytes() const override { return memory_.bytes(); }
  unsigned char* data() const { return memory_.data(); }

 private:
  HostMemory memory_;
};

struct HostExecutable final : Executable {
  HostExecutable(HostCode loaded, uint64_t scratch, std::shared_ptr<const Program> tables)
      : code(std::move(loaded)), scratch_bytes(scratch), program(std::move(tables)) {}
  const HostCode code;
  const uint64_t scratch_bytes;
  const std::shared_ptr<const Program> program;
};

Result<void> check_range(const char* action, uint64_t offset, uint64_t count, uint64_t size) {
  if (offset <= size && count <= size - offset) return {};
  return fail(ErrorKind::internal,
              fmt::format("host: cannot {} {} bytes at {} of a buffer of {}", action, count, offset, size));
}

// The buffer's bytes, if it is ours and has as many as the program needs.
Result<unsigned char*> memory_of(const Buffer* buffer, uint64_t bytes, const char* name) {
  const auto* host = dynamic_cast<const HostBuffer*>(buffer);
  if (host == nullptr) return fail(ErrorKind::internal, fmt::format("host: the {} buffer is not in host memory", name));
  if (host->bytes() >= bytes) return host->data();
  return fail(ErrorKind::internal,
              fmt::format("host: the {} buffer has {} bytes, but the program needs {}", name, host->bytes(), bytes));
}

class HostDevice final : public Device {
 public:
  HostDevice(DeviceInfo info, std::unique_ptr<HostWorkers> workers)
      : info_(std::move(info)), workers_(std::move(workers)) {}

  const DeviceInfo& info() const override { return info_; }

  Result<std::unique_ptr<Buffer>> allocate(uint64_t bytes) override {
    LOW_TRY(HostMemory memory, HostMemory::map(bytes));
    return std::make_unique<HostBuffer>(std::move(memory));
  }

  Result<void> copy_to_device(Buffer& to, uint64_t offset, std::span<const std::byte> from) override {
    LOW_TRY(unsigned char* const data, memory_of(&to, 0, "target"));
    LOW_TRY_VOID(check_range("write", offset, from.size(), to.bytes()));
    if (!from.empty()) std::memcpy(data + offset, from.data(), from.size());
    return {};
  }

  Result<void> copy_from_device(std::span<std::byte> to, const Buffer& from, uint64_t offset) override {
    LOW_TRY(const unsigned char* const data, memory_of(&from, 0, "source"));
    LOW_TRY_VOID(check_range("read", offset, to.size(), from.bytes()));
    if (!to.empty()) std::memcpy(to.data(), data + offset, to.size());
    return {};
  }

  Result<void> fill(Buffer& buffer, std::byte value) override {
    LOW_TRY(unsigned char* const data, memory_of(&buffer, 0, "target"));
    std::memset(data, std::to_integer<int>(value), buffer.bytes());
    return {};
  }

  Result<std::shared_ptr<const Executable>> load(std::shared_ptr<const Package> package, const VariantInfo& variant,
                                                 const TargetInfo& target,
                                                 std::shared_ptr<const Program> program) override {
    const std::string what = fmt::format("code for {} and machine {}", target.target, variant.machine);
    if (std::find(info_.targets.begin(), info_.targets.end(), target.target) == info_.targets.end()) {
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: this processor runs {}", what, fmt::join(info_.targets, ", ")));
    }
    std::unique_ptr<HostCode> base;
    uint64_t scratch_bytes = target.scratch_bytes;
    if (!target.base.empty()) {
      const auto info = std::ranges::find(variant.targets, target.base, &TargetInfo::target);
      if (info == variant.targets.end())
        return fail(ErrorKind::invalid, fmt::format("{}: its base {} is missing", what, target.base));
      LOW_TRY(const auto object, package->entry(info->file));
      LOW_TRY(HostCode code, HostCode::load(object, program->entries, what));
      base = std::make_unique<HostCode>(std::move(code));
      scratch_bytes = std::max(scratch_bytes, info->scratch_bytes);
    }
    LOW_TRY(const auto object, package->entry(target.file));
    LOW_TRY(HostCode code, HostCode::load(object, program->entries, what, std::move(base)));
    {
      const std::lock_guard lock(run_mutex_);
      LOW_TRY_VOID(workers_->reserve_scratch(scratch_bytes));
    }
    return std::make_shared<const HostExecutable>(std::move(code), scratch_bytes, std::move(program));
  }

  Result<void> run(const Executable& executable, const Invocation& invocation) override {
    const auto* host = dynamic_cast<const HostExecutable*>(&executable);
    if (host == nullptr) return fail(ErrorKind::internal, "host: the executable was loaded by another backend");
    const Program& program = *host->program;
    abi::Launch launch{};
    LOW_TRY(launch.memories[abi::memory_arena], memory_of(invocation.arena, program.arena_bytes, "arena"));
    LOW_TRY(launch.memories[abi::memory_parameters],
            memory_of(invocation.parameters, program.parameter_bytes, "parameter"));
    const uint64_t expected = executed_supersteps(program) * program.tiles;
    if (!invocation.samples.empty() && invocation.samples.size() != expected) {
      return fail(ErrorKind::internal, fmt::format("host: there is room for {} samples, but the program takes {}",
                                                   invocation.samples.size(), expected));
    }
    launch.commands = program.commands.data();

    const std::lock_guard lock(run_mutex_);
    // Finds it reserved, unless another host device loaded the executable.
    LOW_TRY_VOID(workers_->reserve_scratch(host->scratch_bytes));
    launch.samples = invocation.samples.empty() ? nullptr : invocation.samples.data();
    return walk_supersteps(program, [&](const ProgramSuperstep& superstep, auto iterations) -> Result<void> {
      std::ranges::copy(iterations, launch.iterations);
      launch.tile_begin = program.tile_begin.data() + superstep.tile_begin;
      workers_->run_superstep(host->code.entry(superstep.entry), launch, program.tiles);
      if (launch.samples != nullptr) launch.samples += program.tiles;
      return {};
    });
  }

 private:
  const DeviceInfo info_;
  std::mutex run_mutex_;  // guards workers_
  const std::unique_ptr<HostWorkers> workers_;
};

}  // namespace

std::vector<std::string> host_targets() {
  std::vector<std::string> targets;
#if defined(__x86_64__)
  // These look at the processor and at what the system saves on a task switch.
  __builtin_cpu_init();
  if (host_has_dots()) targets.emplace_back("host-x86-64-v4-bf16");
  if (__builtin_cpu_supports("x86-64-v4")) targets.emplace_back("host-x86-64-v4");
  if (__builtin_cpu_supports("x86-64-v3")) targets.emplace_back("host-x86-64-v3");
#endif
  return targets;
}

Result<std::unique_ptr<Device>> open_host_device(const DeviceOptions& options) {
  if (options.threads < 0 || options.threads > max_threads) {
    return fail(ErrorKind::usage, fmt::format("host: cannot use {} threads, expected 1 to {}, or 0 for one a core",
                                              options.threads, max_threads));
  }
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, max_threads);
  auto workers = std::make_unique<HostWorkers>(options.threads == 0 ? cores : options.threads);
  DeviceInfo info;
  info.name = "host";
  info.targets = host_targets();
  const std::string level =
      info.targets.empty() ? "no known processor level" : info.targets.front().substr(std::string("host-").size());
  info.description = fmt::format("{}, {} thread{}", level, workers->threads(), workers->threads() == 1 ? "" : "s");
  return std::make_unique<HostDevice>(std::move(info), std::move(workers));
}

}  // namespace low
