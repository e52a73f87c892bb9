#include <gtest/gtest.h>

#include "compiler/codegen/test_kernels.h"
#include "compiler/low/builder.h"

namespace low {
namespace {

// Two supersteps on two tiles: a run, then copies and a pull; a third that is like the second.
TEST(CollectKernels, EntriesAreDistinctSets) {
  TileGraphBuilder builder("host", 2);
  const TypeId type = builder.type({.dtype = DType::f32, .extents = {8}});
  const AllocationId in = builder.allocation({.type = type, .role = Role::input, .binding = 0});
  const AllocationId middle = builder.allocation({.type = type});
  const AllocationId out = builder.allocation({.type = type, .role = Role::output, .binding = 0});
  builder.input("x", {DType::f32, {8}}, in);
  builder.output("y", {DType::f32, {8}}, out);
  const GeometryId half = builder.geometry({.extents = {4}, .strides = {1}});
  const auto view = [&](AllocationId allocation, int64_t offset) { return View{allocation, half, offset, {}}; };
  KernelContract contract;
  contract.operands = {{DType::f32, {Access::unit}}, {DType::f32, {Access::unit}}};
  contract.expr = testing::identity(DType::f32);
  const ContractId kernel = builder.contract(contract);
  const DescriptorId descriptor = builder.descriptor({.chunk = 4});
  builder.begin_region();
  builder.begin_superstep();
  for (uint32_t tile = 0; tile < 2; ++tile) {
    const View operands[] = {view(in, 4 * tile), view(middle, 4 * tile)};
    builder.run(kernel, TileId(tile), operands);
  }
  builder.end_superstep();
  builder.begin_superstep();
  builder.copy(descriptor, view(middle, 0), view(out, 0), TileId(0));
  builder.copy(descriptor, view(middle, 4), view(out, 4), TileId(1));
  builder.end_superstep();
  builder.end_region();
  auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph) << graph.error().message;

  using Kind = ScheduledCommand::Kind;
  Schedule schedule;
  schedule.commands = {{Kind::run, 0},  {Kind::run, 1},  {Kind::copy, 0},
                       {Kind::pull, 0}, {Kind::pull, 0}, {Kind::copy, 1}};
  schedule.supersteps.resize(4);
  schedule.supersteps[0].tile_begin = {0, 1, 2};
  schedule.supersteps[1].tile_begin = {2, 3, 4};
  schedule.supersteps[2].tile_begin = {4, 5, 6};
  schedule.supersteps[3].tile_begin = {6, 6, 6};
  schedule.descriptors = {{.source = DType::f32, .destination = DType::f8e4m3fn, .overflow = Overflow::saturate}};
  schedule.pulls = {{view(middle, 0), view(out, 0), DescriptorId(size_t{0})}};
  const KernelSet kernels = collect_kernels(*graph, schedule);
  EXPECT_EQ(kernels.contracts.size(), 1u);
  EXPECT_EQ(kernels.copies, (std::vector<CopyKernel>{{DType::f32, DType::f32, Overflow::propagate},
                                                     {DType::f32, DType::f8e4m3fn, Overflow::saturate}}));
  EXPECT_EQ(kernels.entries, (std::vector<std::vector<uint32_t>>{{0}, {1, 2}, {}}));
  EXPECT_EQ(kernels.superstep_entry, (std::vector<uint32_t>{0, 1, 1, 2}));
}

}  // namespace
}  // namespace low
