// The target of this program's tests of kernels: the SIMT one that LOW_SIMT_TARGET names, or gfx942's.
#include <cstdlib>

#include "compiler/codegen/test_kernels.h"
#include "hwtests/simt/simt.h"

namespace low::testing {

std::vector<std::string> test_targets() {
  const char* const named = std::getenv("LOW_SIMT_TARGET");
  return {named != nullptr ? named : "simt-gfx942"};
}

const Machine& test_machine() {
  static const Machine machine = *machine_for_target(test_targets().front());
  return machine;
}

Code load(const CodeObject& object) {
  const auto machine = machine_for_target(object.target);
  LOW_CHECK(machine.has_value());
  const uint32_t tiles_of_cluster = machine->tiles / machine->clusters;  // as tile_of_workgroup has it
  const device::Chip& chip = simt::chip_of(object.target);
  const uint32_t workgroup = 1 % tiles_of_cluster * machine->clusters + 1 / tiles_of_cluster;
  auto code = simt::Code::load(std::as_bytes(std::span(object.bytes)), 1, object.target);
  if (!code) {
    std::fprintf(stderr, "%s\n", code.error().message.c_str());
    std::abort();
  }
  return {.target = object.target,
          .scratch_bytes = object.scratch_bytes,
          .contracts = {},
          .run = [workgroup, &chip, code = std::make_shared<simt::Code>(std::move(*code))](
                     const abi::Launch& launch, unsigned char*, std::span<const Region> regions) {
            simt::Gpu gpu(chip);
            for (const Region& region : regions)
              gpu.add_memory({launch.memories[abi::memory_arena] + region.begin, region.bytes}, true);
            if (launch.samples != nullptr)
              gpu.add_memory({reinterpret_cast<unsigned char*>(launch.samples), 2 * sizeof(abi::Sample)}, false);
            gpu.launch_one(code->entry(0), launch, workgroup);
            return gpu.findings();
          }};
}

}  // namespace low::testing
