#include "runtime/format/package.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace low {
namespace {

class Memory final : public ByteSource {
 public:
  explicit Memory(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t bytes() const override { return bytes_.size(); }
  Result<void> read(uint64_t offset, std::span<std::byte> into) const override {
    std::ranges::copy(std::as_bytes(std::span(bytes_)).subspan(offset, into.size()), into.begin());
    return {};
  }

 private:
  std::string bytes_;
};

// Read, not mapped: reading what was cut off meanwhile is an error, touching it in a mapping ends the process.
class File final : public ByteSource {
 public:
  // ErrorKind::invalid for what is not a readable regular file with something in it.
  static Result<std::unique_ptr<ByteSource>> open(const std::string& path) {
    const auto bad = [&](const std::string& reason) {
      return fail(ErrorKind::invalid, fmt::format("{}: {}", path, reason));
    };
    // O_NONBLOCK: opening a named pipe must not wait for a writer before it is refused.
    std::unique_ptr<File> file(new File(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
    if (file->descriptor_ < 0) return bad(fmt::format("cannot open: {}", std::strerror(errno)));
    struct stat status{};
    if (fstat(file->descriptor_, &status) != 0) return bad(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) return bad("is not a regular file");
    if (status.st_size <= 0) return bad("is empty, expected a low package");
    file->bytes_ = static_cast<uint64_t>(status.st_size);
    return file;
  }
  ~File() override {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  uint64_t bytes() const override { return bytes_; }
  Result<void> read(uint64_t offset, std::span<std::byte> into) const override {
    while (!into.empty()) {
      const ssize_t got = pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(ErrorKind::invalid, fmt::format("cannot read: {}", std::strerror(errno)));
      if (got == 0) {
        return fail(ErrorKind::invalid,
                    fmt::format("was cut off while it was read: there is nothing at byte {} of {}", offset, bytes_));
      }
      into = into.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
  uint64_t bytes_ = 0;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Package::~Package() = default;

Result<std::shared_ptr<const Package>> Package::from_source(std::unique_ptr<ByteSource> source, std::string_view what) {
  std::shared_ptr<Package> package(new Package);
  package->what_ = what;
  package->source_ = std::move(source);
  LOW_TRY(package->entries_, read_archive_index(*package->source_, what));
  LOW_TRY(const AlignedBytes json, package->entry("manifest.json"));
  LOW_TRY(package->manifest_, parse_manifest(text_of(json), what));
  for (const VariantInfo& variant : package->manifest_.variants) {
    LOW_TRY_VOID(package->extent(fmt::format("variants/{}/program.bin", variant.machine)));
    for (const TargetInfo& target : variant.targets) LOW_TRY_VOID(package->extent(target.file));
  }
  return package;
}

Result<std::shared_ptr<const Package>> Package::open(const std::string& path) {
  LOW_TRY(std::unique_ptr<ByteSource> file, File::open(path));
  return from_source(std::move(file), path);
}

Result<std::shared_ptr<const Package>> Package::from_bytes(std::string bytes, std::string_view what) {
  return from_source(std::make_unique<Memory>(std::move(bytes)), what);
}

Result<ArchiveExtent> Package::extent(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  return fail(ErrorKind::invalid, fmt::format("{}: the package has no entry '{}'", what_, name));
}

Result<AlignedBytes> Package::entry(std::string_view name) const {
  LOW_TRY(const ArchiveExtent place, extent(name));
  try {
    AlignedBytes bytes(place.bytes);
    LOW_TRY_VOID(read(name, 0, bytes));
    return bytes;
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::unsupported,
                fmt::format("{}: there is no memory for the {} bytes of '{}'", what_, place.bytes, name));
  }
}

Result<void> Package::read(std::string_view name, uint64_t offset, std::span<std::byte> into) const {
  LOW_TRY(const ArchiveExtent place, extent(name));
  LOW_CHECK(offset <= place.bytes && into.size() <= place.bytes - offset);
  if (auto done = source_->read(place.offset + offset, into); !done) return in_context(what_, done.error());
  return {};
}

Result<Program> Package::program(const VariantInfo& variant) const {
  const std::string name = fmt::format("variants/{}/program.bin", variant.machine);
  LOW_TRY(const AlignedBytes bytes, entry(name));
  LOW_TRY(Program program, parse_program(bytes, fmt::format("{}: {}", what_, name)));
  if (program.machine == variant.machine) return program;
  return fail(ErrorKind::invalid, fmt::format("{}: {} is for machine '{}'", what_, name, program.machine));
}

}  // namespace low
