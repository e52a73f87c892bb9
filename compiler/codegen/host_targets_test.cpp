// The targets of this program's tests: those of the host that this processor runs.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/codegen/test_kernels.h"

namespace low::testing {
namespace {

bool cpu_runs(std::string_view target) {
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                  __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  const bool bf16 = v4 && __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512vbmi") != 0 &&
                    __builtin_cpu_supports("avx512vnni") != 0;
  return target == "host-x86-64-v4-bf16" ? bf16 : target == "host-x86-64-v4" ? v4 : target == "host-x86-64-v3" && v3;
}

}  // namespace

std::vector<std::string> test_targets() {
  std::vector<std::string> targets;
  for (const std::string_view target : codegen_targets()) {
    if (cpu_runs(target)) targets.emplace_back(target);
  }
  return targets;
}

const Machine& test_machine() {
  static const Machine host = *find_machine("host");
  return host;
}

Code load(const CodeObject& object, uint32_t entries) {
  const int file = memfd_create("kernels", MFD_CLOEXEC);
  LOW_CHECK(file >= 0);
  LOW_CHECK(write(file, object.bytes.data(), object.bytes.size()) == static_cast<ssize_t>(object.bytes.size()));
  // The descriptor stays open: a library that is opened by the same name again would be taken for this one.
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  std::vector<abi::HostEntry> symbols;
  for (uint32_t i = 0; i < entries; ++i) {
    void* const symbol = dlsym(library, ("low_entry_" + std::to_string(i)).c_str());
    LOW_CHECK(symbol != nullptr);
    symbols.push_back(reinterpret_cast<abi::HostEntry>(symbol));
  }
  return {.target = object.target,
          .scratch_bytes = object.scratch_bytes,
          .contracts = {},
          .run = [symbols](const abi::Launch& launch, unsigned char* scratch, std::span<const Region>) {
            symbols[entry_for(launch, static_cast<uint32_t>(symbols.size()))](&launch, 1, scratch);
            return std::vector<std::string>();
          }};
}

}  // namespace low::testing
