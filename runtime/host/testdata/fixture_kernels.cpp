// Entry points written by hand, for tests of what loads and runs them. Elements are i32.
#include "runtime/format/abi.h"

namespace {

using namespace low::abi;

int32_t* address(const Launch& launch, const Operand& operand) {
  int64_t offset = 0;
  for (uint32_t i = 0; i < operand.term_count; ++i) {
    const Term& term = launch.terms[operand.term_begin + i];
    offset += static_cast<int64_t>(launch.iterations[term.level] % term.period) * term.stride;
  }
  return reinterpret_cast<int32_t*>(launch.memories[operand.memory] + operand.offset + offset);
}

// numbers[data] elements. Kernel 0: out = a + factor * b. Kernel 1: out = in, by way of the scratch; 99 if that is not
// aligned.
void run_command(const Launch& launch, const Command& command, unsigned char* scratch) {
  const Operand* operands = launch.operands + command.operand_begin;
  const int64_t count = launch.numbers[command.data];
  if (command.kernel == 0) {
    const int32_t* a = address(launch, operands[0]);
    const int32_t* b = address(launch, operands[1]);
    int32_t* out = address(launch, operands[2]);
    for (int64_t i = 0; i < count; ++i) out[i] = a[i] + LOW_FIXTURE_FACTOR * b[i];
  } else {
    const int32_t* in = address(launch, operands[0]);
    int32_t* out = address(launch, operands[1]);
    auto* middle = reinterpret_cast<int32_t*>(scratch);
    const bool aligned = reinterpret_cast<uintptr_t>(scratch) % 64 == 0;
    for (int64_t i = 0; i < count; ++i) middle[i] = in[i];
    for (int64_t i = 0; i < count; ++i) out[i] = aligned ? middle[i] : 99;
  }
}

// Between fences, since the processor may otherwise read the counter before it has done what comes first in the
// program.
uint64_t ticks() {
  __builtin_ia32_mfence();
  __builtin_ia32_lfence();
  const uint64_t now = __builtin_ia32_rdtsc();
  __builtin_ia32_lfence();
  return now;
}

void run_tile(const Launch& launch, uint32_t tile, unsigned char* scratch) {
  if (launch.samples != nullptr) launch.samples[tile].begin = ticks();
  for (uint32_t i = launch.tile_begin[tile]; i < launch.tile_begin[tile + 1]; ++i) {
    run_command(launch, launch.commands[i], scratch);
  }
  if (launch.samples != nullptr) launch.samples[tile].end = ticks();
}

}  // namespace

extern "C" void low_entry_0(const Launch* launch, uint32_t tile, unsigned char* scratch) {
  run_tile(*launch, tile, scratch);
}
#if LOW_FIXTURE_FACTOR != 5
extern "C" void low_entry_1(const Launch* launch, uint32_t tile, unsigned char* scratch) {
  run_tile(*launch, tile, scratch);
}
#endif
