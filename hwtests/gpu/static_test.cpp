// The machine code of every kernel in the workloads' packages, for every GPU, without running it.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/codegen/gpu_kernels.h"
#include "compiler/codegen/targets.h"
#include "compiler/codegen/test_disassembly.h"
#include "hwtests/gpu/workload_kernels.h"

namespace low {
namespace {

bool is_matrix(const testing::Instruction& one) {
  return one.name.starts_with("v_mfma") || one.name.starts_with("v_wmma");
}
bool is_wide_load(const testing::Instruction& one) {
  return one.name == "global_load_dwordx4" || one.name == "global_load_b128";
}
bool is_store(const testing::Instruction& one) { return one.name.starts_with("global_store"); }
bool is_barrier(const testing::Instruction& one) { return one.name.starts_with("s_barrier"); }

// The innermost loops around matrix instructions: of a product over k, of attention over keys.
std::vector<testing::Loop> matrix_loops(const testing::Function& function) {
  std::vector<testing::Loop> loops;
  for (size_t i = 0; i < function.code.size(); ++i) {
    if (!is_matrix(function.code[i])) continue;
    const testing::Loop* around = nullptr;
    for (const testing::Loop& loop : function.loops)
      if (loop.begin <= i && i <= loop.end &&
          (around == nullptr || loop.end - loop.begin < around->end - around->begin))
        around = &loop;
    EXPECT_NE(around, nullptr) << "a matrix instruction in no loop";
    if (around != nullptr && (loops.empty() || loops.back().begin != around->begin)) loops.push_back(*around);
  }
  return loops;
}

// Whether the lanes' chunks of 16 bytes of an operand lie as they are needed: rows along what is summed over.
bool loads_chunks(const KernelContract& contract) {
  const auto contiguous = [&](size_t operand, int axis, DType math) {
    const OperandContract& known = contract.operands[operand];
    return known.dtype == math && known.access[static_cast<size_t>(axis)] == Access::unit;
  };
  if (const auto* const gemm = contract.as<GemmKernel>())
    return contiguous(0, 1, gemm->math_a) || contiguous(1, 0, gemm->math_b);
  const auto* const attention = contract.as<AttentionKernel>();
  return attention != nullptr && contiguous(1, 1, attention->math);
}

void check_entry(const device::Chip& chip, const KernelSet& kernels, size_t entry, const KernelInfo& info,
                 const testing::Function& function) {
  EXPECT_EQ(info.private_bytes, 0);
  EXPECT_EQ(info.vgpr_spills, 0);
  EXPECT_EQ(info.sgpr_spills, 0);
  // A workgroup of 256 lanes is one wave on each of four units of registers, or two of half as many lanes.
  EXPECT_LE(info.vgprs, chip.wave_lanes == 64 ? 512 : 256);
  size_t matrices = 0;
  bool needs_lds = false, chunks = false;
  std::string text;
  for (const uint32_t kernel : kernels.entries[entry]) {
    if (kernel >= kernels.contracts.size()) continue;
    const KernelContract& contract = kernels.contracts[kernel];
    text += (text.empty() ? "" : "; ") + configuration_text(chip, contract);
    matrices += uses_matrices(chip, contract) ? 1 : 0;
    needs_lds |= contract.is<GemmKernel>() ? uses_matrices(chip, contract) : !contract.is<PointwiseKernel>();
    chunks |= uses_matrices(chip, contract) && loads_chunks(contract);
  }
  EXPECT_EQ(info.lds_bytes, needs_lds ? lds_bytes(chip, kernels, entry) : 0);

  size_t wide_loads = 0, instructions = 0;
  const std::vector<testing::Loop> loops = matrix_loops(function);
  EXPECT_GE(loops.size(), matrices);
  for (const testing::Loop& loop : loops) {
    EXPECT_GE(function.count(loop, is_barrier), 2);
    EXPECT_EQ(function.count(loop, is_store), 0) << "results are stored in the loop";
    wide_loads += function.count(loop, is_wide_load);
    instructions += function.count(loop, is_matrix);
  }
  if (chunks) EXPECT_GT(wide_loads, 0) << "nothing is loaded in 16 bytes";
  std::printf("%s %s: %u and %u registers, %llu bytes of LDS, %zu matrix instructions in %zu loops\n", chip.target,
              text.c_str(), info.vgprs, info.sgprs, static_cast<unsigned long long>(info.lds_bytes), instructions,
              loops.size());
}

TEST(StaticGates, EveryKernelOfTheWorkloads) {
  if (std::string_view(LOW_GPU_OBJDUMP).empty())
    GTEST_SKIP() << "no llvm-objdump that knows all GPUs when this was configured";
  ThreadPool pool(0);
  std::vector<Machine> machines;
  for (const device::Chip* chip : device::chips) machines.push_back(machine_of(*find_target(chip->target)));
  const auto sets = hwtests::workload_kernels(machines, pool);
  ASSERT_TRUE(sets) << sets.error().message;
  std::vector<Result<std::vector<CodeObject>>> objects(machines.size());
  pool.parallel_for(static_cast<int64_t>(machines.size()), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    ThreadPool alone(1);
    const std::string targets[] = {device::chips[i]->target};
    objects[i] = compile_kernels((*sets)[i], emit_source((*sets)[i], targets[0]), targets, {}, alone);
  });
  for (size_t i = 0; i < machines.size(); ++i) {
    const device::Chip& chip = *device::chips[i];
    ASSERT_TRUE(objects[i]) << objects[i].error().message;
    const CodeObject& object = objects[i]->front();
    const auto functions = testing::disassemble(LOW_GPU_OBJDUMP, object.bytes);
    ASSERT_EQ(object.entries.size(), (*sets)[i].entries.size());
    for (size_t entry = 0; entry < object.entries.size(); ++entry) {
      const std::string name = "low_entry_" + std::to_string(entry);
      SCOPED_TRACE(std::string(chip.target) + " " + name);
      const auto info = std::ranges::find(object.entries, name, &KernelInfo::name);
      ASSERT_NE(info, object.entries.end());
      ASSERT_TRUE(functions.contains(name));
      check_entry(chip, (*sets)[i], entry, *info, functions.at(name));
    }
  }
}

}  // namespace
}  // namespace low
