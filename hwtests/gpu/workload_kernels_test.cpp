// Every kernel of the workloads' packages on the targets of this program, on a part of its work, against the
// interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/codegen/gpu_kernels.h"
#include "compiler/codegen/targets.h"
#include "compiler/codegen/test_kernels.h"
#include "compiler/interpret/kernels.h"
#include "hwtests/gpu/workload_kernels.h"

namespace low {
namespace {

// Of a run of a workload: more than a block of each axis and than two steps of the sum, and none of them whole.
Shape cut(const KernelContract& contract, const Shape& extents) {
  Shape part = extents;
  const auto most = [&](int axis, int64_t extent) { part[axis] = std::min(part[axis], extent); };
  if (const auto* const gemm = contract.as<GemmKernel>()) {
    const device::GemmConfiguration& blocks = configuration_of(*gemm);
    most(0, blocks.block_m + 9);
    most(1, blocks.block_n + 9);
    most(2, 2 * blocks.step_bytes / static_cast<int64_t>(byte_size(contract.operands[0].dtype)) + 5);
  } else if (contract.is<AttentionKernel>()) {
    most(0, 70);
    most(1, 150);
  } else {
    for (int axis = 0; axis < outer_extents(contract, extents).rank(); ++axis) most(axis, 5);
  }
  return part;
}

// Strides that the contract's access allows, of rows that begin at multiples of 64 elements.
Strides strides_for(const OperandContract& operand, const Shape& extents) {
  Strides strides = extents;
  for (int axis = 0; axis < extents.rank(); ++axis) strides[axis] = 0;
  int64_t next = 64;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    if (operand.access[static_cast<size_t>(axis)] != Access::unit) continue;
    strides[axis] = 1;
    next = (extents[axis] + 127) / 64 * 64;
  }
  for (int axis = extents.rank() - 1; axis >= 0; --axis) {
    if (operand.access[static_cast<size_t>(axis)] != Access::strided) continue;
    strides[axis] = next;
    next *= std::max<int64_t>(extents[axis], 1);
  }
  return strides;
}

// Of a result's own size, and of the largest there is: what a rounding of it is, on the way or at its end, or of what it
// was summed from.
double tolerance(const KernelContract& contract) {
  if (contract.is<AttentionKernel>()) return 0x1p-7;
  double largest = 0x1p-16;  // of f32 and f64
  const auto round_to = [&](DType type) {
    const double step = type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : is_fp8(type) ? 0x1p-2 : 0;
    largest = std::max(largest, step);
  };
  round_to(contract.operands.back().dtype);
  for (const ExprNode& node : contract.expr.nodes)
    if (node.op == ExprOp::convert) round_to(node.dtype);
  return largest;
}

void check(const testing::Code& code, const KernelContract& contract, uint32_t number, const Shape& extents) {
  ASSERT_EQ(run_problem(contract, extents), "");
  ASSERT_FALSE(contract.is<GatherKernel>() || contract.is<ScatterKernel>())
      << "whose indices this test does not choose";
  std::mt19937_64 random(number + 1);
  testing::Memory memory;
  std::vector<testing::Operand> operands;
  std::vector<std::vector<uint64_t>> values;
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const Shape shape = operand_extents(contract, extents, i);
    const DType type = contract.operands[i].dtype;
    operands.push_back(memory.add(type, shape, strides_for(contract.operands[i], shape)));
    if (i + 1 == contract.operands.size()) break;
    memory.write(operands[i], testing::small_values(type, shape.elements(), random));
    values.push_back(memory.read(operands[i]));
  }
  ASSERT_TRUE(memory.run(code, number, operands));
  const std::vector<uint64_t> got = memory.read(operands.back()), want = run_kernel(contract, extents, values);
  ASSERT_EQ(got.size(), want.size());
  const DType type = contract.operands.back().dtype;
  if (!is_float(type)) {
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_LE(std::abs(static_cast<int64_t>(got[i]) - static_cast<int64_t>(want[i])), 1) << "element " << i;
    return;
  }
  double largest = 0;
  for (const uint64_t bits : want)
    if (const double value = std::abs(decode(type, bits)); std::isfinite(value)) largest = std::max(largest, value);
  for (size_t i = 0; i < got.size(); ++i) {
    const double have = decode(type, got[i]), expected = decode(type, want[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(have)) << "element " << i;
    } else if (have != expected) {
      const double size = contract.is<AttentionKernel>() ? largest : std::max(std::abs(expected), largest / 256);
      ASSERT_LE(std::abs(have - expected), tolerance(contract) * size) << "element " << i << ": " << have;
    }
  }
}

TEST(WorkloadKernels, AgreeWithTheInterpreter) {
  const std::vector<std::string> targets = testing::test_targets();
  if (targets.empty())
    GTEST_SKIP() << "LOW_TINYGRAD names no source checkout of tinygrad, whose emulator runs the code";
  ThreadPool pool(0);
  std::vector<Machine> machines;
  for (const std::string& target : targets) machines.push_back(machine_of(*find_target(target)));
  const auto sets = hwtests::workload_kernels(machines, pool);
  ASSERT_TRUE(sets) << sets.error().message;
  for (size_t i = 0; i < targets.size(); ++i) {
    SCOPED_TRACE(targets[i]);
    KernelSet kernels = (*sets)[i];
    EXPECT_TRUE(kernels.copies.empty()) << "which this test does not run";
    kernels.entries.clear();
    for (uint32_t kernel = 0; kernel < kernels.contracts.size(); ++kernel) kernels.entries.push_back({kernel});
    const auto objects = compile_kernels(kernels, emit_source(kernels, targets[i]), {&targets[i], 1}, {}, pool);
    ASSERT_TRUE(objects) << objects.error().message;
    testing::Code code = testing::load(objects->front(), static_cast<uint32_t>(kernels.entries.size()));
    code.contracts = kernels.contracts;
    std::set<std::string> configurations;
    for (uint32_t kernel = 0; kernel < kernels.contracts.size(); ++kernel) {
      const std::string text = configuration_text(*find_target(targets[i])->chip, kernels.contracts[kernel]);
      SCOPED_TRACE(kernel_name(kernels, kernel) + ": " + text);
      // The largest of its runs.
      const KernelExtents* most = nullptr;
      for (const KernelExtents& run : kernels.runs)
        if (run.contract == kernel && (most == nullptr || run.extents.elements() > most->extents.elements()))
          most = &run;
      ASSERT_NE(most, nullptr);
      ASSERT_NO_FATAL_FAILURE(
          check(code, kernels.contracts[kernel], kernel, cut(kernels.contracts[kernel], most->extents)));
      configurations.insert(text);
    }
    for (const std::string& text : configurations) std::printf("%s: %s\n", targets[i].c_str(), text.c_str());
    std::printf("%s: all %zu kernels of the workloads' packages, in %zu configurations\n", targets[i].c_str(),
                kernels.contracts.size(), configurations.size());
  }
}

}  // namespace
}  // namespace low
