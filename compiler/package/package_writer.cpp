#include "compiler/package/package_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

#include "compiler/codegen/targets.h"
#include "compiler/package/build_info.h"

namespace low {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// What a package holds; the compilation's bytes are borrowed.
struct Contents {
  std::deque<std::string> made;
  ArchiveEntries entries;

  void add(std::string name, std::span<const std::byte> bytes) { entries.emplace(std::move(name), bytes); }
  void add(std::string name, std::string text) { add(std::move(name), as_bytes(made.emplace_back(std::move(text)))); }
};

// Of a GPU's object: "low_entry_0 (gemm_1, copy_2)".
std::vector<KernelInfo> named_entries(const Compilation& compilation, const CodeObject& object) {
  std::vector<KernelInfo> infos = object.entries;
  const KernelSet& kernels = compilation.kernels;
  for (size_t entry = 0; entry < kernels.entries.size(); ++entry) {
    const auto info = std::ranges::find(infos, fmt::format("low_entry_{}", entry), &KernelInfo::name);
    if (info == infos.end()) continue;
    std::vector<std::string> names;
    for (const uint32_t kernel : kernels.entries[entry]) names.push_back(kernel_name(kernels, kernel));
    info->name += fmt::format(" ({})", fmt::join(names, ", "));
  }
  return infos;
}

VariantInfo add_variant(const Compilation& compilation, Contents& contents) {
  LOW_CHECK(!compilation.objects.empty());
  const std::string folder = fmt::format("variants/{}/", compilation.planned.machine.name);
  VariantInfo variant{.machine = compilation.planned.machine.name, .targets = {}};
  std::vector<KernelInfo> kernels;
  const size_t count = compilation.kernels.contracts.size() + compilation.kernels.copies.size();
  for (uint32_t i = 0; i < count; ++i) kernels.push_back({.name = kernel_name(compilation.kernels, i)});
  for (const CodeObject& object : compilation.objects) {
    const std::string file =
        fmt::format("{}kernels/{}{}", folder, object.target, find_target(object.target)->kind->object_suffix);
    variant.targets.push_back({.target = object.target,
                               .file = file,
                               .scratch_bytes = object.scratch_bytes,
                               .kernels = object.entries.empty() ? kernels : named_entries(compilation, object),
                               .base = object.base,
                               .clang_version = object.clang_version});
    contents.add(file, as_bytes(object.bytes));
  }

  // A parameter is stored once, under the hash of its bytes.
  for (const ConstantBox& constant : compilation.planned.graph.constants())
    contents.add("parameters/" + constant.sha256(), constant.tensor()->bytes());

  contents.add(folder + "plan.txt", print(compilation.planned.plan()));
  contents.add(folder + "program.bin", serialize(compilation.program));
  contents.add(folder + "source.cpp", as_bytes(compilation.source));
  return variant;
}

Contents contents_of(std::span<const Compilation> machines, const Provenance& provenance) {
  Contents contents;
  Manifest manifest{.producer = fmt::format("lowc {}", build_version()),
                    .source_hash = std::string(build_source_hash()),
                    .lock_hash = std::string(build_lock_hash()),
                    .model_sha256 = provenance.model_sha256,
                    .model_name = provenance.model_name,
                    .variants = {}};
  for (const Compilation& compilation : machines) manifest.variants.push_back(add_variant(compilation, contents));
  contents.add("manifest.json", serialize(manifest));
  return contents;
}

}  // namespace

std::string write_package(std::span<const Compilation> machines, const Provenance& provenance) {
  return write_archive(contents_of(machines, provenance).entries);
}

Result<uint64_t> write_package(std::span<const Compilation> machines, const Provenance& provenance,
                               const std::string& path, ThreadPool& pool) {
  return write_archive(contents_of(machines, provenance).entries, path, pool);
}

}  // namespace low
