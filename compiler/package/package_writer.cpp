#include "compiler/package/package_writer.h"

#include <fmt/format.h>

#include "compiler/codegen/targets.h"
#include "compiler/package/build_info.h"

namespace low {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

Result<std::string> write_package(const Compilation& compilation, const Provenance& provenance) {
  LOW_CHECK(!compilation.objects.empty());
  const std::string folder = fmt::format("variants/{}/", compilation.planned.machine.name);
  VariantInfo variant{.machine = compilation.planned.machine.name, .targets = {}};
  ArchiveEntries entries;

  std::vector<KernelInfo> kernels;
  const size_t count = compilation.kernels.contracts.size() + compilation.kernels.copies.size();
  for (uint32_t i = 0; i < count; ++i) kernels.push_back({.name = kernel_name(compilation.kernels, i)});
  for (const CodeObject& object : compilation.objects) {
    const std::string file =
        fmt::format("{}kernels/{}{}", folder, object.target, find_target(object.target)->kind->object_suffix);
    variant.targets.push_back({.target = object.target,
                               .file = file,
                               .scratch_bytes = object.scratch_bytes,
                               .kernels = kernels,
                               .base = object.base});
    entries.emplace(file, as_bytes(object.bytes));
  }

  // A parameter is stored once, under the hash of its bytes.
  for (const ConstantBox& constant : compilation.planned.graph.constants())
    entries.emplace("parameters/" + constant.sha256(), constant.tensor()->bytes());

  const std::string plan = print(compilation.planned.plan());
  const std::string program = serialize(compilation.program);
  entries.emplace(folder + "plan.txt", as_bytes(plan));
  entries.emplace(folder + "program.bin", as_bytes(program));
  entries.emplace(folder + "source.cpp", as_bytes(compilation.source));

  const Manifest manifest{.producer = fmt::format("lowc {}", build_version()),
                          .source_hash = std::string(build_source_hash()),
                          .lock_hash = std::string(build_lock_hash()),
                          .clang_version = compilation.objects.front().clang_version,
                          .model_sha256 = provenance.model_sha256,
                          .model_name = provenance.model_name,
                          .variants = {std::move(variant)}};
  const std::string manifest_text = serialize(manifest);
  entries.emplace("manifest.json", as_bytes(manifest_text));
  return write_archive(entries);
}

}  // namespace low
