// For tests and benchmarks: kernels compiled and loaded into this process, and a memory in which every byte that a
// kernel may not write is checked.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compiler/base/index_of.h"
#include "compiler/codegen/codegen.h"
#include "runtime/format/abi.h"

namespace low::testing {

inline bool cpu_runs(std::string_view target) {
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                  __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  const bool bf16 = v4 && __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512vbmi") != 0 &&
                    __builtin_cpu_supports("avx512vnni") != 0;
  return target == "host-x86-64-v4-bf16" ? bf16 : target == "host-x86-64-v4" ? v4 : v3;
}

// One target's code, with all kernels in low_entry_0. Never unloaded: a few megabytes for the life of a test program.
struct Code {
  std::string target;
  abi::HostEntry entry = nullptr;
  uint64_t scratch_bytes = 0;
  std::vector<KernelContract> contracts;
};

// The number of the kernel for runs of these extents, which is added if there is none: runs of other extents may share
// it.
inline uint32_t add_run(KernelSet& kernels, KernelContract contract, const Shape& extents) {
  configure(contract, extents);
  const uint32_t kernel = index_of(kernels.contracts, contract);
  index_of(kernels.runs, {kernel, extents});
  return kernel;
}

inline Code load(const CodeObject& object) {
  const int file = memfd_create("kernels", MFD_CLOEXEC);
  LOW_CHECK(file >= 0);
  LOW_CHECK(write(file, object.bytes.data(), object.bytes.size()) == static_cast<ssize_t>(object.bytes.size()));
  // The descriptor stays open: a library that is opened by the same name again would be taken for this one.
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  void* const symbol = dlsym(library, "low_entry_0");
  LOW_CHECK(symbol != nullptr);
  return {object.target, reinterpret_cast<abi::HostEntry>(symbol), object.scratch_bytes, {}};
}

// Compiles `kernels` (one entry point over all of them is added) for the targets that this CPU runs.
inline std::vector<Code> compile_and_load(KernelSet& kernels) {
  kernels.entries.assign(1, {});
  for (uint32_t i = 0; i < kernels.contracts.size() + kernels.copies.size(); ++i) kernels.entries[0].push_back(i);
  std::vector<std::string> targets;
  for (const std::string_view target : codegen_targets()) {
    if (cpu_runs(target)) targets.emplace_back(target);
  }
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
    bytes_.resize(begin + static_cast<uint64_t>((high - low + 1) * size) + guard, poison);
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
    std::vector<abi::Operand> table;
    std::vector<int64_t> numbers;
    for (const Operand& operand : operands) {
      table.push_back({abi::memory_arena, static_cast<uint32_t>(numbers.size()), operand.offset, 0, 0});
      numbers.insert(numbers.end(), operand.strides.begin(), operand.strides.end());
    }
    const auto data = static_cast<uint32_t>(numbers.size());
    const Shape extents = extents_of(code, kernel, operands);
    numbers.insert(numbers.end(), extents.begin(), extents.end());
    const abi::Command command{kernel, 0, static_cast<uint32_t>(table.size()), data};
    const uint32_t tile_begin[] = {0, 1};
    const abi::Launch launch{{bytes_.data(), nullptr}, &command, tile_begin, table.data(), nullptr,
                             numbers.data(),           nullptr,  nullptr};
    unsigned char* const scratch = static_cast<unsigned char*>(std::aligned_alloc(64, code.scratch_bytes + 64));
    loop([&] { code.entry(&launch, 0, scratch); });
    std::free(scratch);
  }

  // Runs one command; `loops` are the data of a copy. False when a byte outside of the result (the last operand)
  // changed.
  bool run(const Code& code, uint32_t kernel, const std::vector<Operand>& operands,
           const std::vector<int64_t>& loops = {},
           const std::vector<uint64_t>& iterations = std::vector<uint64_t>(abi::max_levels, 0)) {
    std::vector<abi::Operand> table;
    std::vector<abi::Term> terms;
    std::vector<int64_t> numbers;
    for (const Operand& operand : operands) {
      table.push_back({abi::memory_arena, static_cast<uint32_t>(numbers.size()), operand.offset,
                       static_cast<uint32_t>(terms.size()), static_cast<uint32_t>(operand.terms.size())});
      numbers.insert(numbers.end(), operand.strides.begin(), operand.strides.end());
      terms.insert(terms.end(), operand.terms.begin(), operand.terms.end());
    }
    const auto data = static_cast<uint32_t>(numbers.size());
    const Shape extents = extents_of(code, kernel, operands);
    numbers.insert(numbers.end(), extents.begin(), extents.end());
    numbers.insert(numbers.end(), loops.begin(), loops.end());
    const abi::Command command{kernel, 0, static_cast<uint32_t>(table.size()), data};
    const uint32_t tile_begin[] = {0, 0, 1};
    abi::Sample samples[2] = {};
    const abi::Launch launch{{bytes_.data(), nullptr}, &command,          tile_begin, table.data(), terms.data(),
                             numbers.data(),           iterations.data(), samples};
    // Scratch holds anything: NaNs in every format.
    struct Free {
      void operator()(unsigned char* p) const { std::free(p); }
    };
    const size_t scratch_size = (code.scratch_bytes + 127) / 64 * 64;
    const std::unique_ptr<unsigned char, Free> scratch(
        static_cast<unsigned char*>(std::aligned_alloc(64, scratch_size)));
    std::memset(scratch.get(), 0xff, scratch_size);
    const std::vector<unsigned char> before = bytes_;
    code.entry(&launch, 1, scratch.get());
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
    return after == before && scratch_kept && samples[1].end >= samples[1].begin && samples[0].end == 0;
  }

 private:
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
