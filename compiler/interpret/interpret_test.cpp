#include "compiler/interpret/interpret.h"

#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/interpret/kernels.h"
#include "compiler/interpret/storage.h"
#include "compiler/low/hand_made.h"

namespace low {
namespace {

using hand_made::f32_tensor;
using hand_made::Maker;
using hand_made::SizedContract;
using hand_made::values_of;
using testing::ElementsAre;
using testing::HasSubstr;

Machine test_machine(uint32_t tiles) {
  Machine machine;
  machine.name = "test";
  machine.tiles = tiles;
  machine.global_memory_bytes = 1 << 24;
  return machine;
}

// Tiles with memories of their own.
Machine islands(uint32_t tiles) {
  Machine machine = test_machine(tiles);
  machine.name = "islands";
  machine.global_memory = false;
  machine.global_memory_bytes = 0;
  machine.tile_memory_bytes = 1 << 20;
  machine.alignment_bytes = 8;
  return machine;
}

// Placed and scheduled; `change` may break either.
Result<std::vector<Tensor>> interpret_placed(const TileGraph& graph, const std::vector<Tensor>& inputs,
                                             const std::function<void(Placement&, Schedule&)>& change = {}) {
  const Machine machine = graph.machine() == "islands" ? islands(graph.tiles()) : test_machine(graph.tiles());
  LOW_TRY(Placement placement, place(graph, machine));
  LOW_TRY(Schedule schedule, schedule_exchange(graph, placement, machine));
  if (change) change(placement, schedule);
  return interpret(graph, placement, schedule, inputs);
}

// Both forms, which have to agree.
std::vector<std::vector<double>> results(const Result<TileGraph>& graph, const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(graph) << graph.error().message;
  if (!graph) return {};
  const Result<std::vector<Tensor>> a = interpret(*graph, inputs);
  const Result<std::vector<Tensor>> b = interpret_placed(*graph, inputs);
  EXPECT_TRUE(a) << a.error().message;
  EXPECT_TRUE(b) << b.error().message;
  if (!a || !b) return {};
  EXPECT_EQ(*a, *b);
  std::vector<std::vector<double>> values;
  for (const Tensor& tensor : *a) values.push_back(values_of(tensor));
  return values;
}

TEST(Interpret, TwoTiles) {
  const auto values = results(hand_made::two_tile_graph(),
                              {f32_tensor({8}, {1, 2, 3, 4, 5, 6, 7, 8}), f32_tensor({8}, {0, 1, 0, 1, 0, 1, 0, 1})});
  ASSERT_EQ(values.size(), 1U);
  EXPECT_THAT(values[0], ElementsAre(1, 6, 9, 20, 25, 42, 49, 72));  // (a + b) * a
}

TEST(Interpret, PingPongInARepeat) {
  for (const int64_t count : {1, 2, 3, 27}) {
    const auto values = results(hand_made::ping_pong_graph(count), {f32_tensor({3}, {1, 2, 3})});
    ASSERT_EQ(values.size(), 2U) << count;
    const auto sum = static_cast<double>(count * (count - 1) / 2);  // 0 + 1 + … + count - 1
    EXPECT_THAT(values[0], ElementsAre(1 + sum, 2 + 10 * sum, 3 + 100 * sum)) << count;
    double running = 0;
    for (int64_t i = 0; i < count; ++i) {
      running += static_cast<double>(i);
      EXPECT_EQ(values[1][static_cast<size_t>(3 * i + 2)], 3 + 100 * running) << count << " " << i;
    }
  }
}

TEST(Interpret, TileMemories) {
  for (const int64_t count : {1, 2, 3, 8}) {
    std::vector<double> h{1, 2, 3, 4, 5, 6, 7, 8};
    const auto values = results(hand_made::islands_graph(count), {f32_tensor({8}, h)});
    ASSERT_EQ(values.size(), 1U) << count;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<double> next(8);
      for (size_t t = 0; t < 4; ++t) {
        next[2 * t] = h[2 * ((t + 1) % 4)] + 10.0 * static_cast<double>(t) + static_cast<double>(i);
        next[2 * t + 1] = h[2 * ((t + 1) % 4) + 1] + 100.0 * static_cast<double>(t) + static_cast<double>(i);
      }
      h = next;
    }
    EXPECT_THAT(values[0], testing::ElementsAreArray(h)) << count;
  }
}

// Tile 2 keeps what it gathers where its halves are: those are gone when others ask for them.
TEST(Interpret, WrongPlacesInTileMemories) {
  const Result<TileGraph> graph = hand_made::islands_graph(3);
  ASSERT_TRUE(graph) << graph.error().message;
  const std::vector<Tensor> inputs{f32_tensor({8}, {1, 2, 3, 4, 5, 6, 7, 8})};
  AllocationId halves, gathered;
  for (size_t i = 0; i < graph->allocations().size(); ++i) {
    const Allocation& allocation = graph->allocation(AllocationId(i));
    if (allocation.home != TileId(2) || allocation.role != Role::intermediate) continue;
    (graph->storage_elements(AllocationId(i)) == 4 ? halves : gathered) = AllocationId(i);
  }
  const auto overlap = [&](Placement& placement, Schedule&) {
    placement.locations[gathered].offset = placement.locations[halves].offset;
  };
  const Result<std::vector<Tensor>> result = interpret_placed(*graph, inputs, overlap);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::internal);
  // A placement on another tile's memory, or outside.
  const auto outside = [&](Placement& placement, Schedule&) { placement.locations[gathered].memory = Memory::arena; };
  EXPECT_THAT(interpret_placed(*graph, inputs, outside).error().message, HasSubstr("does not lie on its home, tile 2"));
}

TEST(Interpret, Gemm) {
  Maker make(2);
  const AllocationId a = make.input("a", DType::f32, {3, 2});
  const AllocationId b = make.input("b", DType::f32, {2, 5});
  const AllocationId y = make.output("y", DType::f32, {3, 5});
  make.builder.begin_region();
  make.builder.begin_superstep();
  // Columns 0 to 2 on tile 0, 3 and 4 on tile 1.
  make.run(0, make.gemm(DType::f32, DType::f32, DType::f32, DType::f32),
           {make.view(a, {3, 2}, {2, 1}), make.view(b, {2, 3}, {5, 1}), make.view(y, {3, 3}, {5, 1})});
  make.run(1, make.gemm(DType::f32, DType::f32, DType::f32, DType::f32),
           {make.view(a, {3, 2}, {2, 1}), make.view(b, {2, 2}, {5, 1}, 3), make.view(y, {3, 2}, {5, 1}, 3)});
  make.builder.end_superstep();
  make.builder.end_region();
  const auto values = results(
      make.finish(), {f32_tensor({3, 2}, {1, 2, 3, 4, 5, 6}), f32_tensor({2, 5}, {1, 2, 3, 4, 5, 10, 20, 30, 40, 50})});
  ASSERT_EQ(values.size(), 1U);
  EXPECT_THAT(values[0], ElementsAre(21, 42, 63, 84, 105,       // 1, 2, … + 2 * (10, 20, …)
                                     43, 86, 129, 172, 215,     // 3 and 4
                                     65, 130, 195, 260, 325));  // 5 and 6
}

TEST(Kernels, Numerics) {
  const auto gemm = [](const Shape& mnk, DType operand, DType math, DType accumulate) {
    SizedContract contract;
    contract.family = GemmKernel{.math_a = math, .math_b = math, .accumulate = accumulate};
    contract.extents = mnk;
    contract.operands = {{operand, {}}, {operand, {}}, {accumulate, {}}};
    ExprBuilder expr(1);
    const uint16_t input = expr.input(0, accumulate);
    contract.expr = std::move(expr).finish(input);
    return contract;
  };
  using Operands = std::vector<std::vector<uint64_t>>;
  const auto run = [](const SizedContract& contract, const Operands& operands) {
    return run_kernel(contract, contract.extents, operands);
  };
  // i8: -128 * -128 + 127 * -1 = 16257, from bytes 0x80 0x7f and 0x80 0xff.
  EXPECT_THAT(run(gemm({1, 1, 2}, DType::i8, DType::i8, DType::i32), Operands{{0x80, 0x7f}, {0x80, 0xff}}),
              ElementsAre(16257));
  // 2^31 * 2 wraps to 0 in i32.
  EXPECT_THAT(run(gemm({1, 1, 1}, DType::i32, DType::i32, DType::i32), Operands{{0x80000000}, {2}}), ElementsAre(0));
  // No k: zeros.
  EXPECT_THAT(run(gemm({1, 2, 0}, DType::f32, DType::f32, DType::f32), Operands{{}, {}}), ElementsAre(0, 0));
  // 2^24 + 1 - 2^24 is 1 in double, 0 in a chain of f32 sums.
  const auto f32 = [](double value) { return encode(DType::f32, value, Overflow::propagate); };
  EXPECT_THAT(run(gemm({1, 1, 3}, DType::f32, DType::f32, DType::f32),
                  Operands{{f32(16777216), f32(1), f32(-16777216)}, {f32(1), f32(1), f32(1)}}),
              ElementsAre(f32(1)));
  // Math in bf16: 1 + 2^-8 rounds to 1 (ties to even), in f32 it stays.
  const std::vector<uint64_t> fine{f32(1.00390625)}, one{f32(1)};
  EXPECT_THAT(run(gemm({1, 1, 1}, DType::f32, DType::bf16, DType::f32), Operands{fine, one}), ElementsAre(f32(1)));
  EXPECT_THAT(run(gemm({1, 1, 1}, DType::f32, DType::f32, DType::f32), Operands{fine, one}), ElementsAre(fine[0]));
  // Table and expression agree on conversion: 300 saturates in u8 as the expression's convert does (clamped to 255).
  EXPECT_EQ(Converter(DType::f32, DType::u8, Overflow::propagate)(f32(300)), 255U);
  EXPECT_EQ(Converter(DType::i8, DType::f32, Overflow::propagate)(0xff), f32(-1));
}

TEST(Interpret, EmptyTensorsAndScalars) {
  Maker make(1);
  const AllocationId a = make.input("a", DType::f32, {0});
  const AllocationId s = make.input("s", DType::f32, {});
  const AllocationId y = make.output("y", DType::f32, {0});
  const AllocationId z = make.output("z", DType::f32, {});
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.run(0, make.binary(), {make.line(a, 0, 0), make.line(a, 0, 0), make.line(y, 0, 0)});
  make.run(0, make.binary(), {make.line(s, 0, 1), make.line(s, 0, 1), make.line(z, 0, 1)});
  make.builder.end_superstep();
  make.builder.end_region();
  const auto values = results(make.finish(), {Tensor(DType::f32, {0}), f32_tensor({}, {21})});
  ASSERT_EQ(values.size(), 2U);
  EXPECT_THAT(values[1], ElementsAre(42));
}

// A transposed copy with conversion to f16 and an exchange to several tiles.
TEST(Interpret, CopiesAndExchanges) {
  Maker make(3);
  const AllocationId x = make.input("x", DType::f32, {2, 3});
  const AllocationId y = make.output("y", DType::f16, {3, 2});
  const AllocationId parts = make.allocation(DType::f32, {2, 2, 3});
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.builder.exchange(make.view(x, {2, 3}, {3, 1}),
                        std::vector{make.view(parts, {2, 3}, {3, 1}), make.view(parts, {2, 3}, {1, 2}, 6)});
  make.builder.end_superstep();
  make.builder.begin_superstep();
  const CopyDescriptor copy{DType::f32, DType::f16, Overflow::saturate, {}, {}, {}, 6};
  make.builder.copy(make.builder.descriptor(copy), make.line(parts, 6, 6), make.line(y, 0, 6), TileId(2));
  make.builder.end_superstep();
  make.builder.end_region();
  const auto values = results(make.finish(), {f32_tensor({2, 3}, {1, 2, 3, 4, 5, 2049})});
  ASSERT_EQ(values.size(), 1U);
  EXPECT_THAT(values[0], ElementsAre(1, 4, 2, 5, 3, 2048));  // f16 has no 2049
}

TEST(Interpret, FindsUndefinedReads) {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {4});
  const AllocationId part = make.allocation(DType::f32, {4});
  const AllocationId y = make.output("y", DType::f32, {4});
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.copy(0, x, 0, part, 0, 3);
  make.copy(0, part, 0, y, 0, 4);
  make.builder.end_superstep();
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::vector<Tensor> inputs{Tensor(DType::f32, {4})};
  for (const auto& result : {interpret(*graph, inputs), interpret_placed(*graph, inputs)}) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::internal);
    EXPECT_THAT(
        result.error().message,
        HasSubstr("superstep 0, tile 0, copy 1, operand 0 reads element 3 of allocation 1, which nothing wrote"));
  }
}

TEST(Interpret, FindsUnwrittenOutputs) {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {4});
  const AllocationId y = make.output("y", DType::f32, {4});
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.copy(0, x, 0, y, 0, 3);
  make.builder.end_superstep();
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const auto result = interpret(*graph, std::vector<Tensor>{Tensor(DType::f32, {4})});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("output 'y' has element 3"));
}

// The verifier finds races by boxes; the storage finds them again by what happens.
TEST(Storage, Races) {
  using Accessor = Storage::Accessor;
  uint64_t bits = 0;
  const auto fresh = [] {
    Storage storage(16, 2, false);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(storage.write(4 * i, 4, Accessor{7, 0, 1}, 0x11223344), "");
    return storage;
  };
  {
    Storage s = fresh();
    EXPECT_EQ(s.read(0, 4, Accessor{7, 0, 1}, bits), "");  // its own
    EXPECT_EQ(bits, 0x11223344U);
    EXPECT_THAT(s.read(0, 4, Accessor{7, 1, 1}, bits), HasSubstr("which tile 0 writes in the same superstep"));
    EXPECT_THAT(s.write(2, 2, Accessor{7, 1, 1}, 0), HasSubstr("which tile 0 writes"));
    EXPECT_EQ(s.read(0, 4, Accessor{7, 1, 2}, bits), "");
    EXPECT_THAT(s.write(0, 4, Accessor{7, 2, 2}, 0), HasSubstr("which tile 1 reads in the same superstep"));
    EXPECT_EQ(s.write(0, 4, Accessor{7, 1, 2}, 0), "");
    EXPECT_EQ(s.read(4, 4, Accessor{7, 1, 3}, bits), "");
    EXPECT_EQ(s.read(4, 4, Accessor{7, 2, 3}, bits), "");
    EXPECT_THAT(s.write(4, 4, Accessor{7, 1, 3}, 0), HasSubstr("which several tiles read"));
    EXPECT_EQ(s.write(4, 4, Accessor{7, 1, 4}, 0), "");
  }
  {
    Storage s = fresh();
    EXPECT_THAT(s.read(0, 4, Accessor{8, 0, 2}, bits), HasSubstr("where other data lies (of storage 7)"));
    s.poison(4, 4);
    EXPECT_EQ(s.read(4, 4, Accessor{7, 0, 2}, bits), "which nothing wrote");
    EXPECT_EQ(s.read(8, 4, Accessor{7, 0, 2}, bits), "");
  }
}

// Positions: x -> a (0), in the Repeat a -> b (1), b -> c (2), then c -> y (3).
Result<TileGraph> chain_graph() {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {16});
  const AllocationId a = make.allocation(DType::f32, {16});
  const AllocationId b = make.allocation(DType::f32, {16});
  const AllocationId c = make.allocation(DType::f32, {16});
  const AllocationId y = make.output("y", DType::f32, {16});
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.copy(0, x, 0, a, 0, 16);
  make.builder.end_superstep();
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.copy(0, a, 0, b, 0, 16);
  make.builder.end_superstep();
  make.builder.begin_superstep();
  make.copy(0, b, 0, c, 0, 16);
  make.builder.end_superstep();
  const RegionId body = make.builder.end_region();
  make.builder.repeat(0, 2, body);
  make.builder.begin_superstep();
  make.copy(0, c, 0, y, 0, 16);
  make.builder.end_superstep();
  make.builder.end_region();
  return make.finish();
}

TEST(InterpretPlaced, FindsWrongPlacements) {
  const Result<TileGraph> graph = chain_graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::vector<Tensor> inputs{Tensor(DType::f32, {16})};
  ASSERT_TRUE(interpret_placed(*graph, inputs));
  const AllocationId x(0), a(1), b(2), c(3), y(4);
  const auto with = [&](const std::function<void(Placement&)>& change) {
    const auto result = interpret_placed(*graph, inputs, [&](Placement& placement, Schedule&) { change(placement); });
    return result ? std::string() : result.error().message;
  };
  // Each pair that lives together: one shifted onto the other, or onto its last element.
  for (const auto& [first, second] : {std::pair{x, a}, {a, b}, {b, c}, {a, c}, {c, y}}) {
    for (const uint64_t shift : {0, 60}) {
      const std::string message = with([&](Placement& p) {
        p.arena_bytes += 4096;
        p.locations[second].offset = p.locations[first].offset + shift;
      });
      // Copying from storage to the same place changes nothing, but what is read there is then another's.
      EXPECT_FALSE(message.empty()) << first.index << " " << second.index << " " << shift;
    }
  }
  // An allocation that the Repeat needs in its second iteration but that is said to die in the first.
  EXPECT_THAT(with([&](Placement& p) { p.lifetimes[a].last = 1; }), HasSubstr("iteration 1"));
  EXPECT_THAT(with([&](Placement& p) { p.lifetimes[b].last = 1; }), HasSubstr("which lives in supersteps 1 to 1"));
  EXPECT_THAT(with([&](Placement& p) { p.arena_bytes = 0; }), HasSubstr("reaches out of its memory"));
  EXPECT_THAT(with([&](Placement& p) {
                p.locations[b].offset += 1;
                p.arena_bytes += 1;
              }),
              HasSubstr("not aligned"));
  EXPECT_THAT(with([&](Placement& p) { p.locations[b].memory = Memory::parameters; }), HasSubstr("wrong memory"));
}

TEST(InterpretPlaced, FindsWrongSchedules) {
  const Result<TileGraph> graph = hand_made::two_tile_graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::vector<Tensor> inputs{Tensor(DType::f32, {8}), Tensor(DType::f32, {8})};
  const auto with = [&](const std::function<void(Schedule&)>& change) {
    const auto result = interpret_placed(*graph, inputs, [&](Placement&, Schedule& schedule) { change(schedule); });
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(with([](Schedule&) {}), "");
  EXPECT_THAT(with([](Schedule& s) { std::swap(s.commands[0], s.commands[2]); }), HasSubstr("another order"));
  EXPECT_THAT(with([](Schedule& s) { s.supersteps[1].tile_begin = {2, 3, 3}; }), HasSubstr("lacks commands"));
  EXPECT_THAT(with([](Schedule& s) { s.supersteps[1].tile_begin = {2, 2, 4}; }), HasSubstr("another order on tile 1"));
  EXPECT_THAT(with([](Schedule& s) { s.supersteps.pop_back(); }), HasSubstr("more or fewer"));
  EXPECT_THAT(with([](Schedule& s) { s.supersteps[1].tile_begin = {2, 3, 99}; }), HasSubstr("no range of commands"));
}

TEST(InterpretPlaced, FindsALostPull) {
  Maker make(2);
  const AllocationId x = make.input("x", DType::f32, {4});
  const AllocationId y = make.output("y", DType::f32, {4});
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.builder.exchange(make.line(x, 0, 2), std::vector{make.line(y, 2, 2), make.line(y, 0, 2)});
  make.builder.end_superstep();
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::vector<Tensor> inputs{f32_tensor({4}, {1, 2, 3, 4})};
  const auto whole = interpret_placed(*graph, inputs);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_THAT(values_of((*whole)[0]), ElementsAre(1, 2, 1, 2));
  const auto lost =
      interpret_placed(*graph, inputs, [](Placement&, Schedule& s) { s.supersteps[0].tile_begin = {0, 1, 1}; });
  ASSERT_FALSE(lost);
  EXPECT_THAT(lost.error().message, HasSubstr("which nothing wrote"));
}

TEST(Interpret, RefusesWrongInputs) {
  const Result<TileGraph> graph = hand_made::two_tile_graph();
  ASSERT_TRUE(graph);
  EXPECT_THAT(interpret(*graph, {}).error().message, HasSubstr("0 inputs, expected 2"));
  const std::vector<Tensor> inputs{Tensor(DType::f32, {8}), Tensor(DType::f16, {8})};
  EXPECT_THAT(interpret(*graph, inputs).error().message, HasSubstr("input 'b' is f16[8], expected f32[8]"));
  EXPECT_FALSE(interpret(TileGraph(), {}));
}

// Random chains of sums over random cuts onto tiles, with a Repeat around some: both forms against plain arithmetic.
TEST(Interpret, RandomChains) {
  const unsigned seed = 12;
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const auto tiles = static_cast<uint32_t>(1 + random() % 7);
    const int64_t n = 1 + static_cast<int64_t>(random() % 23);
    const uint64_t count = 1 + random() % 3;
    Maker make(tiles);
    std::vector<AllocationId> values{make.input("x", DType::f32, {n})};
    std::vector<std::vector<double>> expected(1);
    for (int64_t i = 0; i < n; ++i) expected[0].push_back(static_cast<double>(random() % 4));
    const Tensor x = f32_tensor({n}, expected[0]);
    const auto add_step = [&] {
      const size_t a = random() % values.size(), b = random() % values.size();
      const AllocationId result = make.allocation(DType::f32, {n});
      make.builder.begin_superstep();
      for (int64_t at = 0; at < n;) {
        const int64_t length = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(n - at));
        make.run(static_cast<uint32_t>(random() % tiles), make.binary(),
                 {make.line(values[a], at, length), make.line(values[b], at, length), make.line(result, at, length)});
        at += length;
      }
      make.builder.end_superstep();
      values.push_back(result);
      std::vector<double> sum;
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) sum.push_back(expected[a][i] + expected[b][i]);
      expected.push_back(sum);
    };
    make.builder.begin_region();
    for (uint64_t i = random() % 4; i > 0; --i) add_step();
    make.builder.begin_region();
    for (uint64_t i = 1 + random() % 4; i > 0; --i) add_step();
    const RegionId body = make.builder.end_region();
    make.builder.repeat(0, count, body);
    for (uint64_t i = random() % 4; i > 0; --i) add_step();
    make.builder.end_region();
    const size_t last = values.size() - 1;
    make.builder.output("y", {DType::f32, {n}}, values[last]);
    const auto got = results(make.finish(), {x});
    ASSERT_EQ(got.size(), 1U) << "seed " << seed << ", round " << round;
    EXPECT_EQ(got[0], expected[last]) << "seed " << seed << ", round " << round;
  }
}

}  // namespace
}  // namespace low
