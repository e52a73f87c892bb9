// The package file (.low): a ZIP64 archive with stored entries, sorted names, zeroed times and 64-byte aligned data,
// whose archive comment is "low-package 1 sha256:<hex>" over every byte before the comment's text.
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
#include "runtime/base/thread_pool.h"
#include "runtime/format/program.h"
#include "runtime/tensor/tensor.h"

namespace low {

// Entries of an archive in order of name. Bytes are borrowed from whoever made it.
using ArchiveEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

// The same entries give the same bytes.
std::string write_archive(const ArchiveEntries& entries);
// Into a file, as write_file does, with as many threads as help; the file's size.
Result<uint64_t> write_archive(const ArchiveEntries& entries, const std::string& path, ThreadPool& pool);

// Where an archive's bytes come from: memory, or a file that may change at any time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t bytes() const = 0;
  // Fills `into` from `offset`. ErrorKind::invalid, without a name in front, for what cannot be read.
  virtual Result<void> read(uint64_t offset, std::span<std::byte> into) const = 0;
};
struct ArchiveExtent {
  uint64_t offset = 0, bytes = 0;
};
using ArchiveIndex = std::map<std::string, ArchiveExtent, std::less<>>;  // by name

// Checks the hash first, then every header, name (relative, no "..", sorted, unique) and extent. Reads the source in
// parts and keeps none. ErrorKind::invalid.
Result<ArchiveIndex> read_archive_index(const ByteSource& source, std::string_view what);

struct KernelInfo {
  std::string name;               // on a GPU: the entry point, and its kernels' in parentheses
  uint32_t vgprs = 0, sgprs = 0;  // 0 on the host
  uint32_t vgpr_spills = 0, sgpr_spills = 0;
  uint64_t lds_bytes = 0;
  uint64_t private_bytes = 0;  // of a lane, in memory: what registers have no room for
  bool operator==(const KernelInfo&) const = default;
};
struct TargetInfo {
  std::string target;          // "host-x86-64-v4"
  std::string file;            // entry name of its code object
  uint64_t scratch_bytes = 0;  // that an entry point needs for each tile at work
  std::vector<KernelInfo> kernels;
  std::string base = {};  // the variant's target whose entry points stand in for those that this object lacks; "": none
  std::string clang_version = {};  // "clang version 19.1.7", which made the object
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
  std::string model_sha256;
  std::string model_name;  // the graph's name in the model, not a path
  std::vector<VariantInfo> variants;
  bool operator==(const Manifest&) const = default;
};
std::string serialize(const Manifest& manifest);  // JSON, sorted, "version": 1
Result<Manifest> parse_manifest(std::string_view json, std::string_view what);

// A package in a file that stays open, or in memory; immutable, shared. Of a file, no more than the index and the
// manifest are held: the rest is read when it is asked for, and a file that was cut off since is an error
// (ErrorKind::invalid).
class Package {
 public:
  // ErrorKind::invalid naming the path for anything wrong.
  static Result<std::shared_ptr<const Package>> open(const std::string& path);
  static Result<std::shared_ptr<const Package>> from_bytes(std::string bytes, std::string_view what);

  const Manifest& manifest() const { return manifest_; }
  const ArchiveIndex& entries() const { return entries_; }
  // Where the entry is. ErrorKind::invalid when missing.
  Result<ArchiveExtent> extent(std::string_view name) const;
  // All of its bytes.
  Result<AlignedBytes> entry(std::string_view name) const;
  // Its bytes from `offset` on, as many as `into` has room for, which are there (checked).
  Result<void> read(std::string_view name, uint64_t offset, std::span<std::byte> into) const;
  Result<Program> program(const VariantInfo& variant) const;
  ~Package();

 private:
  Package() = default;
  static Result<std::shared_ptr<const Package>> from_source(std::unique_ptr<ByteSource> source, std::string_view what);
  std::string what_;
  std::unique_ptr<ByteSource> source_;
  Manifest manifest_;
  ArchiveIndex entries_;
};

}  // namespace low
