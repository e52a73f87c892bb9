// Entry points written by hand, for tests of what loads and runs them. Elements are i32.
#include "runtime/format/abi.h"

namespace {

using namespace low::abi;

int32_t* address(const Launch& launch, const Command& command, uint32_t index) {
  const auto* words = reinterpret_cast<const uint64_t*>(&command);
  const auto& operand =
      *reinterpret_cast<const Operand*>(words + operand_word(command.data_count, command.stride_count, index));
  const auto* terms = reinterpret_cast<const Term*>(words + term_word(command));
  int64_t offset = 0;
  for (uint32_t i = 0; i < operand.term_count; ++i) {
    const Term& term = terms[operand.term_begin + i];
    offset += static_cast<int64_t>(launch.iterations[term.level] % term.period) * term.stride;
  }
  return reinterpret_cast<int32_t*>(launch.memories[operand.memory] + operand.offset + offset);
}

// As many elements as the first number of the data says. Kernel 0: out = a + factor * b. Kernel 1: out = in, by way of the scratch; 99 if that is not
// aligned.
void run_command(const Launch& launch, const Command& command, unsigned char* scratch) {
  const auto count = static_cast<int64_t>(reinterpret_cast<const uint64_t*>(&command)[data_word]);
  if (command.kernel == 0) {
    const int32_t* a = address(launch, command, 0);
    const int32_t* b = address(launch, command, 1);
    int32_t* out = address(launch, command, 2);
    for (int64_t i = 0; i < count; ++i) out[i] = a[i] + LOW_FIXTURE_FACTOR * b[i];
  } else {
    const int32_t* in = address(launch, command, 0);
    int32_t* out = address(launch, command, 1);
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
  for (uint32_t block = launch.tile_begin[tile]; block < launch.tile_begin[tile + 1];) {
    const auto& command = *reinterpret_cast<const Command*>(launch.commands + uint64_t{block} * block_words);
    run_command(launch, command, scratch);
    block += command.blocks;
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
