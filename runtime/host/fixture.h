// For tests: a package around testdata/fixture_kernels.cpp, and what it must compute. With T tiles of W elements, F the
// code's factor:
//   A[0][t] = x[t]
//   repeat i < 3:   A[(i+1)%2][t] = A[i%2][(t+1)%T] + F * p[i][t]
//     repeat j < 2: A[(i+1)%2][t] += F * q[j][t]
//   y = A[1]
// The neighbour's value makes a missing barrier show, y the ping-pong and its negative stride.
#pragma once

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/sha256.h"
#include "runtime/format/commands.h"
#include "runtime/format/package.h"

namespace low::fixture {

inline constexpr uint32_t width = 5;
inline constexpr uint32_t outer = 3;
inline constexpr uint32_t inner = 2;
inline constexpr uint64_t executed = 1 + outer * (1 + inner);
inline constexpr uint64_t scratch_bytes = width * 4;

using Words = std::vector<int32_t>;

inline Words parameter_words(uint32_t tiles) {  // p, then q
  Words words;
  for (uint32_t i = 0; i < (outer + inner) * tiles * width; ++i) words.push_back(static_cast<int32_t>(7 * i + 1));
  return words;
}

inline std::string bytes_of(const Words& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(int32_t)};
}

inline std::string sha256_of(const std::string& bytes) { return sha256_hex(std::as_bytes(std::span(bytes))); }

inline Words expected(const Words& x, uint32_t tiles, int32_t factor) {
  const Words parameters = parameter_words(tiles);
  const uint32_t slab = tiles * width;
  Words now = x;
  for (uint32_t i = 0; i < outer; ++i) {
    Words next(slab);
    for (uint32_t t = 0; t < tiles; ++t) {
      for (uint32_t e = 0; e < width; ++e) {
        const uint32_t at = t * width + e;
        next[at] = now[(t + 1) % tiles * width + e] + factor * parameters[i * slab + at];
        for (uint32_t j = 0; j < inner; ++j) next[at] += factor * parameters[(outer + j) * slab + at];
      }
    }
    now = next;
  }
  return now;
}

inline Program program(uint32_t tiles) {
  const uint64_t row = width * 4;
  const uint64_t slab = tiles * row;
  const auto step = static_cast<int64_t>(slab);
  Program program;
  program.machine = "host";
  program.tiles = tiles;
  program.entries = 2;
  program.arena_bytes = 3 * slab;  // x, A[0], A[1]
  program.parameter_bytes = (outer + inner) * slab;
  program.flop = 0.5;
  const Shape shape{static_cast<int64_t>(tiles), int64_t{width}};
  program.inputs = {{"x", DType::i32, shape, 0}};
  program.outputs = {{"y", DType::i32, shape, 2 * slab}};
  program.parameters = {{sha256_of(bytes_of(parameter_words(tiles))), 0, program.parameter_bytes}};
  using abi::memory_arena, abi::memory_parameters;
  const auto row_of = [&](uint32_t memory, uint64_t begin, uint32_t tile) {
    return CommandOperand{.memory = memory, .offset = begin + tile * row, .strides = {}, .terms = {}};
  };
  const auto with_term = [](CommandOperand operand, uint32_t level, uint32_t period, int64_t up) {
    operand.terms = {{.stride = up, .level = level, .period = period}};
    return operand;
  };
  const auto superstep = [&](uint32_t entry, uint32_t kernel, auto operands_of) {
    program.supersteps.push_back({entry, static_cast<uint32_t>(program.tile_begin.size())});
    const auto add_begin = [&] {
      program.tile_begin.push_back(static_cast<uint32_t>(program.commands.size() / abi::block_words));
    };
    add_begin();
    for (uint32_t t = 0; t < tiles; ++t) {
      const std::vector<CommandOperand> operands = operands_of(t);
      append_command(program.commands, kernel, {{int64_t{width}}}, operands);
      add_begin();
    }
  };
  using Operands = std::vector<CommandOperand>;
  superstep(1, 1, [&](uint32_t t) { return Operands{row_of(memory_arena, 0, t), row_of(memory_arena, slab, t)}; });
  superstep(0, 0, [&](uint32_t t) {
    return Operands{with_term(row_of(memory_arena, slab, (t + 1) % tiles), 0, 2, step),
                    with_term(row_of(memory_parameters, 0, t), 0, outer, step),
                    with_term(row_of(memory_arena, 2 * slab, t), 0, 2, -step)};
  });
  superstep(0, 0, [&](uint32_t t) {
    return Operands{with_term(row_of(memory_arena, 2 * slab, t), 0, 2, -step),
                    with_term(row_of(memory_parameters, outer * slab, t), 1, 100, step),
                    with_term(row_of(memory_arena, 2 * slab, t), 0, 2, -step)};
  });
  using Kind = ControlStep::Kind;
  program.control = {{Kind::superstep, 0, 0, 0},        {Kind::repeat_begin, 0, 0, outer}, {Kind::superstep, 1, 0, 0},
                     {Kind::repeat_begin, 0, 1, inner}, {Kind::superstep, 2, 0, 0},        {Kind::repeat_end, 0, 1, 0},
                     {Kind::repeat_end, 0, 0, 0}};
  return program;
}

// Reads a file that the build made; empty when it cannot.
inline std::string file_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::string package_bytes(const Program& program, const std::string& code,
                                 const std::vector<std::string>& targets = {"host-x86-64-v3"}) {
  Manifest manifest;
  manifest.producer = "test";
  VariantInfo& variant = manifest.variants.emplace_back();
  variant.machine = program.machine;
  ArchiveEntries entries;
  for (const std::string& target : targets) {
    const std::string file = "variants/host/kernels/" + target + ".so";
    variant.targets.push_back({target, file, scratch_bytes, {{.name = "low_entry_0"}}});
    entries[file] = std::as_bytes(std::span(code));
  }
  const std::string json = serialize(manifest);
  const std::string tables = serialize(program);
  const std::string parameters = bytes_of(parameter_words(program.tiles));
  entries["manifest.json"] = std::as_bytes(std::span(json));
  entries["variants/host/program.bin"] = std::as_bytes(std::span(tables));
  entries["parameters/" + sha256_of(parameters)] = std::as_bytes(std::span(parameters));
  return write_archive(entries);
}

}  // namespace low::fixture
