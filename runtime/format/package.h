// The package file (.low): a ZIP64 archive with stored entries, sorted names, zeroed times and 64-byte aligned data, whose archive
// comment is "low-package 1 sha256:<hex>" over every byte before the comment's text.
//   manifest.json                                 version, provenance, variants, kernels
//   parameters/<sha256>
//   variants/<machine>/plan.txt, program.bin, source.cpp, kernels/<target>.{so,hsaco}
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/format/program.h"

namespace low {

// Entries of an archive in order of name. Bytes are borrowed from whoever made it.
using ArchiveEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

// The same entries give the same bytes.
std::string write_archive(const ArchiveEntries& entries);
// Checks the hash first, then every header, name (relative, no "..", sorted, unique) and extent. ErrorKind::invalid.
Result<ArchiveEntries> parse_archive(std::span<const std::byte> bytes, std::string_view what);

struct KernelInfo {
  std::string name;
  uint32_t vgprs = 0, sgprs = 0, vgpr_spills = 0;  // 0 on the host
  uint64_t lds_bytes = 0;
  bool operator==(const KernelInfo&) const = default;
};
struct TargetInfo {
  std::string target;          // "host-x86-64-v4"
  std::string file;            // entry name of its code object
  uint64_t scratch_bytes = 0;  // that an entry point needs for each tile at work
  std::vector<KernelInfo> kernels;
  bool operator==(const TargetInfo&) const = default;
};
struct VariantInfo {
  std::string machine;
  std::vector<TargetInfo> targets;
  bool operator==(const VariantInfo&) const = default;
};
struct Manifest {
  std::string producer;     // "lowc 0.1.0"
  std::string source_hash;  // of lowc's own sources
  std::string lock_hash;    // of flake.lock
  std::string clang_version;
  std::string model_sha256;
  std::string model_name;  // the graph's name in the model, not a path
  std::vector<VariantInfo> variants;
  bool operator==(const Manifest&) const = default;
};
std::string serialize(const Manifest& manifest);  // JSON, sorted, "version": 1
Result<Manifest> parse_manifest(std::string_view json, std::string_view what);

// A package in memory or mapped; immutable, shared.
class Package {
 public:
  // Maps the file. ErrorKind::invalid naming the path for anything wrong.
  static Result<std::shared_ptr<const Package>> open(const std::string& path);
  static Result<std::shared_ptr<const Package>> from_bytes(std::string bytes, std::string_view what);

  const Manifest& manifest() const { return manifest_; }
  const ArchiveEntries& entries() const { return entries_; }
  // ErrorKind::invalid when missing.
  Result<std::span<const std::byte>> entry(std::string_view name) const;
  Result<Program> program(const VariantInfo& variant) const;
  ~Package();

 private:
  Package() = default;
  struct Storage;
  static Result<std::shared_ptr<const Package>> from_storage(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
  Manifest manifest_;
  ArchiveEntries entries_;
};

}  // namespace low
