// The interface between compiled kernels and the runtime. Freestanding C++20, plain data, the same bytes on every
// target: a package holds these tables, a backend places them in device memory, and the entry points read them.
//
// A superstep is one launch over all tiles. The entry point walks one tile's commands; each command runs one kernel on
// operands. The address of an operand is
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

struct Term {
  uint32_t level;
  uint32_t period;  // at least 1
  int64_t stride;   // bytes
};

struct Operand {
  uint32_t memory;
  uint32_t
      strides;  // index into `numbers` of the first stride, in elements; how many there are is the kernel's contract
  uint64_t offset;      // bytes
  uint32_t term_begin;  // in `terms`
  uint32_t term_count;
};

struct Command {
  uint32_t kernel;         // case of the entry point's switch
  uint32_t operand_begin;  // in `operands`; the result is the last
  uint32_t operand_count;
  uint32_t
      data;  // index into `numbers` of the run's extents (copy: rank, that many counts, then the chunk), or no_data
};
inline constexpr uint32_t no_data = 0xffffffffu;

// Written by a tile around a superstep when Launch::samples is not null: ticks of a constant-rate counter.
struct Sample {
  uint64_t begin;
  uint64_t end;
};

struct Launch {
  unsigned char* memories[memory_count];
  const Command* commands;
  const uint32_t* tile_begin;  // tiles + 1 indices into `commands` for this superstep
  const Operand* operands;
  const Term* terms;
  const int64_t* numbers;
  const uint64_t* iterations;  // max_levels
  Sample* samples;             // one for each tile, or null
};

// Host entry points: extern "C" void low_entry_N(const Launch*, uint32_t tile, unsigned char* scratch), where scratch
// is 64-byte aligned, has the program's scratch bytes for the target, and holds anything.
using HostEntry = void (*)(const Launch*, uint32_t tile, unsigned char* scratch);

}  // namespace low::abi
