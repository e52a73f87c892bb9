// What compiled kernels look like: their machine code, whether this processor runs it or not.
#include <gtest/gtest.h>

#include "compiler/codegen/test_disassembly.h"
#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

struct Density {
  size_t instructions = 0, counted = 0;
};

// Of the loops without an inner one, the one that has most of `counted` instructions.
Density densest_loop(const std::string& object, const std::string& counted) {
  Density densest;
  for (const auto& [name, function] : testing::disassemble(LOW_OBJDUMP, object)) {
    for (const testing::Loop& loop : function.loops) {
      const size_t jumps = function.count(loop, [](const auto& one) { return one.name.front() == 'j'; });
      const Density density{loop.end - loop.begin + 1,
                            function.count(loop, [&](const auto& one) { return one.name == counted; })};
      if (jumps == 1 && density.counted > densest.counted) densest = density;
    }
  }
  return densest;
}

// The densest loop of a kernel of host-x86-64-v4-bf16.
Density loop_of(const KernelContract& contract, const Shape& extents, const std::string& counted) {
  KernelSet kernels;
  testing::add_run(kernels, contract, extents);
  kernels.entries = {{0}};
  ThreadPool pool(1);
  const std::string targets[] = {"host-x86-64-v4-bf16"};
  const auto objects = compile_kernels(kernels, emit_source(kernels, targets[0]), targets, {}, pool);
  EXPECT_TRUE(objects) << objects.error().message;
  return objects ? densest_loop(objects->front().bytes, counted) : Density{};
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
  for (const Density& loop : {loop_of(gemm_of(pairs, DType::f8e4m3fn), {100, 100, 100}, "vdpbf16ps"),
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
  const Density loop = loop_of(attention, {100, 100, 64, 64}, "vdpbf16ps");
  EXPECT_EQ(loop.counted, 24);
  EXPECT_LE(loop.instructions, 44);
}

}  // namespace
}  // namespace low
