// For tests and benchmarks: kernels compiled and loaded into this process, and a memory in which every byte that a
// kernel may not write is checked.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compiler/base/index_of.h"
#include "compiler/codegen/codegen.h"
#include "runtime/format/commands.h"

namespace low::testing {

// Targets that this program tests; a file of it says which (host_targets_test.cpp).
std::vector<std::string> test_targets();
// That they are targets of, the first of several.
const Machine& test_machine();

// A part of a memory that a kernel may use.
struct Region {
  uint64_t begin = 0, bytes = 0;
};

// One target's code. Never unloaded: a few megabytes for the life of a test program.
struct Code {
  std::string target;
  uint64_t scratch_bytes = 0;
  std::vector<KernelContract> contracts;
  // Runs the commands of tile 1 out of two. Scratch has scratch_bytes; `regions` are what there is of the arena. What
  // the kernels do wrong, if the target says so.
  std::function<std::vector<std::string>(const abi::Launch& launch, unsigned char* scratch,
                                         std::span<const Region> regions)>
      run;
  std::function<std::string()> report = {};  // what it did in all runs, where the target counts that
};
// Of one entry point with all kernels, or of one for each of them.
Code load(const CodeObject& object, uint32_t entries = 1);
// The entry point for a launch's command.
inline uint32_t entry_for(const abi::Launch& launch, uint32_t entries) {
  const auto kernel = static_cast<uint32_t>(launch.commands[0]);  // the low half of abi::Command's first word
  return entries == 1 ? 0 : kernel;
}

// The number of the kernel for runs of these extents, which is added if there is none: runs of other extents may share
// it.
inline uint32_t add_run(KernelSet& kernels, KernelContract contract, const Shape& extents) {
  configure(contract, extents);
  const uint32_t kernel = index_of(kernels.contracts, contract);
  index_of(kernels.runs, {kernel, extents});
  return kernel;
}

// Compiles `kernels` (one entry point over all of them is added) for the targets to test.
inline std::vector<Code> compile_and_load(KernelSet& kernels) {
  kernels.entries.assign(1, {});
  for (uint32_t i = 0; i < kernels.contracts.size() + kernels.copies.size(); ++i) kernels.entries[0].push_back(i);
  const std::vector<std::string> targets = test_targets();
  ThreadPool pool(0);
  const auto objects = compile_kernels(kernels, emit_source(kernels, targets.front()), targets, {}, pool);
  if (!objects) {
    std::fprintf(stderr, "%s\n", objects.error().message.c_str());
    std::abort();
  }
  std::vector<Code> code;
  for (const CodeObject& object : *objects) {
    code.push_back(load(object));
    code.back().contracts = kernels.contracts;
  }
  return code;
}

// A view of an operand: where element (0, …) is in memory (bytes), and strides in elements.
struct Operand {
  DType dtype = DType::f32;
  Shape extents;
  Strides strides;
  uint64_t offset = 0;
  std::vector<abi::Term> terms;
};

class Memory {
 public:
  bool prints = true;  // to stderr, what the target finds

  // A region for `extents` with `strides` (any sign), with guard bytes on both sides. An element's place is unaligned
  // by nothing.
  Operand add(DType dtype, const Shape& extents, const Strides& strides) {
    int64_t low = 0, high = 0;
    for (int axis = 0; axis < extents.rank(); ++axis) {
      const int64_t reach = (std::max<int64_t>(extents[axis], 1) - 1) * strides[axis];
      (reach < 0 ? low : high) += reach;
    }
    const auto size = static_cast<int64_t>(byte_size(dtype));
    const uint64_t begin = (bytes_.size() + guard + 63) / 64 * 64;
    const auto bytes = static_cast<uint64_t>((high - low + 1) * size);
    bytes_.resize(begin + bytes + guard, poison);
    regions_.push_back({begin, bytes});
    return {dtype, extents, strides, begin + static_cast<uint64_t>(-low * size), {}};
  }
  Operand add(DType dtype, const Shape& extents) { return add(dtype, extents, extents.row_major_strides()); }

  const unsigned char* base() const { return bytes_.data(); }
  unsigned char* at(const Operand& operand, int64_t element) {
    return bytes_.data() + operand.offset + element * static_cast<int64_t>(byte_size(operand.dtype));
  }
  uint64_t bits(const Operand& operand, int64_t element) {
    uint64_t value = 0;
    std::memcpy(&value, at(operand, element), byte_size(operand.dtype));
    return value;
  }
  void set_bits(const Operand& operand, int64_t element, uint64_t value) {
    std::memcpy(at(operand, element), &value, byte_size(operand.dtype));
  }
  // Calls f(element offset, row-major index) for each element.
  template <typename F>
  static void each(const Operand& operand, F f) {
    const int64_t count = operand.extents.elements();
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, element = 0;
      for (int axis = operand.extents.rank() - 1; axis >= 0; --axis) {
        element += rest % operand.extents[axis] * operand.strides[axis];
        rest /= operand.extents[axis];
      }
      f(element, i);
    }
  }
  // The elements in row-major order.
  std::vector<uint64_t> read(const Operand& operand) {
    std::vector<uint64_t> values;
    each(operand, [&](int64_t element, int64_t) { values.push_back(bits(operand, element)); });
    return values;
  }
  void write(const Operand& operand, const std::vector<uint64_t>& values) {
    each(operand, [&](int64_t element, int64_t i) { set_bits(operand, element, values[static_cast<size_t>(i)]); });
  }

  // Calls loop(call), where call() runs the command once.
  template <typename Loop>
  void time(const Code& code, uint32_t kernel, const std::vector<Operand>& operands, Loop loop) {
    const Records records(code, kernel, operands, {});
    const abi::Launch launch = records.launch(bytes_.data());
    unsigned char* const scratch = static_cast<unsigned char*>(std::aligned_alloc(64, code.scratch_bytes + 64));
    loop([&] { code.run(launch, scratch, regions_); });
    std::free(scratch);
  }

  // Runs one command; `loops` are the counts of a copy and its chunk. False when a byte outside of the result (the last
  // operand) changed, or the target found something.
  bool run(const Code& code, uint32_t kernel, const std::vector<Operand>& operands,
           const std::vector<int64_t>& loops = {},
           const std::vector<uint64_t>& iterations = std::vector<uint64_t>(abi::max_levels, 0)) {
    const Records records(code, kernel, operands, loops);
    abi::Launch launch = records.launch(bytes_.data());
    std::ranges::copy(iterations, launch.iterations);
    abi::Sample samples[2] = {};
    launch.samples = samples;
    // Scratch holds anything: NaNs in every format.
    struct Free {
      void operator()(unsigned char* p) const { std::free(p); }
    };
    const size_t scratch_size = (code.scratch_bytes + 127) / 64 * 64;
    const std::unique_ptr<unsigned char, Free> scratch(
        static_cast<unsigned char*>(std::aligned_alloc(64, scratch_size)));
    std::memset(scratch.get(), 0xff, scratch_size);
    const std::vector<unsigned char> before = bytes_;
    const std::vector<std::string> findings = code.run(launch, scratch.get(), regions_);
    for (const std::string& finding : findings)
      if (prints) std::fprintf(stderr, "%s\n", finding.c_str());
    std::vector<unsigned char> after = bytes_;
    Operand result = operands.back();
    for (const abi::Term& term : result.terms) {
      result.offset += iterations[term.level] % term.period * static_cast<uint64_t>(term.stride);
    }
    each(result, [&](int64_t element, int64_t) {
      const auto begin = static_cast<int64_t>(result.offset) + element * static_cast<int64_t>(byte_size(result.dtype));
      std::memcpy(after.data() + begin, before.data() + begin, byte_size(result.dtype));
    });
    bool scratch_kept = true;
    for (size_t i = code.scratch_bytes; i < scratch_size; ++i) scratch_kept &= scratch.get()[i] == 0xff;
    return findings.empty() && after == before && scratch_kept && samples[1].end >= samples[1].begin &&
           samples[0].end == 0;
  }

 private:
  // One command, of tile 1.
  struct Records {
    std::vector<uint64_t> words;
    std::vector<uint32_t> tile_begin;

    // `loops`: nothing, or of a copy.
    Records(const Code& code, uint32_t kernel, const std::vector<Operand>& operands,
            const std::vector<int64_t>& loops) {
      std::vector<CommandOperand> list;
      for (const Operand& operand : operands)
        list.push_back({.memory = abi::memory_arena,
                        .offset = operand.offset,
                        .strides = {operand.strides.begin(), operand.strides.end()},
                        .terms = operand.terms});
      if (loops.empty()) {
        const Shape extents = extents_of(code, kernel, operands);
        append_command(words, kernel, {extents.begin(), extents.end()}, list);
      } else {
        append_copy(words, kernel, std::span(loops).first(loops.size() - 1), loops.back(), list);
      }
      tile_begin = {0, 0, static_cast<uint32_t>(words.size() / abi::block_words)};
    }
    abi::Launch launch(unsigned char* arena) const {
      return {.memories = {arena, nullptr},
              .commands = words.data(),
              .tile_begin = tile_begin.data(),
              .samples = nullptr,
              .iterations = {}};
    }
  };

  // Of the run; nothing of a copy.
  static Shape extents_of(const Code& code, uint32_t kernel, const std::vector<Operand>& operands) {
    if (kernel >= code.contracts.size()) return {};
    std::vector<Shape> shapes;
    for (const Operand& operand : operands) shapes.push_back(operand.extents);
    const Shape extents = run_extents(code.contracts[kernel], shapes);
    LOW_CHECK(run_problem(code.contracts[kernel], extents).empty());
    for (size_t i = 0; i < shapes.size(); ++i)
      LOW_CHECK(operand_extents(code.contracts[kernel], extents, i) == shapes[i]);
    return extents;
  }

  static constexpr uint64_t guard = 192;
  static constexpr unsigned char poison = 0xa5;
  std::vector<unsigned char> bytes_;
  std::vector<Region> regions_;
};

// A multiple of 1/4 of at most 2 (floats, exact in all formats: sums of products are exact in f32, in any order), or a
// small integer.
inline uint64_t small_value(DType type, std::mt19937_64& random) {
  const auto quarter = static_cast<int64_t>(random() % 17) - 8;
  if (is_float(type)) return encode(type, static_cast<double>(quarter) / 4, Overflow::saturate);
  const auto integer = static_cast<uint64_t>(is_signed_integer(type) ? quarter : quarter + 8);
  if (type == DType::boolean) return integer & 1;
  return byte_size(type) == 8 ? integer : integer & ((uint64_t{1} << (8 * byte_size(type))) - 1);
}

inline std::vector<uint64_t> small_values(DType type, int64_t count, std::mt19937_64& random) {
  std::vector<uint64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(small_value(type, random));
  return values;
}

// The identity on one input.
inline Expr identity(DType type) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.input(0, type));
}

}  // namespace low::testing
