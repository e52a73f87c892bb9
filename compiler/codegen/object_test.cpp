// What compiled kernels look like: their machine code, whether this processor runs it or not.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "compiler/codegen/subprocess.h"
#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

struct Loop {
  int instructions = 0, counted = 0;
};

// Of the loops without an inner one in a disassembly, the one that has most of `counted` instructions.
Loop densest_loop(const std::string& disassembly, const std::string& counted) {
  struct Instruction {
    uint64_t address;
    std::string name, argument;
  };
  std::vector<Instruction> code;
  std::istringstream lines(disassembly);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string address, name, argument;
    if (!(words >> address >> name) || address.back() != ':' || line.front() != ' ') continue;
    words >> argument;
    code.push_back({std::stoull(address, nullptr, 16), name, argument});
  }
  std::map<uint64_t, size_t> index;
  for (size_t i = 0; i < code.size(); ++i) index[code[i].address] = i;
  Loop densest;
  for (size_t end = 0; end < code.size(); ++end) {
    if (code[end].name.front() != 'j' || !code[end].argument.starts_with("0x")) continue;
    const auto begin = index.find(std::stoull(code[end].argument, nullptr, 16));
    if (begin == index.end() || begin->second > end) continue;
    Loop loop;
    bool inner = true;
    for (size_t i = begin->second; i <= end; ++i) {
      ++loop.instructions;
      loop.counted += code[i].name == counted ? 1 : 0;
      inner = inner && (i == end || code[i].name.front() != 'j');
    }
    if (inner && loop.counted > densest.counted) densest = loop;
  }
  return densest;
}

std::string disassemble(const std::string& object) {
  const auto folder = TemporaryFolder::create();
  EXPECT_TRUE(folder);
  const std::string path = folder->path() + "/kernels.so";
  std::ofstream(path, std::ios::binary) << object;
  const std::string arguments[] = {LOW_OBJDUMP, "--disassemble", "--no-show-raw-insn", path};
  const auto done = run_process(arguments, "", *folder);
  EXPECT_TRUE(done && done->started && done->status == 0);
  return done ? done->output : "";
}

// The densest loop of a kernel of host-x86-64-v4-bf16.
Loop loop_of(const KernelContract& contract, const Shape& extents, const std::string& counted) {
  KernelSet kernels;
  testing::add_run(kernels, contract, extents);
  kernels.entries = {{0}};
  ThreadPool pool(1);
  const std::string targets[] = {"host-x86-64-v4-bf16"};
  const auto objects = compile_kernels(kernels, emit_source(kernels, targets[0]), targets, {}, pool);
  EXPECT_TRUE(objects) << objects.error().message;
  return objects ? densest_loop(disassemble(objects->front().bytes), counted) : Loop{};
}

// 14 rows times two vectors of columns are 28 dot products; beside them 14 elements of a go to all lanes, two vectors
// of b are loaded, and the loop needs four more.
TEST(Object, DotProductsFillTheLoop) {
  if (std::string_view(LOW_OBJDUMP).empty()) GTEST_SKIP() << "no llvm-objdump when this was configured";
  const auto gemm_of = [](const GemmKernel& kernel, DType type) {
    const OperandContract rows{type, {Access::strided, Access::unit}};
    return KernelContract{.family = kernel,
                          .operands = {rows, rows, {kernel.accumulate, rows.access}},
                          .expr = testing::identity(kernel.accumulate)};
  };
  const GemmKernel pairs{.math_a = DType::bf16, .math_b = DType::bf16};
  const GemmKernel bytes{.math_a = DType::i32, .math_b = DType::i32, .accumulate = DType::i32};
  for (const Loop& loop : {loop_of(gemm_of(pairs, DType::f8e4m3fn), {100, 100, 100}, "vdpbf16ps"),
                           loop_of(gemm_of(bytes, DType::i8), {100, 100, 100}, "vpdpbusd")}) {
    EXPECT_EQ(loop.counted, 28);
    EXPECT_LE(loop.instructions, 48);
  }
}

// Scores of 8 keys and three vectors of rows are 24 dot products.
TEST(Object, ScoresAreDotProducts) {
  if (std::string_view(LOW_OBJDUMP).empty()) GTEST_SKIP() << "no llvm-objdump when this was configured";
  const OperandContract fp8{DType::f8e4m3fn, {Access::strided, Access::unit}};
  const KernelContract attention{.family = AttentionKernel{.d = 64, .dv = 64, .math = DType::bf16},
                                 .operands = {fp8, fp8, fp8, {DType::f32, fp8.access}},
                                 .expr = testing::identity(DType::f32)};
  const Loop loop = loop_of(attention, {100, 100, 64, 64}, "vdpbf16ps");
  EXPECT_EQ(loop.counted, 24);
  EXPECT_LE(loop.instructions, 44);
}

}  // namespace
}  // namespace low
