// Any text as a machine: refused, or one that the cost functions can ask.
#include <cstdint>

#include "compiler/machine/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const Result<Machine> machine = parse_machine({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!machine) return 0;
  LOW_CHECK(matmul_rate(*machine, DType::f8e4m3fn, DType::f32).flop_per_cycle > 0);
  LOW_CHECK(machine->cluster_of(machine->tiles - 1) < machine->clusters);
  return 0;
}
