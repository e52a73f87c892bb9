// Program: what a machine's variant of a package runs, lowered to the records of abi.h, without any code.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/format/abi.h"
#include "runtime/tensor/tensor.h"

namespace low {

// A tensor of the model's interface: dense, row-major, at `offset` of the arena.
struct Binding {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t offset = 0;
  bool operator==(const Binding&) const = default;
};

// A parameter file of the package, copied to `offset` of the parameter memory.
struct ParameterSegment {
  std::string sha256;  // hex, names the file parameters/<sha256>
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool operator==(const ParameterSegment&) const = default;
};

struct ProgramSuperstep {
  uint32_t entry = 0;       // low_entry_<entry>
  uint32_t tile_begin = 0;  // index into Program::tile_begin of tiles + 1 blocks of Program::commands
  bool operator==(const ProgramSuperstep&) const = default;
};

// The control flow: a list with nested loops.
struct ControlStep {
  enum class Kind : uint32_t { superstep, repeat_begin, repeat_end } kind = Kind::superstep;
  uint32_t superstep = 0;  // superstep: index
  uint32_t level = 0;      // repeat_begin and its repeat_end
  uint64_t count = 0;      // repeat_begin
  bool operator==(const ControlStep&) const = default;
};

struct Program {
  std::string machine;
  uint32_t tiles = 1;
  uint32_t entries = 0;
  uint64_t arena_bytes = 0;
  uint64_t parameter_bytes = 0;
  double flop = 0;  // multiply-adds of matrix operations in one run, times two, repeats counted
  std::vector<Binding> inputs, outputs;
  std::vector<ParameterSegment> parameters;
  std::vector<ControlStep> control;
  std::vector<ProgramSuperstep> supersteps;
  std::vector<uint32_t> tile_begin;
  std::vector<uint64_t> commands;  // records of abi.h (see commands.h)
};

// program.bin: versioned, little-endian, deterministic.
std::string serialize(const Program& program);
// ErrorKind::invalid for anything truncated, out of range, misnested or inconsistent: records within tables, offsets
// within memories (an operand's first byte in every iteration included), bindings inside the arena and not larger than
// it, counts above 0.
Result<Program> parse_program(std::span<const std::byte> bytes, std::string_view what);

// What parse_program checks, for a program in memory.
Result<void> verify(const Program& program, std::string_view what);

// visit(superstep, iterations) in the order in which one run executes supersteps, until one fails; iterations[level] are
// those of the loops around it. The program has passed verify().
Result<void> walk_supersteps(
    const Program& program,
    const std::function<Result<void>(const ProgramSuperstep&, std::span<const uint64_t, abi::max_levels>)>& visit);
// Commands of all supersteps, each counted once; the program has passed verify().
uint64_t command_count(const Program& program);
// Supersteps that one run executes, repeats unrolled; the program has passed verify().
uint64_t executed_supersteps(const Program& program);

}  // namespace low
