#include "compiler/low/tile_graph.h"

#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/low/hand_made.h"
#include "compiler/low/view_use.h"

namespace low {
namespace {

using hand_made::Maker;
using testing::HasSubstr;

ConstantsByHash constants_of(const TileGraph& graph) {
  ConstantsByHash result;
  for (const ConstantBox& box : graph.constants()) result.emplace_back(constant_hash(*box.tensor()), box.tensor());
  return result;
}

// A step of every kind of element: exchange, run of both families, copy with loops and conversion, Repeat with terms.
Result<TileGraph> rich_graph() {
  Maker make(4);
  const AllocationId a = make.input("a \"quoted\"\n\\", DType::f32, {2, 3});
  const AllocationId b = make.parameter(hand_made::f32_tensor({3, 5}, std::vector<double>(15, 0.5)));
  const AllocationId y = make.output("y", DType::f32, {2, 5});
  const AllocationId half = make.allocation(DType::f16, {2, 4});
  const AllocationId moved = make.allocation(DType::f32, {3, 2});
  const AllocationId codes = make.allocation(DType::u8, {24});
  const AllocationId bytes = make.allocation(DType::u8, {24});
  make.builder.begin_region();
  make.builder.begin_superstep();
  const View source = make.view(a, {2, 3}, {3, 1});
  const std::vector<View> destinations{make.view(moved, {2, 3}, {1, 2})};
  make.builder.exchange(source, destinations);
  CopyDescriptor copy{DType::f32, DType::f16, Overflow::saturate, {2}, {3}, {4}, 3};
  make.builder.copy(make.builder.descriptor(copy), make.view(a, {2, 3}, {3, 1}), make.view(half, {2, 3}, {4, 1}),
                    TileId(2));
  make.builder.end_superstep();
  make.builder.begin_region();
  make.builder.begin_region();
  make.builder.begin_superstep();
  make.run(3, make.gemm(DType::f32, DType::f32, DType::f32, DType::f32),
           {make.view(a, {2, 3}, {3, 1}), make.view(b, {3, 1}, {5, 1}, 0, {{0, 3, 1}}),
            make.view(y, {2, 1}, {5, 1}, 2, {{0, 3, 1}, {1, 2, -1}})});
  make.builder.end_superstep();
  const RegionId inner = make.builder.end_region();
  make.builder.repeat(1, 2, inner);
  const RegionId outer = make.builder.end_region();
  make.builder.repeat(0, 3, outer);
  make.builder.begin_superstep();
  make.builder.copy(make.chunk(DType::u8, DType::u8, 24), make.line(codes, 0, 24), make.line(bytes, 0, 24), TileId(0));
  make.builder.end_superstep();
  make.builder.end_region();
  return make.finish();
}

TEST(TileGraphText, RoundTrips) {
  for (const Result<TileGraph>& graph : {hand_made::two_tile_graph(), hand_made::ping_pong_graph(3), rich_graph()}) {
    ASSERT_TRUE(graph) << graph.error().message;
    const std::string text = print(*graph);
    const Result<TileGraph> parsed = parse_tile_graph(text, constants_of(*graph));
    ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
    EXPECT_EQ(print(*parsed), text);
    EXPECT_TRUE(*parsed == *graph);
  }
  EXPECT_FALSE(*hand_made::two_tile_graph() == *rich_graph());
  EXPECT_FALSE(*hand_made::ping_pong_graph(3) == *hand_made::ping_pong_graph(4));
}

TEST(TileGraphText, RefusesDamage) {
  const Result<TileGraph> graph = rich_graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::string text = print(*graph);
  const ConstantsByHash constants = constants_of(*graph);
  EXPECT_FALSE(parse_tile_graph(text, {}));  // a constant that nobody knows
  // Each prefix is refused, and no damage of a byte is worse than a refusal or another graph.
  for (size_t length = 0; length < text.size() - 1; ++length) {
    EXPECT_FALSE(parse_tile_graph(std::string_view(text).substr(0, length), constants)) << length;
  }
  const unsigned seed = 17;
  std::mt19937 random(seed);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    const size_t at = random() % text.size();
    switch (random() % 3) {
      case 0:
        damaged[at] = static_cast<char>(random() % 256);
        break;
      case 1:
        damaged.erase(at, 1 + random() % 5);
        break;
      default:
        damaged.insert(at, i % 2 == 0 ? "9223372036854775807" : "-1");
        break;
    }
    const Result<TileGraph> parsed = parse_tile_graph(damaged, constants);
    if (!parsed) continue;
    EXPECT_FALSE(print(*parsed).empty());
  }
  std::string deep = text.substr(0, text.find("region"));
  deep += "region\n";
  for (int i = 0; i < 100000; ++i) deep += "repeat " + std::to_string(i) + " count 1\n";
  const Result<TileGraph> refused = parse_tile_graph(deep, constants);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("nest deeper"));
}

// The same program, its values interned in another order and with values that nothing uses.
TEST(TileGraphBuilder, NumbersByFirstUse) {
  const auto make = [](bool reversed) {
    Maker maker(2);
    const AllocationId unused = reversed ? maker.allocation(DType::i8, {99}) : AllocationId();
    EXPECT_EQ(unused.valid(), reversed);
    if (reversed) {
      maker.builder.constant(std::make_shared<const Tensor>(DType::i8, Shape{3}));
      maker.builder.geometry(hand_made::row_major_geometry({77}));
      maker.binary(ExprOp::mul);
      maker.binary();
      maker.builder.geometry({{5}, {1}});
    }
    const AllocationId a = maker.input("a", DType::f32, {8});
    const AllocationId w = maker.parameter(hand_made::f32_tensor({8}, {1, 2, 3, 4, 5, 6, 7, 8}));
    const AllocationId y = maker.output("y", DType::f32, {8});
    maker.builder.begin_region();
    maker.builder.begin_superstep();
    const auto low_half = [&] {
      maker.run(0, maker.binary(ExprOp::mul), {maker.line(a, 0, 3), maker.line(w, 0, 3), maker.line(y, 0, 3)});
    };
    const auto high_half = [&] {
      maker.run(1, maker.binary(), {maker.line(a, 3, 5), maker.line(w, 3, 5), maker.line(y, 3, 5)});
    };
    if (reversed) high_half();
    low_half();
    if (!reversed) high_half();
    maker.builder.end_superstep();
    maker.builder.begin_superstep();  // empty: dropped
    maker.builder.end_superstep();
    maker.builder.end_region();
    return maker.finish();
  };
  const Result<TileGraph> a = make(false), b = make(true);
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b) << b.error().message;
  EXPECT_TRUE(*a == *b);
  EXPECT_EQ(print(*a), print(*b));
  EXPECT_EQ(a->supersteps().size(), 1U);
  EXPECT_EQ(b->allocations().size(), 3U);
  EXPECT_EQ(b->constants().size(), 1U);
  EXPECT_EQ(b->contracts().size(), 2U);
}

TEST(TileGraphBuilder, EqualConstantsAreOne) {
  TileGraphBuilder builder("host", 1);
  const auto tensor = [](double value) { return std::make_shared<const Tensor>(hand_made::f32_tensor({1}, {value})); };
  EXPECT_EQ(builder.constant(tensor(1)), 0U);
  EXPECT_EQ(builder.constant(tensor(2)), 1U);
  EXPECT_EQ(builder.constant(tensor(1)), 0U);
}

struct Violation {
  std::string name;
  std::string message;  // a part of it
  std::function<void(Maker&, AllocationId a, AllocationId y)>
      commands;  // in one superstep of a Repeat of 3; a and y: f32[8]
};

class Violations : public testing::TestWithParam<Violation> {};

TEST_P(Violations, AreFound) {
  Maker make(4);
  const AllocationId a = make.input("a", DType::f32, {8});
  const AllocationId y = make.output("y", DType::f32, {8});
  make.builder.begin_region();
  make.builder.begin_region();
  make.builder.begin_superstep();
  GetParam().commands(make, a, y);
  make.builder.end_superstep();
  const RegionId body = make.builder.end_region();
  make.builder.repeat(0, 3, body);
  make.builder.end_region();
  const Result<TileGraph> graph = make.finish();
  if (GetParam().message.empty()) {
    EXPECT_TRUE(graph) << graph.error().message;
    return;
  }
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().kind, ErrorKind::internal);
  EXPECT_THAT(graph.error().message, HasSubstr(GetParam().message));
}

using Ids = AllocationId;
INSTANTIATE_TEST_SUITE_P(
    Table, Violations,
    testing::Values(
        Violation{"good", "", [](Maker& m, Ids a, Ids y) { m.copy(0, a, 0, y, 0, 8); }},
        Violation{"past_the_end", "reaches elements 1 to 8", [](Maker& m, Ids a, Ids y) { m.copy(0, a, 1, y, 0, 8); }},
        Violation{"before_the_begin", "reaches elements -1 to 2", [](Maker& m, Ids a, Ids y) { m.copy(0, a, -1, y, 0, 4); }},
        // Iteration 2 reads 4 + 2 * 2 + 1.
        Violation{"term_leaves", "reaches elements 4 to 9", [](Maker& m, Ids a, Ids y) { m.copy(0, a, 4, y, 0, 2, {{0, 3, 2}}); }},
        // With period 2 only 4 + 2 + 1 is reached.
        Violation{"term_with_period_stays", "", [](Maker& m, Ids a, Ids y) { m.copy(0, a, 4, y, 0, 2, {{0, 2, 2}}); }},
        Violation{"huge_stride", "reaches out of",
                  [](Maker& m, Ids a, Ids y) {
                    const CopyDescriptor copy{DType::f32, DType::f32, Overflow::propagate, {8}, {INT64_MAX}, {1}, 1};
                    m.builder.copy(m.builder.descriptor(copy), m.view(a, {8}, {INT64_MAX}), m.line(y, 0, 8), TileId(0));
                  }},
        Violation{"term_of_unknown_level", "a term of level 1",
                  [](Maker& m, Ids a, Ids y) { m.copy(0, a, 0, y, 0, 2, {{1, 3, 2}}); }},
        Violation{"period_zero", "period 0", [](Maker& m, Ids a, Ids y) { m.copy(0, a, 0, y, 0, 2, {{0, 0, 2}}); }},
        Violation{"tile_out_of_range", "tile 4 of 4", [](Maker& m, Ids a, Ids y) { m.copy(4, a, 0, y, 0, 8); }},
        Violation{"home_of_another", "is at home on tile 1",
                  [](Maker& m, Ids a, Ids) {
                    m.copy(0, a, 0, m.allocation(DType::f32, {8}, Role::intermediate, TileId(1)), 0, 8);
                  }},
        Violation{"home_out_of_range", "its home is tile 9",
                  [](Maker& m, Ids a, Ids) {
                    m.copy(0, a, 0, m.allocation(DType::f32, {8}, Role::intermediate, TileId(9)), 0, 8);
                  }},
        Violation{"operand_missing", "2 operands, contract 0 has 3",
                  [](Maker& m, Ids a, Ids y) { m.run(0, m.binary(), {m.line(a, 0, 8), m.line(y, 0, 8)}); }},
        Violation{"operand_extents", "operand 1 has extents [4], the others want [8]",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.binary(), {m.line(a, 0, 8), m.line(a, 0, 4), m.line(y, 0, 8)});
                  }},
        Violation{"operand_rank", "operand 1 has extents [2,4], contract 0 wants 1 axes",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.binary(), {m.line(a, 0, 8), m.view(a, {2, 4}, {4, 1}), m.line(y, 0, 8)});
                  }},
        Violation{"operand_dtype", "operand 1 is f16",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.binary(), {m.line(a, 0, 8), m.line(m.allocation(DType::f16, {8}), 0, 8), m.line(y, 0, 8)});
                  }},
        Violation{"unit_access", "operand 0 has stride 2 along axis 0, contract 0 wants 1",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.binary(), {m.view(a, {4}, {2}), m.line(a, 0, 4), m.line(y, 0, 4)});
                  }},
        Violation{"gemm_a_extents", "operand 1 has extents [3,1], the others want [2,1]",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.gemm(DType::f32, DType::f32, DType::f32, DType::f32),
                          {m.view(a, {3, 2}, {2, 1}), m.view(a, {3, 1}, {1, 1}), m.view(y, {2, 1}, {1, 1})});
                  }},
        Violation{"gemm_mixed_math", "cannot multiply in i8 and accumulate in f32",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.gemm(DType::f32, DType::f32, DType::i8, DType::f32),
                          {m.view(a, {2, 3}, {3, 1}), m.view(a, {3, 1}, {1, 1}), m.view(y, {2, 1}, {1, 1})});
                  }},
        Violation{"copy_dtype", "the destination is u8",
                  [](Maker& m, Ids a, Ids) { m.copy(0, a, 0, m.allocation(DType::u8, {8}), 0, 8); }},
        Violation{"copy_count", "has 4 elements, descriptor 0 moves 8",
                  [](Maker& m, Ids a, Ids y) {
                    m.builder.copy(m.chunk(DType::f32, DType::f32, 8), m.line(a, 0, 4), m.line(y, 0, 8), TileId(0));
                  }},
        Violation{"copy_box", "its geometry is not the box",
                  [](Maker& m, Ids a, Ids y) {
                    m.builder.copy(m.chunk(DType::f32, DType::f32, 4), m.view(a, {4}, {2}), m.line(y, 0, 4), TileId(0));
                  }},
        Violation{"write_to_parameter", "a parameter",
                  [](Maker& m, Ids a, Ids) { m.copy(0, a, 0, m.parameter(Tensor(DType::f32, {8})), 0, 8); }},
        Violation{"write_write_race", "writes what",
                  [](Maker& m, Ids a, Ids y) {
                    m.copy(0, a, 0, y, 0, 4);
                    m.copy(1, a, 0, y, 3, 4);
                  }},
        Violation{"read_write_race", "writes what",
                  [](Maker& m, Ids a, Ids y) {
                    m.copy(0, a, 0, y, 0, 4);
                    m.copy(1, y, 3, m.allocation(DType::f32, {8}), 0, 4);
                  }},
        Violation{"same_tile_is_no_race", "",
                  [](Maker& m, Ids a, Ids y) {
                    m.copy(1, a, 0, y, 0, 4);
                    m.copy(1, y, 0, m.allocation(DType::f32, {8}), 0, 4);
                  }},
        // Odd and even elements: intervals overlap, boxes do not.
        Violation{"interleaved_is_no_race", "",
                  [](Maker& m, Ids a, Ids y) {
                    CopyDescriptor copy{DType::f32, DType::f32, Overflow::propagate, {4}, {2}, {2}, 1};
                    for (uint32_t tile = 0; tile < 2; ++tile) {
                      m.builder.copy(m.builder.descriptor(copy), m.view(a, {4}, {2}, tile), m.view(y, {4}, {2}, tile), TileId(tile));
                    }
                  }},
        // Tile 0 writes half i % 2, tile 1 reads the other one: never the same in one iteration.
        Violation{"halves_in_turns_are_no_race", "",
                  [](Maker& m, Ids a, Ids y) {
                    m.copy(0, a, 0, y, 0, 4, {}, {{0, 2, 4}});
                    m.copy(1, y, 4, m.allocation(DType::f32, {4}), 0, 4, {{0, 2, -4}});
                  }},
        Violation{"halves_not_in_turns", "writes what",
                  [](Maker& m, Ids a, Ids y) {
                    m.copy(0, a, 0, y, 0, 4, {}, {{0, 2, 4}});
                    m.copy(1, y, 4, m.allocation(DType::f32, {4}), 0, 4);
                  }},
        Violation{"in_place_pointwise", "",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.binary(), {m.line(a, 0, 8), m.line(y, 0, 8), m.line(y, 0, 8)});
                  }},
        Violation{"shifted_in_place", "it overlaps operand 1 of the same command",
                  [](Maker& m, Ids a, Ids y) {
                    m.run(0, m.binary(), {m.line(a, 0, 4), m.line(y, 1, 4), m.line(y, 0, 4)});
                  }},
        Violation{"exchange_extents", "differ in extents",
                  [](Maker& m, Ids a, Ids y) { m.builder.exchange(m.line(a, 0, 4), std::vector{m.line(y, 0, 3)}); }},
        Violation{"no_contract", "has no contract", [](Maker& m, Ids a, Ids) { m.run(0, ContractId(7), {m.line(a, 0, 8)}); }},
        Violation{"no_geometry", "without allocation or geometry",
                  [](Maker& m, Ids a, Ids y) { m.run(0, m.binary(), {m.line(a, 0, 8), View{a, GeometryId(), 0, {}}, m.line(y, 0, 8)}); }},
        Violation{"no_terms", "without allocation or geometry",
                  [](Maker& m, Ids a, Ids y) {
                    View view = m.line(a, 0, 8);
                    view.terms = {5, 4};
                    m.run(0, m.binary(), {view, m.line(a, 0, 8), m.line(y, 0, 8)});
                  }}),
    [](const auto& violation) { return violation.param.name; });

TEST(TileGraphVerify, RegionsAndInterface) {
  {
    Maker make(1);
    EXPECT_THAT(make.finish().error().message, HasSubstr("there is no region"));
    EXPECT_FALSE(verify(TileGraph()));
  }
  const auto with_repeat = [](uint32_t level, uint64_t count, int uses) {
    Maker make(1);
    make.builder.begin_region();
    make.builder.begin_region();
    const RegionId body = make.builder.end_region();
    for (int i = 0; i < uses; ++i) make.builder.repeat(level, count, body);
    make.builder.end_region();
    return make.finish();
  };
  EXPECT_TRUE(with_repeat(0, 1, 1));
  EXPECT_THAT(with_repeat(1, 1, 1).error().message, HasSubstr("level 1"));
  EXPECT_THAT(with_repeat(0, 0, 1).error().message, HasSubstr("count 0"));
  EXPECT_THAT(with_repeat(0, 1, 2).error().message, HasSubstr("used twice"));
  const auto with_output = [](const Type& type, int64_t offset) {
    Maker make(1);
    make.builder.output("y", type, make.allocation(DType::f32, {8}), offset);
    make.builder.begin_region();
    make.builder.end_region();
    return make.finish();
  };
  EXPECT_TRUE(with_output({DType::f32, {4}}, 4));
  EXPECT_THAT(with_output({DType::f32, {4}}, 5).error().message, HasSubstr("does not fit"));
  EXPECT_THAT(with_output({DType::f16, {4}}, 0).error().message, HasSubstr("it is f16"));
  EXPECT_THAT(with_output({DType::f32, {4}}, INT64_MAX).error().message, HasSubstr("does not fit"));
}

// Against all addresses of both boxes.
TEST(ByteBox, OverlapIsExact) {
  const unsigned seed = 4;
  std::mt19937 random(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  int overlapping = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::vector<uint8_t>> covered;
    std::vector<ByteBox> boxes;
    for (int side = 0; side < 2; ++side) {
      Shape extents, strides;
      for (int64_t axis = pick(0, 3); axis > 0; --axis) {
        extents.append(pick(0, 9) == 0 ? 0 : pick(1, 4));
        strides.append(pick(-12, 12));
      }
      const int64_t chunk = pick(1, 3), offset = pick(200, 240);
      const auto bytes = static_cast<size_t>(1 << pick(0, 2));
      boxes.push_back(byte_box(extents.extents(), strides.extents(), chunk, offset, bytes));
      std::vector<uint8_t>& bitmap = covered.emplace_back(2048);
      for (int64_t i = 0; i < extents.elements(); ++i) {
        int64_t rest = i, element = offset;
        for (int axis = 0; axis < extents.rank(); ++axis) {
          element += rest % extents[axis] * strides[axis];
          rest /= extents[axis];
        }
        for (size_t b = 0; b < static_cast<size_t>(chunk) * bytes; ++b)
          bitmap[static_cast<size_t>(element) * bytes + b] = 1;
      }
    }
    bool expected = false;
    for (size_t i = 0; i < covered[0].size(); ++i) expected = expected || (covered[0][i] != 0 && covered[1][i] != 0);
    overlapping += expected;
    ASSERT_EQ(overlap(boxes[0], boxes[1]), expected) << "seed " << seed << ", round " << round;
  }
  EXPECT_GT(overlapping, 1000);
}

// Many blocks: both ways of looking for races, on a grid without one and with one moved block.
TEST(SuperstepRule, FindsOneWrongBlockAmongMany) {
  for (const bool wrong : {false, true}) {
    Maker make(64);
    const AllocationId a = make.input("a", DType::f32, {16, 16});
    const AllocationId y = make.output("y", DType::f32, {640, 640});
    make.builder.begin_region();
    make.builder.begin_superstep();
    const CopyDescriptor block{DType::f32, DType::f32, Overflow::propagate, {16}, {16}, {640}, 16};
    for (int64_t i = 0; i < 1600; ++i) {
      const int64_t row = i / 40 * 16, column = i % 40 * 16 - (wrong && i == 777 ? 1 : 0);
      make.builder.copy(make.builder.descriptor(block), make.view(a, {16, 16}, {16, 1}),
                        make.view(y, {16, 16}, {640, 1}, row * 640 + column), TileId(static_cast<size_t>(i % 64)));
    }
    make.builder.end_superstep();
    make.builder.end_region();
    const Result<TileGraph> graph = make.finish();
    EXPECT_EQ(graph.has_value(), !wrong);
    if (graph) continue;
    EXPECT_THAT(graph.error().message, HasSubstr("writes what"));
  }
}

// Columns that lie between one another: neither all pairs nor all elements may be looked at.
TEST(SuperstepRule, TooManyInterleavedUsesAreRefused) {
  for (const int64_t columns : {300, 24'000}) {
    constexpr int64_t rows = 3000;
    Maker make(64);
    const AllocationId a = make.input("a", DType::f32, {1});
    const AllocationId y = make.output("y", DType::f32, {rows, columns});
    make.builder.begin_region();
    make.builder.begin_superstep();
    const DescriptorId column =
        make.builder.descriptor({DType::f32, DType::f32, Overflow::propagate, {rows}, {0}, {columns}, 1});
    for (int64_t i = 0; i < columns; ++i)
      make.builder.copy(column, make.view(a, {rows}, {0}), make.view(y, {rows}, {columns}, i),
                        TileId(static_cast<size_t>(i % 64)));
    make.builder.end_superstep();
    make.builder.end_region();
    const Result<TileGraph> graph = make.finish();
    EXPECT_EQ(graph.has_value(), columns == 300);
    if (graph) continue;
    EXPECT_EQ(graph.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(graph.error().message, HasSubstr("too many to tell apart"));
  }
}

}  // namespace
}  // namespace low
