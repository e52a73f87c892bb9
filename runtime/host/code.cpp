#include "runtime/host/code.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace low {
namespace {

// The loader trusts a file's headers and would fault on what lies beyond its end.
Result<void> check_object(std::span<const std::byte> object, std::string_view what) {
  Elf64_Ehdr header;
  if (object.size() < sizeof(header))
    return fail(ErrorKind::invalid, fmt::format("{}: is too short for a shared object", what));
  std::memcpy(&header, object.data(), sizeof(header));
  const bool fits = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                    header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_DYN &&
                    header.e_machine == EM_X86_64 && header.e_phentsize == sizeof(Elf64_Phdr);
  if (!fits) return fail(ErrorKind::invalid, fmt::format("{}: is not an x86-64 shared object", what));
  const uint64_t segments_bytes = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_phoff > object.size() || segments_bytes > object.size() - header.e_phoff) {
    return fail(ErrorKind::invalid, fmt::format("{}: the shared object's segment table is cut off", what));
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, object.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_offset > object.size() || segment.p_filesz > object.size() - segment.p_offset) {
      return fail(ErrorKind::invalid, fmt::format("{}: segment {} of the shared object is cut off", what, i));
    }
  }
  return {};
}

std::string path_of(int file) { return fmt::format("/proc/self/fd/{}", file); }

// A file in memory whose path no library is loaded under. The loader takes equal paths for equal libraries; a library
// that could not be unloaded keeps the path of a descriptor that was closed since.
Result<int> file_in_memory(std::span<const std::byte> bytes, std::string_view what) {
  const auto refused = [&](const char* action) {
    return fail(ErrorKind::device,
                fmt::format("{}: host: cannot {} a file in memory: {}", what, action, std::strerror(errno)));
  };
  int file = memfd_create("low-kernels", MFD_CLOEXEC);
  if (file < 0) return refused("create");
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t step = write(file, bytes.data() + written, bytes.size() - written);
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) {
      const auto error = refused("write");
      close(file);
      return error;
    }
    written += static_cast<size_t>(step);
  }
  while (void* stale = dlopen(path_of(file).c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    dlclose(stale);
    const int next = fcntl(file, F_DUPFD_CLOEXEC, file + 1);
    if (next < 0) {
      const auto error = refused("duplicate");
      close(file);
      return error;
    }
    close(file);
    file = next;
  }
  return file;
}

}  // namespace

HostCode::HostCode(HostCode&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      library_(std::exchange(other.library_, nullptr)),
      base_(std::move(other.base_)),
      entries_(std::move(other.entries_)) {}

HostCode::~HostCode() {
  if (library_ != nullptr) dlclose(library_);
  if (file_ >= 0) close(file_);  // after the library is gone, since the next file may get this number and path
}

void* HostCode::symbol(const char* name) const { return dlsym(library_, name); }

// No lock: while a library is loaded its descriptor is open, so no other thread's file has the same path.
Result<HostCode> HostCode::load(std::span<const std::byte> object, uint32_t entries, std::string_view what,
                                std::unique_ptr<HostCode> base) {
  LOW_TRY_VOID(check_object(object, what));
  HostCode code;
  code.base_ = std::move(base);
  LOW_TRY(code.file_, file_in_memory(object, what));
  code.library_ = dlopen(path_of(code.file_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (code.library_ == nullptr) {
    const char* reason = dlerror();
    return fail(ErrorKind::invalid,
                fmt::format("{}: cannot load: {}", what, reason == nullptr ? "unknown error" : reason));
  }
  for (uint32_t i = 0; i < entries; ++i) {
    const std::string name = fmt::format("low_entry_{}", i);
    void* address = dlsym(code.library_, name.c_str());
    if (address == nullptr && code.base_ != nullptr) {
      code.entries_.push_back(code.base_->entry(i));
      continue;
    }
    if (address == nullptr) {
      return fail(ErrorKind::invalid,
                  fmt::format("{}: has no {}, but the program has {} entry points", what, name, entries));
    }
    code.entries_.push_back(reinterpret_cast<abi::HostEntry>(address));
  }
  return code;
}

}  // namespace low
