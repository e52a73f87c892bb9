#include "runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>

namespace low {
namespace {

struct Choice {
  const VariantInfo* variant = nullptr;
  const TargetInfo* target = nullptr;
};

Result<Choice> choose(const DeviceInfo& device, const Manifest& manifest) {
  for (const std::string& wanted : device.targets) {
    for (const VariantInfo& variant : manifest.variants) {
      for (const TargetInfo& target : variant.targets) {
        if (target.target == wanted) return Choice{&variant, &target};
      }
    }
  }
  std::set<std::string> present;
  for (const VariantInfo& variant : manifest.variants) {
    for (const TargetInfo& target : variant.targets) present.insert(target.target);
  }
  const auto list = [](const auto& names) {
    return names.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(names, ", "));
  };
  return fail(ErrorKind::unsupported, fmt::format("the package has code for {}, but device '{}' runs {}", list(present),
                                                  device.name, list(device.targets)));
}

std::string type_text(DType dtype, const Shape& shape) { return fmt::format("{}{}", name(dtype), to_string(shape)); }

// In parts, so that no segment is in memory twice.
Result<void> load_segment(const Package& package, const ParameterSegment& segment, Device& device, Buffer& buffer) {
  constexpr uint64_t part_bytes = 1 << 22;
  const std::string file = fmt::format("parameters/{}", segment.sha256);
  LOW_TRY(const ArchiveExtent extent, package.extent(file));
  if (extent.bytes != segment.bytes) {
    return fail(ErrorKind::invalid, fmt::format("{} of the package has {} bytes, but the program expects {}", file,
                                                extent.bytes, segment.bytes));
  }
  AlignedBytes part(std::min(part_bytes, segment.bytes));
  for (uint64_t offset = 0; offset < segment.bytes; offset += part.size()) {
    part.resize(std::min(part_bytes, segment.bytes - offset));
    LOW_TRY_VOID(package.read(file, offset, part));
    LOW_TRY_VOID(device.copy_to_device(buffer, segment.offset + offset, part));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const LoadedProgram>> LoadedProgram::load(Device& device,
                                                                 std::shared_ptr<const Package> package) {
  LOW_TRY(const Choice choice, choose(device.info(), package->manifest()));
  std::shared_ptr<LoadedProgram> loaded(new LoadedProgram);
  loaded->device_ = &device;
  loaded->target_ = choice.target->target;
  LOW_TRY(Program program, package->program(*choice.variant));
  loaded->program_ = std::make_shared<const Program>(std::move(program));
  LOW_TRY(loaded->parameters_, device.allocate(loaded->program_->parameter_bytes));
  for (const ParameterSegment& segment : loaded->program_->parameters) {
    LOW_TRY_VOID(load_segment(*package, segment, device, *loaded->parameters_));
  }
  LOW_TRY(loaded->executable_, device.load(std::move(package), *choice.variant, *choice.target, loaded->program_));
  return loaded;
}

Result<Session> Session::create(std::shared_ptr<const LoadedProgram> program) {
  Session session;
  LOW_TRY(session.arena_, program->device().allocate(program->program().arena_bytes));
  session.program_ = std::move(program);
  return session;
}

Result<void> Session::bind(std::span<const Tensor> inputs) {
  const std::vector<Binding>& bindings = program_->program().inputs;
  if (inputs.size() != bindings.size()) {
    return fail(ErrorKind::usage, fmt::format("there are {} inputs, expected {}", inputs.size(), bindings.size()));
  }
  // All are checked before any is copied.
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Binding& binding = bindings[i];
    const Tensor& input = inputs[i];
    const bool whole = input.bytes().size() == static_cast<uint64_t>(input.elements()) * byte_size(input.dtype());
    if (input.dtype() != binding.dtype || input.shape() != binding.shape || !whole) {
      return fail(ErrorKind::usage,
                  fmt::format("input '{}' is {}{}, expected {}", binding.name, whole ? "" : "an empty placeholder of ",
                              type_text(input.dtype(), input.shape()), type_text(binding.dtype, binding.shape)));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    LOW_TRY_VOID(program_->device().copy_to_device(*arena_, bindings[i].offset, inputs[i].bytes()));
  }
  return {};
}

Result<void> Session::launch(std::span<abi::Sample> samples) {
  return program_->device().run(*program_->executable_, {arena_.get(), program_->parameters_.get(), samples});
}

Result<std::vector<Tensor>> Session::fetch() const {
  std::vector<Tensor> outputs;
  try {
    for (const Binding& binding : program_->program().outputs) {
      Tensor& output = outputs.emplace_back(binding.dtype, binding.shape);
      LOW_TRY_VOID(program_->device().copy_from_device(output.bytes(), *arena_, binding.offset));
    }
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::device, "there is no memory for the outputs");
  }
  return outputs;
}

Result<void> Session::poison(std::byte value) { return program_->device().fill(*arena_, value); }

Result<std::vector<Tensor>> Session::run(std::span<const Tensor> inputs) {
  LOW_TRY_VOID(bind(inputs));
  LOW_TRY_VOID(launch());
  return fetch();
}

}  // namespace low
