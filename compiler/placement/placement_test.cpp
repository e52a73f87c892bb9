#include "compiler/placement/placement.h"

#include <algorithm>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/low/hand_made.h"
#include "compiler/placement/lifetimes.h"

namespace low {
namespace {

using hand_made::Maker;
using testing::HasSubstr;

Machine test_machine(uint32_t tiles, uint64_t bytes = 1 << 20) {
  Machine machine;
  machine.name = "test";
  machine.tiles = tiles;
  machine.global_memory_bytes = bytes;
  machine.alignment_bytes = 64;
  return machine;
}

void superstep(Maker& make, const std::function<void()>& commands) {
  make.builder.begin_superstep();
  commands();
  make.builder.end_superstep();
}

TEST(Lifetimes, StraightLine) {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {16});
  const AllocationId y = make.output("y", DType::f32, {16});
  const AllocationId a = make.allocation(DType::f32, {16});
  const AllocationId b = make.allocation(DType::f32, {16});
  make.builder.begin_region();
  superstep(make, [&] { make.copy(0, x, 0, a, 0, 16); });
  superstep(make, [&] { make.copy(0, a, 0, b, 0, 16); });
  superstep(make, [&] { make.copy(0, b, 0, y, 0, 16); });
  superstep(make, [&] { make.copy(0, b, 0, make.allocation(DType::f32, {16}), 0, 16); });
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const auto lives = lifetimes(*graph);
  EXPECT_EQ(lives[x], (Lifetime{0, 0}));
  EXPECT_EQ(lives[y], (Lifetime{2, 3}));  // outputs to the end
  EXPECT_EQ(lives[a], (Lifetime{0, 1}));
  EXPECT_EQ(lives[b], (Lifetime{1, 3}));
}

// Positions: 0 before; 1, 2, 3 in the Repeat; 4 behind it.
TEST(Lifetimes, Repeats) {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {16});
  const AllocationId y = make.output("y", DType::f32, {16});
  const auto fresh = [&] { return make.allocation(DType::f32, {16}); };
  const AllocationId before = fresh(), local = fresh(), carried = fresh(), half = fresh(), turns = fresh(),
                     inside = fresh();
  make.builder.begin_region();
  superstep(make, [&] { make.copy(0, x, 0, before, 0, 16); });
  make.builder.begin_region();
  superstep(make, [&] {
    make.copy(0, before, 0, local, 0, 16);  // read from outside: all of the Repeat
    make.copy(0, x, 0, half, 0, 8);         // the other half is from the iteration before
    make.copy(0, x, 0, turns, 0, 8, {}, {{0, 2, 8}});
  });
  superstep(make, [&] {
    make.copy(0, carried, 0, inside, 0, 16);  // read first: carried
    make.copy(0, half, 4, local, 4, 8);
    make.copy(0, turns, 0, local, 4, 8, {{0, 2, 8}});
  });
  superstep(make, [&] {
    make.copy(0, inside, 0, carried, 0, 16);
    make.copy(0, inside, 8, half, 8, 8);
    make.copy(0, local, 0, y, 0, 16);
  });
  const RegionId body = make.builder.end_region();
  make.builder.repeat(0, 5, body);
  superstep(make, [&] { make.copy(0, x, 0, fresh(), 0, 16); });
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const auto lives = lifetimes(*graph);
  EXPECT_EQ(lives[x], (Lifetime{0, 4}));
  EXPECT_EQ(lives[before], (Lifetime{0, 3}));
  EXPECT_EQ(lives[local], (Lifetime{1, 3}));
  EXPECT_EQ(lives[carried], (Lifetime{1, 3}));
  EXPECT_EQ(lives[half], (Lifetime{1, 3}));
  EXPECT_EQ(lives[turns], (Lifetime{1, 3}));
  EXPECT_EQ(lives[inside], (Lifetime{2, 3}));  // written whole, then read: not carried
  EXPECT_EQ(lives[y], (Lifetime{1, 4}));
}

// Carried, or written anew in each iteration: element by element, for few pieces and for many.
TEST(Lifetimes, CarriedElementByElement) {
  const unsigned seed = 17;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  int found = 0;
  constexpr int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    const bool many = round % 2 == 0;
    const int64_t unit = many ? 100 : 1;  // pieces of an access
    const int64_t size = 12 * unit;
    Maker make(1);
    const AllocationId constant = make.parameter(Tensor(DType::f32, {size}));
    const AllocationId sink = make.allocation(DType::f32, {size});
    const AllocationId a = make.allocation(DType::f32, {2 * size});
    std::vector<bool> written(static_cast<size_t>(2 * size));
    bool carried = false;
    make.builder.begin_region();
    make.builder.begin_region();
    superstep(make, [&] { make.copy(0, constant, 0, sink, 0, 1); });
    for (int64_t use = 0; use < 8; ++use) {
      const bool write = use < 2 || below(2) == 0;
      const int64_t stride = many ? 2 : 1;
      const int64_t begin = below(4) * unit + (many ? below(2) : 0), count = (1 + below(8)) * unit;
      const View view = make.view(a, {count}, {stride}, begin);
      superstep(make, [&] {
        if (write) {
          make.builder.exchange(make.line(constant, 0, count), std::vector{view});
        } else {
          make.builder.exchange(view, std::vector{make.line(sink, 0, count)});
        }
      });
      for (int64_t i = 0; i < count; ++i) {
        const auto element = static_cast<size_t>(begin + i * stride);
        if (write) written[element] = true;
        carried = carried || !written[element];
      }
    }
    superstep(make, [&] { make.copy(0, constant, 0, sink, 0, 1); });
    const RegionId body = make.builder.end_region();
    make.builder.repeat(0, 2, body);
    make.builder.end_region();
    const Result<TileGraph> graph = make.finish();
    ASSERT_TRUE(graph) << graph.error().message;
    const Lifetime lifetime = lifetimes(*graph)[a];
    EXPECT_EQ(lifetime.first, carried ? 0U : 1U) << round;
    found += carried;
  }
  EXPECT_GT(found, rounds / 5);
  EXPECT_LT(found, rounds * 4 / 5);
}

// Left and right columns of 64 GB are written, then all of it is read. Whether an iteration reads what it wrote takes a
// map of the rows' halves, if the halves are equal, and is not asked if only a map of all elements could tell.
TEST(Lifetimes, LargeStoragesInManyPieces) {
  constexpr int64_t rows = int64_t{1} << 22, columns = int64_t{1} << 12;
  for (const int64_t left : {columns / 2, int64_t{1}}) {
    Maker make(1);
    const AllocationId x = make.input("x", DType::f32, {1});
    const AllocationId large = make.allocation(DType::f32, {rows, columns});
    const AllocationId sink = make.allocation(DType::f32, {rows, columns});
    const auto fill = [&](int64_t first, int64_t count) {
      make.builder.exchange(make.view(x, {rows, count}, {0, 0}),
                            std::vector{make.view(large, {rows, count}, {columns, 1}, first)});
    };
    make.builder.begin_region();
    make.builder.begin_region();
    superstep(make, [&] { make.copy(0, x, 0, sink, 0, 1); });
    superstep(make, [&] {
      fill(0, left);
      fill(left, columns - left);
    });
    superstep(make, [&] {
      make.builder.exchange(make.line(large, 0, rows * columns), std::vector{make.line(sink, 0, rows * columns)});
    });
    const RegionId body = make.builder.end_region();
    make.builder.repeat(0, 5, body);
    make.builder.end_region();
    const Result<TileGraph> graph = make.finish();
    ASSERT_TRUE(graph) << graph.error().message;
    const bool exact = left == columns / 2;
    EXPECT_EQ(lifetimes(*graph)[large], (exact ? Lifetime{1, 2} : Lifetime{0, 2}));
  }
}

TEST(Placement, Parameters) {
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {16});
  const AllocationId y = make.output("y", DType::f32, {16});
  const AllocationId a = make.allocation(DType::f32, {16});
  const AllocationId p = make.parameter(Tensor(DType::f32, {3}));
  const AllocationId q = make.parameter(Tensor(DType::f32, {5}));
  make.builder.begin_region();
  superstep(make, [&] { make.copy(0, x, 0, a, 0, 16); });
  superstep(make, [&] { make.copy(0, p, 0, make.allocation(DType::f32, {16}), 0, 3); });
  superstep(make, [&] { make.copy(0, q, 0, make.allocation(DType::f32, {16}), 0, 3); });
  superstep(make, [&] { make.copy(0, a, 0, y, 0, 16); });
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const Result<Placement> placement = place(*graph, test_machine(1));
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->lifetimes[a], (Lifetime{0, 3}));
  EXPECT_EQ(placement->locations[p], (Location{Memory::parameters, 0}));
  EXPECT_EQ(placement->locations[q], (Location{Memory::parameters, 64}));
  EXPECT_EQ(placement->parameter_bytes, 128U);
  EXPECT_EQ(placement->arena_bytes, 128U);  // x and a at position 0; a with each of the others later
  EXPECT_THAT(print(*placement, *graph), HasSubstr("allocation 3 parameters offset 0 bytes 12 live 0 to 3"));

  const Result<Placement> small = place(*graph, test_machine(1, 255));
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(small.error().message, HasSubstr("256 bytes of global memory (128 of parameters), machine test has 255"));
}

TEST(Placement, TileMemories) {
  Maker make(3);
  const AllocationId x = make.allocation(DType::f32, {16}, Role::input, TileId(1));
  make.builder.input("x", {DType::f32, {16}}, x);
  const AllocationId a = make.allocation(DType::f32, {32}, Role::intermediate, TileId(2));
  const AllocationId b = make.allocation(DType::f32, {16}, Role::output, TileId(2));
  make.builder.output("b", {DType::f32, {16}}, b);
  make.builder.begin_region();
  superstep(make, [&] { make.builder.exchange(make.line(x, 0, 16), std::vector{make.line(a, 0, 16)}); });
  superstep(make, [&] { make.copy(2, a, 0, b, 0, 16); });
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  Machine machine = test_machine(3);
  EXPECT_THAT(place(*graph, machine).error().message, HasSubstr("no memory of their own"));
  machine.global_memory = false;
  machine.tile_memory_bytes = 192;
  const Result<Placement> placement = place(*graph, machine);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->tile_bytes, (std::vector<uint64_t>{0, 64, 192}));
  EXPECT_EQ(placement->locations[a], (Location{Memory::tile, 0}));
  EXPECT_EQ(placement->locations[b], (Location{Memory::tile, 128}));
  machine.tile_memory_bytes = 191;
  EXPECT_THAT(place(*graph, machine).error().message,
              HasSubstr("needs 192 bytes on tile 2, a tile of machine test has 191"));
}

// The model's inputs and outputs lie outside; the tile that needs most is named.
TEST(Placement, OutsideOfTheTiles) {
  const Result<TileGraph> graph = hand_made::islands_graph(3);
  ASSERT_TRUE(graph) << graph.error().message;
  Machine machine = test_machine(4);
  machine.name = "islands";
  machine.global_memory = false;
  machine.global_memory_bytes = 0;
  machine.alignment_bytes = 8;
  machine.tile_memory_bytes = 72;  // two halves of 8 bytes, 32 gathered, 24 of constants
  const Result<Placement> placement = place(*graph, machine);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->tile_bytes, (std::vector<uint64_t>(4, 72)));
  EXPECT_EQ(placement->arena_bytes, 32U);  // x is gone when y comes
  machine.tile_memory_bytes = 71;
  const Result<Placement> small = place(*graph, machine);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(small.error().message, "placement: the program needs 72 bytes on tile 0, a tile of machine islands has 71");
}

// Allocations with given lifetimes and sizes (in multiples of 64 bytes): written at the first position, read at the
// last.
struct Wish {
  Lifetime lifetime;
  int64_t units = 1;
};
Result<TileGraph> graph_of(const std::vector<Wish>& wishes, uint32_t positions) {
  Maker make(1);
  const AllocationId constant = make.parameter(Tensor(DType::f32, {16 * 64}));
  const AllocationId sink = make.allocation(DType::f32, {1});
  std::vector<AllocationId> ids;
  for (const Wish& wish : wishes) ids.push_back(make.allocation(DType::f32, {16 * wish.units}));
  make.builder.begin_region();
  for (uint32_t position = 0; position < positions; ++position) {
    superstep(make, [&] {
      make.copy(0, constant, 0, sink, 0, 1);
      for (size_t i = 0; i < wishes.size(); ++i) {
        if (wishes[i].lifetime.first == position) make.copy(0, constant, 0, ids[i], 0, 16 * wishes[i].units);
        if (wishes[i].lifetime.last == position) make.copy(0, ids[i], 0, sink, 0, 1);
      }
    });
  }
  make.builder.end_region();
  return make.finish();
}

std::vector<Wish> random_wishes(std::mt19937& random, size_t count, uint32_t positions, int64_t largest) {
  std::vector<Wish> wishes;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t a = static_cast<uint32_t>(random()) % positions, b = static_cast<uint32_t>(random()) % positions;
    wishes.push_back(
        {{std::min(a, b), std::max(a, b)}, 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest))});
  }
  return wishes;
}

TEST(Placement, NothingAliveOverlaps) {
  const unsigned seed = 21;
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const std::vector<Wish> wishes = random_wishes(random, random() % 40, 12, 31);
    const Result<TileGraph> graph = graph_of(wishes, 12);
    ASSERT_TRUE(graph) << graph.error().message;
    const Result<Placement> placement = place(*graph, test_machine(1));
    ASSERT_TRUE(placement) << placement.error().message;
    // Allocation 0 is the constant, 1 the sink of four bytes that is always alive.
    uint64_t peak = 64;
    std::vector<uint64_t> live(12, 64);
    for (size_t i = 0; i < wishes.size(); ++i) {
      const AllocationId a(i + 2);
      const uint64_t begin = placement->locations[a].offset, end = begin + static_cast<uint64_t>(wishes[i].units) * 64;
      EXPECT_EQ(placement->lifetimes[a], wishes[i].lifetime);
      EXPECT_EQ(begin % 64, 0U);
      peak = std::max(peak, end);
      for (uint32_t p = wishes[i].lifetime.first; p <= wishes[i].lifetime.last; ++p) live[p] += end - begin;
      for (size_t j = 0; j < i + 2; ++j) {
        const AllocationId b(j);
        if (placement->locations[b].memory != Memory::arena) continue;
        const bool together = placement->lifetimes[b].first <= wishes[i].lifetime.last &&
                              wishes[i].lifetime.first <= placement->lifetimes[b].last;
        const uint64_t other = placement->locations[b].offset;
        EXPECT_TRUE(!together || end <= other || other + graph->storage_bytes(b) <= begin)
            << "seed " << seed << ", round " << round;
      }
    }
    EXPECT_EQ(placement->lower_bound_bytes, *std::ranges::max_element(live));
    EXPECT_GE(placement->arena_bytes, placement->lower_bound_bytes);
    EXPECT_LE(placement->arena_bytes, peak + 64);
  }
}

// The smallest arena over all orders in which each is put at the lowest free offset: an optimum for so few.
uint64_t best_arena(const std::vector<Wish>& wishes) {
  std::vector<size_t> order(wishes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  uint64_t best = UINT64_MAX;
  do {
    std::vector<uint64_t> offset(wishes.size());
    uint64_t peak = 64;
    for (size_t i = 0; i < order.size(); ++i) {
      const Wish& wish = wishes[order[i]];
      const auto size = static_cast<uint64_t>(wish.units) * 64;
      uint64_t at = 64;  // behind the sink
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j < i; ++j) {
          const Wish& other = wishes[order[j]];
          const uint64_t from = offset[order[j]], to = from + static_cast<uint64_t>(other.units) * 64;
          if (other.lifetime.first <= wish.lifetime.last && wish.lifetime.first <= other.lifetime.last && at < to &&
              from < at + size) {
            at = to;
            moved = true;
          }
        }
      }
      offset[order[i]] = at;
      peak = std::max(peak, at + size);
    }
    best = std::min(best, peak);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST(Placement, GreedyIsNearTheOptimum) {
  const unsigned seed = 5;
  std::mt19937 random(seed);
  int optimal = 0;
  constexpr int rounds = 60;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Wish> wishes = random_wishes(random, 5, 6, 8);
    const Result<TileGraph> graph = graph_of(wishes, 6);
    ASSERT_TRUE(graph) << graph.error().message;
    const Result<Placement> placement = place(*graph, test_machine(1));
    ASSERT_TRUE(placement) << placement.error().message;
    const uint64_t best = best_arena(wishes);
    EXPECT_GE(placement->arena_bytes, placement->lower_bound_bytes);
    EXPECT_GE(placement->arena_bytes, best) << "seed " << seed << ", round " << round;
    EXPECT_LE(placement->arena_bytes, best + best / 2) << "seed " << seed << ", round " << round;
    optimal += placement->arena_bytes == best;
  }
  EXPECT_GE(optimal, rounds * 3 / 4);
}

// All live at once: each would be compared with all others.
TEST(Placement, TooManyAllocationsAreRefused) {
  constexpr int64_t count = 100'000;  // squared and halved: more than 2^32 looks
  Maker make(1);
  const AllocationId x = make.input("x", DType::f32, {1});
  make.builder.begin_region();
  superstep(make, [&] {
    std::vector<View> destinations;
    for (int64_t i = 0; i < count; ++i) destinations.push_back(make.line(make.allocation(DType::f32, {1}), 0, 1));
    make.builder.exchange(make.line(x, 0, 1), destinations);
  });
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const Result<Placement> placement = place(*graph, test_machine(1, uint64_t{1} << 40));
  ASSERT_FALSE(placement.has_value());
  EXPECT_EQ(placement.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(placement.error().message, HasSubstr("100001 allocations"));
}

TEST(Placement, WrongMachine) {
  const Result<TileGraph> graph = hand_made::two_tile_graph();
  ASSERT_TRUE(graph);
  EXPECT_THAT(place(*graph, test_machine(3)).error().message,
              HasSubstr("the graph is for 2 tiles, machine test has 3"));
}

}  // namespace
}  // namespace low
