// Session: load a package on a device, bind tensors, run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/device.h"

namespace low {

// Code and parameters on a device: immutable, shared by any number of sessions.
class LoadedProgram {
 public:
  // Picks the first of the device's targets for which the package has a variant (all variants are looked at in order).
  // ErrorKind::unsupported naming both sides' targets when there is none. The device must outlive the program.
  static Result<std::shared_ptr<const LoadedProgram>> load(Device& device, std::shared_ptr<const Package> package);

  const Program& program() const { return *program_; }
  const std::string& target() const { return target_; }
  Device& device() const { return *device_; }

 private:
  friend class Session;
  LoadedProgram() = default;
  Device* device_ = nullptr;
  std::string target_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<Buffer> parameters_;
};

// One arena, one call at a time; two sessions share no mutable state.
class Session {
 public:
  static Result<Session> create(std::shared_ptr<const LoadedProgram> program);

  // `inputs` in the program's order with just its types (ErrorKind::usage naming the input otherwise). Each call
  // poisons nothing and copies inputs in and outputs out.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs);
  // For benchmarks and tests, the parts of run().
  Result<void> bind(std::span<const Tensor> inputs);
  // `samples`: as in Invocation, tiles x executed_supersteps(program) or none.
  Result<void> launch(std::span<abi::Sample> samples = {});
  Result<std::vector<Tensor>> fetch() const;
  // Fills the arena with a byte, so that a result that was not computed shows.
  Result<void> poison(std::byte value);

 private:
  std::shared_ptr<const LoadedProgram> program_;
  std::unique_ptr<Buffer> arena_;
};

}  // namespace low
