// The interface between compiled kernels and the runtime. Freestanding C++20, plain data, the same bytes on every
// target: a package holds these records, a backend places them in device memory, and the entry points read them.
//
// A superstep is one launch over all tiles. The entry point walks one tile's commands; each command runs one kernel on
// operands. A command is one flat record of whole blocks of 64 bytes, so that a kernel has all that it needs after one
// load that depends on another (tile_begin, then the record):
//
//   Command               16 bytes
//   data                  data_count numbers of 8 bytes
//   operands              operand_count times: Operand, then stride_count strides of 8 bytes
//   terms                 term_count times: Term
//   zeros                 up to the record's end
//
// How many data and strides there are follows from the kernel's contract, so that kernels may know every place when they
// are compiled. The address of an operand is
//   memories[memory] + offset + sum over its terms of (iterations[level] mod period) * stride      (bytes)
// where iterations[level] is the current iteration of the level-th enclosing Repeat (0 is outermost).
#pragma once

#ifndef LOW_FREESTANDING
#include <cstddef>
#include <cstdint>
#endif

namespace low::abi {

// Memories of a program.
inline constexpr uint32_t memory_arena = 0;       // inputs, outputs, intermediates; one for each session
inline constexpr uint32_t memory_parameters = 1;  // constants; read-only, shared by sessions
inline constexpr uint32_t memory_count = 2;
inline constexpr uint32_t max_levels = 8;  // of nested Repeats

inline constexpr uint32_t block_words = 8;  // of 8 bytes
inline constexpr uint32_t max_copy_rank = 8;

struct Command {
  uint32_t kernel;         // case of the entry point's switch
  uint32_t blocks;         // of the record
  uint16_t data_count;     // the run's extents; of a copy: rank, max_copy_rank counts, the chunk
  uint16_t operand_count;  // the result is the last
  uint16_t stride_count;   // strides that each operand has room for; of a copy: max_copy_rank
  uint16_t term_count;     // of all operands
};

struct Operand {
  uint64_t offset;  // bytes
  uint32_t memory;
  uint16_t term_begin;  // in the record's terms
  uint16_t term_count;
};  // followed by its strides, in elements

struct Term {
  int64_t stride;  // bytes
  uint32_t level;
  uint32_t period;  // at least 1
};

static_assert(sizeof(Command) == 16 && sizeof(Operand) == 16 && sizeof(Term) == 16);

// Where a record has its parts, in words of 8 bytes from its begin.
inline constexpr uint64_t data_word = 2;
constexpr uint64_t operand_word(uint64_t data_count, uint64_t stride_count, uint64_t operand) {
  return data_word + data_count + operand * (2 + stride_count);
}
constexpr uint64_t term_word(const Command& command) {
  return operand_word(command.data_count, command.stride_count, command.operand_count);
}
constexpr uint64_t record_words(const Command& command) {
  return term_word(command) + uint64_t{2} * command.term_count;
}

// Written by a tile around a superstep when Launch::samples is not null: ticks of a constant-rate counter.
struct Sample {
  uint64_t begin;
  uint64_t end;
};

struct Launch {
  unsigned char* memories[memory_count];
  const uint64_t* commands;    // records, 64-byte aligned
  const uint32_t* tile_begin;  // tiles + 1 indices of blocks in `commands` for this superstep
  Sample* samples;             // one for each tile, or null
  uint64_t iterations[max_levels];
};

// Host entry points: extern "C" void low_entry_N(const Launch*, uint32_t tile, unsigned char* scratch), where scratch
// is 64-byte aligned, has the program's scratch bytes for the target, and holds anything.
using HostEntry = void (*)(const Launch*, uint32_t tile, unsigned char* scratch);

}  // namespace low::abi
