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

// 14 rows times two vectors of columns are 28 dot products; beside them 14 elements of a go to all lanes, two vectors
// of b are loaded, and the loop needs four more.
TEST(Object, DotProductsFillTheLoop) {
  if (std::string_view(LOW_OBJDUMP).empty()) GTEST_SKIP() << "no llvm-objdump when this was configured";
  const OperandContract fp8{DType::f8e4m3fn, {Access::strided, Access::unit}};
  KernelContract gemm{.family = GemmKernel{.math_a = DType::bf16, .math_b = DType::bf16}};
  gemm.operands = {fp8, fp8, {DType::f32, fp8.access}};
  gemm.expr = testing::identity(DType::f32);
  KernelSet kernels;
  testing::add_run(kernels, gemm, {100, 100, 100});
  kernels.entries = {{0}};
  ThreadPool pool(1);
  const std::string targets[] = {"host-x86-64-v4-bf16"};
  const auto objects = compile_kernels(kernels, emit_source(kernels, targets[0]), targets, {}, pool);
  ASSERT_TRUE(objects) << objects.error().message;
  const Loop loop = densest_loop(disassemble(objects->front().bytes), "vdpbf16ps");
  EXPECT_EQ(loop.counted, 28);
  EXPECT_LE(loop.instructions, 48);
}

}  // namespace
}  // namespace low
