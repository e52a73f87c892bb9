// The description of an accelerator: data, never an `if` in the compiler.
//
// One JSON file for each machine beside this header (embedded at build time), each number with its source. Units are in
// the names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/tensor/dtype.h"

namespace low {

// What one tile's matrix or vector unit does for operands of these math dtypes.
struct MathRate {
  DType a, b;
  double flop_per_cycle = 0;  // of one tile; a multiply-add counts two
};

struct Machine {
  std::string name;  // "mi300x"
  std::string description;
  std::vector<std::string> targets;  // targets it runs; empty: no code generation
  uint32_t tiles = 1;
  uint32_t clusters = 1;       // tiles are numbered so that tile t is in cluster t * clusters / tiles
  bool logical_tiles = false;  // a tile is no hardware unit: any number of them can be asked for (with_tiles)
  bool global_memory = true;
  uint64_t global_memory_bytes = 0;
  uint64_t tile_memory_bytes = 0;    // own memory of a tile, where allocations may live; 0 with global memory
  uint64_t scratch_bytes = 0;        // LDS, or the cache share that one kernel run may count on
  uint32_t vector_lanes = 1;         // f32 lanes that one vector instruction of a tile handles
  double vector_flop_per_cycle = 1;  // f32 pointwise operations of one tile
  std::vector<MathRate> math;        // best first where several fit
  double clock_hz = 1e9;
  double own_bytes_per_cycle = 1;           // a tile from its own memory or scratch
  double cluster_bytes_per_cycle = 1;       // a tile from memory or tiles of its cluster (a shared cache)
  double across_bytes_per_cycle = 1;        // a tile from elsewhere (global memory)
  double device_bytes_per_cycle = 1;        // all tiles together from global memory
  uint64_t shared_cache_bytes = 0;          // a cache of all tiles in front of global memory; 0: none worth counting on
  double shared_cache_bytes_per_cycle = 1;  // all tiles together from it
  double launch_cycles = 0;                 // fixed cost of a superstep
  double transfer_cycles = 0;               // fixed cost of one transfer or copy command
  double command_cycles = 0;                // fixed cost of one kernel run
  uint32_t alignment_bytes = 64;            // of allocations
  // Threads that take turns with the logical tiles; 0: each tile has its own (no number of a file: see on_processor).
  uint32_t workers = 0;
  uint32_t matrix_rows = 16, matrix_columns = 16;  // results of one matrix instruction
  uint64_t accumulator_bytes = 0;                  // registers for the sums of a block; 0: they may lie in memory

  uint32_t cluster_of(uint32_t tile) const { return static_cast<uint32_t>(uint64_t{tile} * clusters / tiles); }
};

// How operands of these storage dtypes are multiplied: the dtypes that each is converted to, which hold all its values,
// and the rate, which is never 0. That is the dtypes themselves where the machine multiplies them (also two different
// FP8 formats), else the first of bf16, f16, f32, f64 that holds both and has a rate, for integers i32 or i64.
MathRate matmul_rate(const Machine& machine, DType a, DType b);
// The same where one dtype has to serve all of several operands. Not empty.
MathRate matmul_rate(const Machine& machine, std::span<const DType> operands);

// Names in alphabetical order.
std::span<const std::string_view> machine_names();
// ErrorKind::usage with the known names when there is none of this name.
Result<Machine> find_machine(std::string_view name);
// ErrorKind::invalid for anything missing, unknown, or out of range.
Result<Machine> parse_machine(std::string_view json, std::string_view what);
// Before a GPU's target: the same kernels for the CPU, lane by lane, for tests.
inline constexpr std::string_view simt_prefix = "simt-";
// Whether this is a target of the machine, or the SIMT target of one.
bool runs(const Machine& machine, std::string_view target);
// The machine that `--target` implies ("host-x86-64-v4", "host", "gfx942", …).
Result<Machine> machine_for_target(std::string_view target);
// What runs the logical tiles of the host.
struct Processor {
  uint32_t threads = 1;
  // Of one thread; a multiply-add counts two.
  double f32_flop_per_cycle = 64, bf16_flop_per_cycle = 128, int8_flop_per_cycle = 256;
  double clock_hz = 3.6e9;
};
// A machine of logical tiles as this processor runs it, for predictions: tiles take turns, arithmetic has the
// processor's width and clock, memory the same bytes a second for each thread as before. Plans are made for the machine
// itself, whoever runs them. Any other machine stays as it is.
Machine on_processor(const Machine& machine, const Processor& processor);

// With a different number of tiles (--tiles), where the machine's tiles are logical (host); ErrorKind::usage otherwise.
Result<Machine> with_tiles(const Machine& machine, uint32_t tiles);

}  // namespace low
