#include "compiler/exchange/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/exchange/pulls.h"
#include "compiler/low/hand_made.h"
#include "compiler/low/low.h"

namespace low {
namespace {

using hand_made::Maker;
using testing::ElementsAre;
using testing::HasSubstr;

Machine test_machine(uint32_t tiles) {
  Machine machine;
  machine.name = "test";
  machine.tiles = tiles;
  machine.global_memory_bytes = 1 << 20;
  machine.across_bytes_per_cycle = 4;
  machine.device_bytes_per_cycle = 16;
  machine.transfer_cycles = 10;
  return machine;
}

Result<Schedule> schedule_of(const TileGraph& graph, const Machine& machine) {
  LOW_TRY(const Placement placement, place(graph, machine));
  return schedule_exchange(graph, placement, machine);
}

TEST(CopyDescriptors, ContiguousAxesAreOne) {
  struct Case {
    Shape extents;
    Strides source, destination;
    Shape counts;
    Strides source_strides, destination_strides;
    int64_t chunk;
  };
  const Case cases[] = {
      {{2, 3, 4}, {12, 4, 1}, {12, 4, 1}, {}, {}, {}, 24},    // all of it
      {{2, 3, 4}, {12, 4, 1}, {24, 8, 1}, {6}, {4}, {8}, 4},  // rows of 4; planes continue on both sides (24 = 3 * 8)
      {{2, 3, 4}, {12, 4, 1}, {13, 4, 1}, {2}, {12}, {13}, 12},  // planes of 12
      {{3, 4}, {1, 3}, {4, 1}, {3, 4}, {1, 3}, {4, 1}, 1},       // transposed
      {{1, 5}, {99, 1}, {7, 1}, {}, {}, {}, 5},                  // the stride of one row does not matter
      {{3, 2}, {0, 1}, {2, 1}, {3}, {0}, {2}, 2},                // a row three times
      {{}, {}, {}, {}, {}, {}, 1},
      {{3, 0}, {1, 1}, {1, 1}, {}, {}, {}, 0},
  };
  for (const Case& c : cases) {
    const CopyDescriptor copy = copy_descriptor(DType::f16, {c.extents, c.source}, {c.extents, c.destination});
    const CopyDescriptor expected{
        DType::f16, DType::f16, Overflow::propagate, c.counts, c.source_strides, c.destination_strides, c.chunk};
    EXPECT_EQ(copy, expected) << to_string(c.extents) << to_string(c.source) << to_string(c.destination) << ": "
                              << to_string(copy.counts) << to_string(copy.source_strides) << copy.chunk;
  }
}

TEST(Exchange, KeepsTheOrderOfCommands) {
  const Result<TileGraph> graph = hand_made::two_tile_graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const Result<Schedule> schedule = schedule_of(*graph, test_machine(2));
  ASSERT_TRUE(schedule) << schedule.error().message;
  ASSERT_EQ(schedule->supersteps.size(), 2U);
  EXPECT_THAT(schedule->supersteps[0].tile_begin, ElementsAre(0, 1, 2));
  EXPECT_THAT(schedule->supersteps[1].tile_begin, ElementsAre(2, 3, 4));
  EXPECT_EQ(schedule->commands[3], (ScheduledCommand{ScheduledCommand::Kind::run, 3}));
  EXPECT_TRUE(schedule->pulls.empty());
  EXPECT_EQ(schedule->supersteps[0].cycles, 0);
}

// Four tiles; each of eight exchanges moves two elements of x to y; destination i is for tile i % 4.
TEST(Exchange, PullsAreRotatedAndMerged) {
  Maker make(4);
  const AllocationId x = make.input("x", DType::f32, {16});
  const AllocationId y = make.output("y", DType::f32, {16});
  make.builder.begin_region();
  make.builder.begin_superstep();
  // Tile t pulls parts t and t + 4, but tile 3 parts 3 and 4, which continue each other on both sides; tile 0 gets 7.
  for (const int64_t part : {0, 1, 2, 3, 7, 5, 6, 4}) {
    make.builder.exchange(make.line(x, 2 * part, 2), std::vector{make.line(y, 2 * part, 2)});
  }
  make.builder.end_superstep();
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const Result<Schedule> schedule = schedule_of(*graph, test_machine(4));
  ASSERT_TRUE(schedule) << schedule.error().message;
  ASSERT_EQ(schedule->pulls.size(), 7U);
  std::vector<std::vector<int64_t>> offsets(4);
  const std::vector<uint32_t>& begin = schedule->supersteps[0].tile_begin;
  for (size_t tile = 0; tile < 4; ++tile) {
    for (uint32_t i = begin[tile]; i < begin[tile + 1]; ++i) {
      ASSERT_EQ(schedule->commands[i].kind, ScheduledCommand::Kind::pull);
      offsets[tile].push_back(schedule->pulls[schedule->commands[i].index].source.offset);
    }
  }
  // Seven places at 0, 2, 4, 6, 10, 12, 14 have the numbers i * 4 / 7 = 0, 0, 1, 1, 2, 2, 3. Tile t begins with number
  // t + 1.
  EXPECT_THAT(offsets[0], ElementsAre(14, 0));  // 3, then 0: turns 2, 3
  EXPECT_THAT(offsets[1], ElementsAre(10, 2));  // 2, then 0: turns 0, 2
  EXPECT_THAT(offsets[2], ElementsAre(4, 12));  // 1, then 2: turns 2, 3
  EXPECT_THAT(offsets[3], ElementsAre(6));
  const Pull& merged = schedule->pulls[schedule->commands[begin[3]].index];
  EXPECT_EQ(schedule->descriptors[merged.descriptor.index].chunk, 4);
  // Each tile reads and writes 16 bytes at 4 bytes a cycle, in at most two transfers of 10 cycles; all of them 128
  // bytes at 16.
  EXPECT_EQ(schedule->supersteps[0].lower_bound_cycles, 8);
  EXPECT_EQ(schedule->supersteps[0].cycles, 28);
  EXPECT_THAT(print(*schedule, *graph), HasSubstr("superstep 0 cycles 28 lower bound 8\n  tile 0: pull 0 pull 1\n"));
}

// Blocks of rows, and blocks side by side, become one; what does not continue on one side stays.
TEST(Exchange, MergesBoxes) {
  const auto pulls_of = [](std::vector<std::pair<int64_t, int64_t>> offsets) {
    Maker make(1);
    const AllocationId x = make.input("x", DType::f32, {8, 8});
    const AllocationId y = make.output("y", DType::f32, {8, 16});
    make.builder.begin_region();
    make.builder.begin_superstep();
    for (const auto& [from, to] : offsets) {
      make.builder.exchange(make.view(x, {2, 3}, {8, 1}, from), std::vector{make.view(y, {2, 3}, {16, 1}, to)});
    }
    make.builder.end_superstep();
    make.builder.end_region();
    const Result<TileGraph> graph = make.finish();
    EXPECT_TRUE(graph) << graph.error().message;
    std::vector<std::pair<Shape, int64_t>> shapes;
    for (const DistributedPull& pull : superstep_pulls(*graph, graph->supersteps()[0])) {
      shapes.emplace_back(pull.descriptor.counts, pull.descriptor.chunk);
    }
    return shapes;
  };
  using Entry = std::pair<Shape, int64_t>;
  EXPECT_THAT(pulls_of({{0, 0}, {16, 32}}), ElementsAre(Entry{{4}, 3}));               // below: 2 * 8 and 2 * 16
  EXPECT_THAT(pulls_of({{0, 0}, {3, 3}}), ElementsAre(Entry{{2}, 6}));                 // beside
  EXPECT_THAT(pulls_of({{0, 0}, {3, 4}}), ElementsAre(Entry{{2}, 3}, Entry{{2}, 3}));  // a gap in the destination
  EXPECT_THAT(pulls_of({{0, 0}, {16, 48}}), ElementsAre(Entry{{2}, 3}, Entry{{2}, 3}));
}

TEST(Exchange, CopiesCostToo) {
  Maker make(2);
  const AllocationId x = make.input("x", DType::f32, {16});
  const AllocationId y = make.output("y", DType::f32, {16});
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.copy(1, x, 0, y, 0, 16);
  make.builder.end_superstep();
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  Machine machine = test_machine(2);
  machine.command_cycles = 10;
  const Result<Schedule> schedule = schedule_of(*graph, machine);
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_THAT(schedule->supersteps[0].tile_begin, ElementsAre(0, 0, 1));
  EXPECT_EQ(schedule->supersteps[0].lower_bound_cycles, 32);  // 128 bytes at 4 a cycle
  EXPECT_EQ(schedule->supersteps[0].cycles, 42);
}

Machine islands(uint32_t tiles) {
  Machine machine = test_machine(tiles);
  machine.name = "islands";
  machine.global_memory = false;
  machine.tile_memory_bytes = 1000;
  machine.cluster_bytes_per_cycle = machine.across_bytes_per_cycle = 4;
  machine.own_bytes_per_cycle = 16;
  machine.command_cycles = 10;
  machine.alignment_bytes = 8;
  return machine;
}

// Tiles are sent 8 bytes each; then each sends its 8 bytes to three others and is sent three times 8; then sends 8
// bytes out.
TEST(DistributedExchange, MulticastCountsOnceAtItsSource) {
  const Result<TileGraph> graph = hand_made::islands_graph(3);
  ASSERT_TRUE(graph) << graph.error().message;
  const Result<Schedule> schedule = schedule_of(*graph, islands(4));
  ASSERT_TRUE(schedule) << schedule.error().message;
  ASSERT_EQ(schedule->supersteps.size(), 3U);
  EXPECT_EQ(schedule->supersteps[0].lower_bound_cycles, 2);
  EXPECT_EQ(schedule->supersteps[0].cycles, 12);
  EXPECT_EQ(schedule->supersteps[1].lower_bound_cycles, 6 + (8 + 8) / 16.0);
  EXPECT_EQ(schedule->supersteps[1].cycles, 6 + 3 * 10 + (8 + 8) / 16.0 + 10);  // three pieces and the copy of its own
  EXPECT_EQ(schedule->supersteps[2].lower_bound_cycles, 2);
  EXPECT_EQ(schedule->supersteps[2].cycles, 12);
  // Where nothing runs a superstep costs what its transfers take.
  const CostReport report = cost_report(*graph, islands(4));
  EXPECT_EQ(report.supersteps[0].total(), schedule->supersteps[0].cycles);
  EXPECT_GT(report.supersteps[1].total(), schedule->supersteps[1].cycles);
  EXPECT_EQ(report.supersteps[2].total(), schedule->supersteps[2].cycles);
  // Rotated: tile 1 begins with tile 2.
  std::vector<uint32_t> sources;
  const std::vector<uint32_t>& begin = schedule->supersteps[1].tile_begin;
  for (uint32_t i = begin[1]; i < begin[2]; ++i) {
    const ScheduledCommand& command = schedule->commands[i];
    if (command.kind == ScheduledCommand::Kind::pull) {
      sources.push_back(graph->allocation(schedule->pulls[command.index].source.allocation).home.index);
    }
  }
  EXPECT_THAT(sources, ElementsAre(2, 3, 0));
  // Out of the tiles: each sends its own.
  const std::vector<uint32_t>& last = schedule->supersteps[2].tile_begin;
  for (size_t tile = 0; tile < 4; ++tile) EXPECT_EQ(last[tile + 1] - last[tile], 1U);
}

// One tile has all: it is the bottleneck if each wants another part, and is not if all want the same.
TEST(DistributedExchange, SendersBound) {
  for (const bool same : {false, true}) {
    Maker make(5, "islands");
    const AllocationId x = make.allocation(DType::f32, {64}, Role::input, TileId(0));
    make.builder.input("x", {DType::f32, {64}}, x);
    make.builder.begin_region();
    make.builder.begin_superstep();
    std::vector<View> all;
    for (uint32_t t = 1; t < 5; ++t) {
      const AllocationId part = make.allocation(DType::f32, {16}, Role::output, TileId(t));
      make.builder.output("y", {DType::f32, {16}}, part);
      all.push_back(make.line(part, 0, 16));
      if (!same) make.builder.exchange(make.line(x, 16 * (t - 1), 16), std::vector{all.back()});
    }
    if (same) make.builder.exchange(make.line(x, 0, 16), all);
    make.builder.end_superstep();
    make.builder.end_region();
    const Result<TileGraph> graph = make.finish();
    ASSERT_TRUE(graph) << graph.error().message;
    const Result<Schedule> schedule = schedule_of(*graph, islands(5));
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_EQ(schedule->supersteps[0].lower_bound_cycles, same ? 16 : 64);  // 64 bytes each
    EXPECT_EQ(schedule->supersteps[0].cycles, same ? 26 : 64);
  }
}

TEST(Exchange, Refusals) {
  Maker make(1, "islands");
  const AllocationId x = make.allocation(DType::f32, {4}, Role::input, TileId(0));
  make.builder.input("x", {DType::f32, {4}}, x);
  make.builder.begin_region();
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  Machine machine = test_machine(1);
  machine.name = "islands";
  EXPECT_EQ(schedule_exchange(*graph, Placement(), machine).error().kind, ErrorKind::internal);
}

}  // namespace
}  // namespace low
