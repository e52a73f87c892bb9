// Every kernel of the workloads' packages on the targets of this program, on a part of its work, against the
// interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/codegen/gpu_kernels.h"
#include "compiler/codegen/targets.h"
#include "hwtests/gpu/kernel_check.h"
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
      EXPECT_EQ(hwtests::kernel_problem(code, kernels.contracts[kernel], kernel,
                                        cut(kernels.contracts[kernel], most->extents)),
                "");
      configurations.insert(text);
    }
    for (const std::string& text : configurations) std::printf("%s: %s\n", targets[i].c_str(), text.c_str());
    std::printf("%s: all %zu kernels of the workloads' packages, in %zu configurations; %s\n", targets[i].c_str(),
                kernels.contracts.size(), configurations.size(), code.report().c_str());
  }
}

}  // namespace
}  // namespace low
