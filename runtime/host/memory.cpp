#include "runtime/host/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace low {
namespace {

constexpr uint64_t huge_page_bytes = uint64_t{2} << 20;

uint64_t mapped_bytes(uint64_t bytes) { return std::max<uint64_t>(bytes, 1); }

}  // namespace

Result<HostMemory> HostMemory::map(uint64_t bytes) {
  // Linux promises more than there is, and kills a process that uses the promise.
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    const uint64_t machine_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
    if (bytes > machine_bytes) {
      return fail(ErrorKind::device,
                  fmt::format("host: cannot allocate {} bytes: the machine has {}", bytes, machine_bytes));
    }
  }
  void* data = mmap(nullptr, mapped_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorKind::device, fmt::format("host: cannot allocate {} bytes: {}", bytes, std::strerror(errno)));
  }
  // Fewer misses of the address cache; where the system has no huge pages, the small ones do.
  if (bytes >= huge_page_bytes) madvise(data, bytes, MADV_HUGEPAGE);
  HostMemory memory;
  memory.data_ = static_cast<unsigned char*>(data);
  memory.bytes_ = bytes;
  return memory;
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) munmap(data_, mapped_bytes(bytes_));
}

}  // namespace low
