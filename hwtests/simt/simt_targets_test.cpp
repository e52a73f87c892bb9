// The target of this program's tests of kernels: the SIMT one that LOW_SIMT_TARGET names, or gfx942's; "all": of all
// chips.
#include <fmt/format.h>

#include <cstdlib>

#include "compiler/codegen/test_kernels.h"
#include "compiler/kernels/data/workgroups.h"
#include "hwtests/simt/simt.h"

namespace low::testing {

std::vector<std::string> test_targets() {
  const char* const named = std::getenv("LOW_SIMT_TARGET");
  if (named != nullptr && std::string_view(named) == "all") {
    std::vector<std::string> targets;
    for (const device::Chip* chip : device::chips) targets.push_back(std::string("simt-") + chip->target);
    return targets;
  }
  return {named != nullptr ? named : "simt-gfx942"};
}

const Machine& test_machine() {
  static const Machine machine = *machine_for_target(test_targets().front());
  return machine;
}

Code load(const CodeObject& object, uint32_t entries) {
  const auto machine = machine_for_target(object.target);
  LOW_CHECK(machine.has_value());
  const device::Chip& chip = simt::chip_of(object.target);
  struct Counts {
    uint64_t runs = 0, accesses = 0, meetings = 0;
  };
  const auto counts = std::make_shared<Counts>();
  const uint32_t workgroup = device::workgroup_of_tile(1, machine->tiles, machine->clusters);
  auto code = simt::Code::load(std::as_bytes(std::span(object.bytes)), entries, object.target);
  if (!code) {
    std::fprintf(stderr, "%s\n", code.error().message.c_str());
    std::abort();
  }
  return {.target = object.target,
          .scratch_bytes = object.scratch_bytes,
          .contracts = {},
          .run =
              [workgroup, &chip, entries, counts, code = std::make_shared<simt::Code>(std::move(*code))](
                  const abi::Launch& launch, unsigned char*, std::span<const Region> regions) {
                simt::Gpu gpu(chip);
                for (const Region& region : regions)
                  gpu.add_memory({launch.memories[abi::memory_arena] + region.begin, region.bytes}, true);
                if (launch.samples != nullptr)
                  gpu.add_memory({reinterpret_cast<unsigned char*>(launch.samples), 2 * sizeof(abi::Sample)}, false);
                gpu.launch(code->entry(entry_for(launch, entries)), launch, {&workgroup, 1});
                ++counts->runs;
                counts->accesses += gpu.accesses();
                counts->meetings += gpu.meetings();
                return gpu.findings();
              },
          .report =
              [counts] {
                return fmt::format("{} runs, {} accesses, {} meetings of waves", counts->runs, counts->accesses,
                                   counts->meetings);
              }};
}

}  // namespace low::testing
