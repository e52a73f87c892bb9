#include <fmt/format.h>

#include "compiler/lowc/json.h"
#include "compiler/lowc/support.h"
#include "compiler/lowc/text.h"
#include "compiler/package/build_info.h"
#include "compiler/workload/workload.h"
#include "runtime/backends.h"
#include "runtime/tensor/tensor_file.h"

namespace low::lowc {
namespace {

void write_json(const KernelInfo& kernel, JsonWriter& json) {
  json.begin_object()
      .member("name", kernel.name)
      .member("vgprs", uint64_t{kernel.vgprs})
      .member("sgprs", uint64_t{kernel.sgprs});
  json.member("lds_bytes", kernel.lds_bytes).member("vgpr_spills", uint64_t{kernel.vgpr_spills});
  json.member("sgpr_spills", uint64_t{kernel.sgpr_spills});
  json.member("private_bytes", kernel.private_bytes).end_object();
}

void write_json(std::string_view name, const std::vector<Binding>& bindings, JsonWriter& json) {
  json.key(name).begin_array();
  for (const Binding& binding : bindings)
    json.begin_object()
        .member("name", binding.name)
        .member("type", to_string(Type{binding.dtype, binding.shape}))
        .member("offset", binding.offset)
        .end_object();
  json.end_array();
}

Result<void> inspect(const InspectCommand& command) {
  LOW_TRY(const std::shared_ptr<const Package> package, Package::open(command.package));
  if (!command.extract.empty()) {
    LOW_TRY(const AlignedBytes bytes, package->entry(command.extract));
    write_stdout({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return {};
  }
  const Manifest& manifest = package->manifest();
  JsonWriter json;
  json.begin_object()
      .member("version", 1)
      .member("producer", manifest.producer)
      .member("source_hash", manifest.source_hash);
  json.member("model_sha256", manifest.model_sha256).key("variants").begin_array();
  std::string text = fmt::format("{}: by {}\nmodel {}\n", command.package, manifest.producer, manifest.model_sha256);
  for (const VariantInfo& variant : manifest.variants) {
    LOW_TRY(const Program program, package->program(variant));
    json.begin_object().member("machine", variant.machine).member("tiles", uint64_t{program.tiles});
    json.member("supersteps", static_cast<uint64_t>(program.supersteps.size()))
        .member("commands", command_count(program));
    json.member("arena_bytes", program.arena_bytes)
        .member("parameter_bytes", program.parameter_bytes)
        .member("flop", program.flop);
    write_json("inputs", program.inputs, json);
    write_json("outputs", program.outputs, json);
    text += fmt::format(
        "machine {}: {} tiles, {} supersteps, {} commands; arena {} bytes, parameters {} bytes, {:.6g} GFLOP a run\n",
        variant.machine, program.tiles, program.supersteps.size(), command_count(program), program.arena_bytes,
        program.parameter_bytes, program.flop / 1e9);
    for (const Binding& binding : program.inputs)
      text += fmt::format("  input {}: {}\n", one_line(binding.name), to_string(Type{binding.dtype, binding.shape}));
    for (const Binding& binding : program.outputs)
      text += fmt::format("  output {}: {}\n", one_line(binding.name), to_string(Type{binding.dtype, binding.shape}));
    json.key("targets").begin_array();
    for (const TargetInfo& target : variant.targets) {
      LOW_TRY(const ArchiveExtent code, package->extent(target.file));
      json.begin_object()
          .member("target", target.target)
          .member("file", target.file)
          .member("bytes", code.bytes)
          .member("clang", target.clang_version);
      json.member("base", target.base).member("scratch_bytes", target.scratch_bytes).key("kernels").begin_array();
      text += fmt::format("  target {}: {} bytes of code by {}, {} bytes of scratch{}\n", target.target, code.bytes,
                          target.clang_version, target.scratch_bytes,
                          target.base.empty() ? "" : "; all else as " + target.base);
      for (const KernelInfo& kernel : target.kernels) {
        write_json(kernel, json);
        text += fmt::format("    {}", kernel.name);
        if (kernel.vgprs > 0)
          text += fmt::format(
              ": {} vector and {} scalar registers, {} and {} spilled; {} bytes of LDS, {} private bytes", kernel.vgprs,
              kernel.sgprs, kernel.vgpr_spills, kernel.sgpr_spills, kernel.lds_bytes, kernel.private_bytes);
        text += '\n';
      }
      json.end_array().end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("entries").begin_array();
  for (const auto& [name, extent] : package->entries())
    json.begin_object().member("name", name).member("bytes", extent.bytes).end_object();
  json.end_array().end_object();
  write_stdout(command.json ? json.text() : text);
  return {};
}

Result<void> workload(const WorkloadCommand& command) {
  if (command.list) {
    for (const std::string& name : workload_names()) write_stdout(name + "\n");
    return {};
  }
  if (command.name.empty() || command.output.empty())
    return fail(ErrorKind::usage, fmt::format("workload: expected a name and -o FILE; the names are: {}",
                                              fmt::join(workload_names(), ", ")));
  LOW_TRY(const std::string bytes,
          make_workload(command.name, {.repeat = command.repeat, .unrolled = command.unrolled}));
  return write_file(command.output, std::as_bytes(std::span(bytes)));
}

}  // namespace

int inspect_command(const InspectCommand& command) { return exit_code(inspect(command)); }
int workload_command(const WorkloadCommand& command) { return exit_code(workload(command)); }

std::string version_text() {
  const auto clang = toolchain_version({});
  return fmt::format("lowc {}\n{}", build_version(), clang ? *clang : "no clang: " + clang.error().message);
}

int devices_command(bool as_json) {
  JsonWriter json;
  json.begin_object().member("version", 1).key("backends").begin_array();
  std::string text;
  for (const BackendEntry& backend : backends()) {
    json.begin_object().member("name", backend.name).key("devices").begin_array();
    for (const std::string& name : backend.devices) {
      auto device = backend.open(name, {});
      const std::string description = device ? (*device)->info().description : device.error().message;
      json.begin_object().member("name", name).member("description", description).key("targets").begin_array();
      std::vector<std::string> targets;
      if (device) targets = (*device)->info().targets;
      for (const std::string& target : targets) json.value(std::string_view(target));
      json.end_array().end_object();
      text += fmt::format("{}: {}; runs {}\n", name, description, fmt::join(targets, ", "));
    }
    json.end_array();
    if (!backend.unavailable.empty()) {
      json.member("unavailable", backend.unavailable);
      text += fmt::format("{}: not available: {}\n", backend.name, backend.unavailable);
    }
    json.end_object();
  }
  json.end_array().end_object();
  write_stdout(as_json ? json.text() : text);
  return 0;
}

int machines_command(bool as_json) {
  JsonWriter json;
  json.begin_object().member("version", 1).key("machines").begin_array();
  std::string text;
  for (const std::string_view name : machine_names()) {
    const auto machine = find_machine(name);
    if (!machine) return report(machine.error());
    json.begin_object()
        .member("name", machine->name)
        .member("description", machine->description)
        .member("tiles", uint64_t{machine->tiles});
    json.member("global_memory", machine->global_memory).key("targets").begin_array();
    for (const std::string& target : machine->targets) json.value(std::string_view(target));
    json.end_array().end_object();
    text += fmt::format("{}: {}; {} tiles; targets: {}\n", machine->name, machine->description, machine->tiles,
                        machine->targets.empty() ? "none (plans and interprets only)"
                                                 : fmt::format("{}", fmt::join(machine->targets, ", ")));
  }
  json.end_array().end_object();
  write_stdout(as_json ? json.text() : text);
  return 0;
}

}  // namespace low::lowc
