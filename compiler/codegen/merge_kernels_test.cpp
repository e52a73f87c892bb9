#include "compiler/codegen/merge_kernels.h"

#include <gtest/gtest.h>

#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

KernelContract copying(int64_t extent) {
  KernelContract contract;
  contract.extents = {extent};
  contract.operands = {{DType::f32, {Access::unit}}, {DType::f32, {Access::unit}}};
  contract.expr = testing::identity(DType::f32);
  return contract;
}

const CopyKernel to_f16{DType::f32, DType::f16, Overflow::propagate};
const CopyKernel to_f8{DType::f32, DType::f8e4m3fn, Overflow::saturate};

TEST(MergeKernels, EqualKernelsAreThereOnce) {
  // Kernels 5, 7, to_f16.
  const KernelSet a{.contracts = {copying(5), copying(7)}, .copies = {to_f16}, .entries = {{0, 2}, {1}, {}}};
  // Kernels 9, 5, to_f8, to_f16.
  const KernelSet b{.contracts = {copying(9), copying(5)}, .copies = {to_f8, to_f16}, .entries = {{1, 3}, {0, 1}, {2}}};
  const KernelSet* const sets[] = {&a, &b};
  const MergedKernels merged = merge_kernels(sets);

  // Kernels 5, 7, 9, to_f16, to_f8.
  EXPECT_EQ(merged.kernels.contracts, (std::vector{copying(5), copying(7), copying(9)}));
  EXPECT_EQ(merged.kernels.copies, (std::vector{to_f16, to_f8}));
  ASSERT_EQ(merged.numbers.size(), 2u);
  EXPECT_EQ(merged.numbers[0].kernels, (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(merged.numbers[1].kernels, (std::vector<uint32_t>{2, 0, 4, 3}));
  // b's first entry is a's first: {5, to_f16}. Its second, {9, 5}, is put into ascending order.
  EXPECT_EQ(merged.kernels.entries, (std::vector<std::vector<uint32_t>>{{0, 3}, {1}, {}, {0, 2}, {4}}));
  EXPECT_EQ(merged.numbers[0].entries, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(merged.numbers[1].entries, (std::vector<uint32_t>{0, 3, 4}));

  Program program;
  program.entries = 3;
  program.commands = {{.kernel = 3}, {.kernel = 0}, {.kernel = 3}};
  program.supersteps = {{.entry = 2}, {.entry = 0}};
  renumber_kernels(program, merged.numbers[1], merged.kernels.entries.size());
  EXPECT_EQ(program.entries, 5u);
  EXPECT_EQ(program.commands[0].kernel, 3u);
  EXPECT_EQ(program.commands[1].kernel, 2u);
  EXPECT_EQ(program.commands[2].kernel, 3u);
  EXPECT_EQ(program.supersteps[0].entry, 4u);
  EXPECT_EQ(program.supersteps[1].entry, 0u);
}

TEST(MergeKernels, OneProgramKeepsItsNumbers) {
  const KernelSet one{.contracts = {copying(5), copying(7)}, .copies = {to_f16, to_f8}, .entries = {{0, 3}, {1, 2}}};
  const KernelSet* const sets[] = {&one};
  const MergedKernels merged = merge_kernels(sets);
  EXPECT_EQ(merged.kernels.contracts, one.contracts);
  EXPECT_EQ(merged.kernels.copies, one.copies);
  EXPECT_EQ(merged.kernels.entries, one.entries);
  EXPECT_EQ(merged.numbers[0].kernels, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(merged.numbers[0].entries, (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(merge_kernels({}).numbers.empty());
}

}  // namespace
}  // namespace low
