#include "compiler/codegen/merge_kernels.h"

#include <gtest/gtest.h>

#include "runtime/format/commands.h"

#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

KernelContract copying(DType dtype) {
  KernelContract contract;
  contract.operands = {{dtype, {Access::unit}}, {dtype, {Access::unit}}};
  contract.expr = testing::identity(dtype);
  return contract;
}

const CopyKernel to_f16{DType::f32, DType::f16, Overflow::propagate};
const CopyKernel to_f8{DType::f32, DType::f8e4m3fn, Overflow::saturate};

TEST(MergeKernels, EqualKernelsAreThereOnce) {
  // Kernels i8, i16, to_f16.
  const KernelSet a{.contracts = {copying(DType::i8), copying(DType::i16)},
                    .copies = {to_f16},
                    .runs = {{0, {5}}, {1, {5}}},
                    .entries = {{0, 2}, {1}, {}}};
  // Kernels i32, i8, to_f8, to_f16.
  const KernelSet b{.contracts = {copying(DType::i32), copying(DType::i8)},
                    .copies = {to_f8, to_f16},
                    .runs = {{0, {5}}, {1, {5}}, {1, {6}}},
                    .entries = {{1, 3}, {0, 1}, {2}}};
  const KernelSet* const sets[] = {&a, &b};
  const MergedKernels merged = merge_kernels(sets);

  // Kernels i8, i16, i32, to_f16, to_f8.
  EXPECT_EQ(merged.kernels.contracts, (std::vector{copying(DType::i8), copying(DType::i16), copying(DType::i32)}));
  EXPECT_EQ(merged.kernels.runs, (std::vector<KernelExtents>{{0, {5}}, {1, {5}}, {2, {5}}, {0, {6}}}));
  EXPECT_EQ(merged.kernels.copies, (std::vector{to_f16, to_f8}));
  ASSERT_EQ(merged.numbers.size(), 2u);
  EXPECT_EQ(merged.numbers[0].kernels, (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(merged.numbers[1].kernels, (std::vector<uint32_t>{2, 0, 4, 3}));
  // b's first entry is a's first: {i8, to_f16}. Its second, {i32, i8}, is put into ascending order.
  EXPECT_EQ(merged.kernels.entries, (std::vector<std::vector<uint32_t>>{{0, 3}, {1}, {}, {0, 2}, {4}}));
  EXPECT_EQ(merged.numbers[0].entries, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(merged.numbers[1].entries, (std::vector<uint32_t>{0, 3, 4}));

  Program program;
  program.entries = 3;
  for (const uint32_t kernel : {3u, 0u, 3u}) append_command(program.commands, kernel, {}, {});
  program.supersteps = {{.entry = 2}, {.entry = 0}};
  renumber_kernels(program, merged.numbers[1], merged.kernels.entries.size());
  EXPECT_EQ(program.entries, 5u);
  EXPECT_EQ(CommandView(program.commands, 0).header().kernel, 3u);
  EXPECT_EQ(CommandView(program.commands, 1).header().kernel, 2u);
  EXPECT_EQ(CommandView(program.commands, 2).header().kernel, 3u);
  EXPECT_EQ(program.supersteps[0].entry, 4u);
  EXPECT_EQ(program.supersteps[1].entry, 0u);
}

TEST(MergeKernels, OneProgramKeepsItsNumbers) {
  const KernelSet one{
      .contracts = {copying(DType::i8), copying(DType::i16)}, .copies = {to_f16, to_f8}, .entries = {{0, 3}, {1, 2}}};
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
