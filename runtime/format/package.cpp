#include "runtime/format/package.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace low {

struct Package::Storage {
  std::string what;
  AlignedBytes copy;
  void* mapping = MAP_FAILED;
  size_t mapping_bytes = 0;

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() {
    if (mapping != MAP_FAILED) munmap(mapping, mapping_bytes);
  }

  // ErrorKind::invalid for what is not a readable regular file with something in it.
  Result<void> map(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return fail(ErrorKind::invalid, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
    struct stat status{};
    std::string error;
    if (fstat(file, &status) != 0) {
      error = std::strerror(errno);
    } else if (!S_ISREG(status.st_mode)) {
      error = "is not a regular file";
    } else if (status.st_size <= 0) {
      error = "is empty, expected a low package";
    } else {
      mapping_bytes = static_cast<size_t>(status.st_size);
      mapping = mmap(nullptr, mapping_bytes, PROT_READ, MAP_PRIVATE, file, 0);
      if (mapping == MAP_FAILED) error = fmt::format("cannot map: {}", std::strerror(errno));
    }
    close(file);
    if (!error.empty()) return fail(ErrorKind::invalid, fmt::format("{}: {}", path, error));
    return {};
  }

  std::span<const std::byte> bytes() const {
    if (mapping == MAP_FAILED) return copy;
    return {static_cast<const std::byte*>(mapping), mapping_bytes};
  }
};

Package::~Package() = default;

Result<std::shared_ptr<const Package>> Package::from_storage(std::unique_ptr<Storage> storage) {
  std::shared_ptr<Package> package(new Package);
  package->storage_ = std::move(storage);
  const std::string& what = package->storage_->what;
  LOW_TRY(package->entries_, parse_archive(package->storage_->bytes(), what));
  LOW_TRY(const auto json, package->entry("manifest.json"));
  LOW_TRY(package->manifest_, parse_manifest({reinterpret_cast<const char*>(json.data()), json.size()}, what));
  for (const VariantInfo& variant : package->manifest_.variants) {
    LOW_TRY_VOID(package->entry(fmt::format("variants/{}/program.bin", variant.machine)));
    for (const TargetInfo& target : variant.targets) LOW_TRY_VOID(package->entry(target.file));
  }
  return package;
}

Result<std::shared_ptr<const Package>> Package::open(const std::string& path) {
  auto storage = std::make_unique<Storage>();
  storage->what = path;
  LOW_TRY_VOID(storage->map(path));
  return from_storage(std::move(storage));
}

Result<std::shared_ptr<const Package>> Package::from_bytes(std::string bytes, std::string_view what) {
  auto storage = std::make_unique<Storage>();
  storage->what = what;
  const auto view = std::as_bytes(std::span(bytes));
  storage->copy.assign(view.begin(), view.end());  // entries are as aligned as in a mapped file
  return from_storage(std::move(storage));
}

Result<std::span<const std::byte>> Package::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  return fail(ErrorKind::invalid, fmt::format("{}: the package has no entry '{}'", storage_->what, name));
}

Result<Program> Package::program(const VariantInfo& variant) const {
  const std::string name = fmt::format("variants/{}/program.bin", variant.machine);
  LOW_TRY(const auto bytes, entry(name));
  LOW_TRY(Program program, parse_program(bytes, fmt::format("{}: {}", storage_->what, name)));
  if (program.machine == variant.machine) return program;
  return fail(ErrorKind::invalid, fmt::format("{}: {} is for machine '{}'", storage_->what, name, program.machine));
}

}  // namespace low
