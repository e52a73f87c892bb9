#include "compiler/search/exhaustive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/search/distributed_cost.h"
#include "compiler/search/distributed_space.h"
#include "compiler/search/op_cost.h"
#include "compiler/search/space.h"
#include "compiler/search/test_graphs.h"

namespace low {
namespace {

using ::testing::HasSubstr;

constexpr double infinity = std::numeric_limits<double>::infinity();

Machine islands(uint32_t tiles) {
  Machine machine = *find_machine("ipu21");
  machine.name = "islands";
  machine.tiles = tiles;
  machine.tile_memory_bytes = 1 << 20;
  return machine;
}

double exhaustive(const Graph& graph, const Machine& machine) {
  const auto result = search_exhaustively(graph, machine);
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->cycles : 0;
}

double searched(const Graph& graph, const Machine& machine) {
  ThreadPool pool(1);
  const auto result = search(graph, machine, {}, pool);
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->finalists[0].cycles : 0;
}

// A transpose, a reshape of it and a slice, which may all stay views, before a product and two outputs of one value.
Graph movements() {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {11, 6}});
  const ValueId w = builder.input("w", {DType::f32, {11, 5}});
  const ValueId one[] = {x};
  const ValueId p = builder.pointwise(test::activation(DType::f32, DType::f32), one);
  const ValueId t = builder.transpose(p, {1, 0});  // [6,11]
  const ValueId operands[] = {builder.slice(t, {0, 0}, {1, 1}, {3, 11}), w};
  builder.output("y", builder.matmul({}, operands, DType::f32));
  builder.output("t", builder.reshape(t, {2, 3, 11}));
  builder.output("p", p);
  builder.output("again", p);
  return test::finish(std::move(builder));
}

// The cheapest of all plans, one complete plan after the other; `placed`: roots of which an output has decided the
// place; `fresh`: what the last superstep wrote, which who reads it cannot join (no two of these operations are cut
// alike, so that a tile could read what it wrote itself).
struct Lies {
  Layout layout;
  size_t root = 0;
  bool dense = true, input = false;
};
struct Supersteps {
  std::optional<SuperstepWork> open;  // the last one
  std::vector<size_t> fresh;
};
struct Cheapest {
  double cycles = infinity;
  SuperstepWork first, last;
};
double one_by_one(const Graph& graph, const Machine& machine, size_t i, std::vector<Lies>& lies,
                  std::vector<bool>& placed, const Supersteps& before) {
  if (i == graph.op_count()) return 0;
  const Op& op = graph.op(OpId(i));
  const auto nothing = [&] { return one_by_one(graph, machine, i + 1, lies, placed, before); };
  // The rest, after this decision, whose first superstep is joined to the last one where it does not read from it.
  const auto rest = [&](const Cheapest& decision) {
    const bool waits = std::ranges::any_of(graph.operands(op), [&](ValueId operand) {
      return std::ranges::find(before.fresh, lies[operand.index].root) != before.fresh.end();
    });
    const bool one = decision.first.bytes == decision.last.bytes;
    Supersteps after{decision.last, before.fresh};
    double cycles = decision.cycles;
    const bool joins = before.open && !waits;
    if (joins) {
      SuperstepWork together = *before.open;
      together.tiles[0] += decision.first.tiles[0];
      together.bytes += decision.first.bytes;
      together.distinct_bytes += decision.first.distinct_bytes;
      cycles += superstep_cost(machine, together).total() - superstep_cost(machine, *before.open).total() -
                superstep_cost(machine, decision.first).total();
      if (one) after.open = together;
    }
    if (!joins || !one) after.fresh.clear();
    if (op.results.count > 0) after.fresh.push_back(graph.result(op).index);
    return cycles + one_by_one(graph, machine, i + 1, lies, placed, after);
  };
  const auto least = [&](const Shape& shape, const SplitWork& work) {
    Cheapest best;
    for (const SplitPlan& plan : split_space(machine, shape, 100000)) {
      const double cycles = split_cost(machine, work, plan).total();
      if (cycles >= best.cycles) continue;
      best.cycles = cycles;
      best.first = best.last = split_superstep(machine, work, plan);
    }
    return best;
  };
  std::vector<Layout> operands;
  for (const ValueId operand : graph.operands(op)) operands.push_back(lies[operand.index].layout);
  if (std::holds_alternative<Output>(op.attributes)) {
    const ValueId value = graph.operands(op)[0];
    const Lies& from = lies[value.index];
    if (from.dense && !lies[from.root].input && !placed[from.root]) {
      const size_t root = from.root;
      placed[root] = true;
      const double cycles = nothing();
      placed[root] = false;
      return cycles;
    }
    return rest(least(graph.type(value).shape, copy_work(graph.type(value), from.layout)));
  }
  const ValueId result = graph.result(op);
  const Type& type = graph.type(result);
  Lies& to = lies[result.index];
  to = {row_major(type.shape), result.index, true, std::holds_alternative<Input>(op.attributes)};
  if (to.input) return nothing();
  if (std::holds_alternative<Matmul>(op.attributes)) {
    const MatmulWork work = matmul_work(graph, op, operands);
    Cheapest best;
    for (const MatmulPlan& plan : matmul_space(machine, work.shape, work.a, work.b, 100000)) {
      const double cycles = matmul_cost(machine, work, plan).cycles;
      if (cycles >= best.cycles) continue;
      best.cycles = cycles;
      best.first = best.last = matmul_superstep(machine, work, plan);
      if (plan.grid_k > 1) best.last = partial_sums_superstep(machine, work, plan);
    }
    return rest(best);
  }
  if (is_split(op)) return rest(least(split_shape(graph, op), split_work(graph, op, operands)));
  const auto view = view_layout(graph, op, operands[0]);
  SplitWork work = copy_work(type, view ? *view : row_major(type.shape));
  if (!view) work.strided = copy_work(graph.type(graph.operands(op)[0]), operands[0]).strided;
  const double copied = rest(least(type.shape, work));
  if (!view) return copied;
  const Lies& source = lies[graph.operands(op)[0].index];
  to = {*view, source.root, source.dense && std::holds_alternative<Reshape>(op.attributes), false};
  return std::min(copied, nothing());
}

TEST(Exhaustive, IsTheBestOfAllPlansOneByOne) {
  const Graph graph = movements();
  for (const double launch : {0.0, 100.0, 5000.0}) {
    for (const double across : {0.01, 1.0, 100.0}) {
      Machine machine = *find_machine("host");
      machine.launch_cycles = launch;
      machine.across_bytes_per_cycle = across;
      std::vector<Lies> lies(graph.value_count());
      std::vector<bool> placed(graph.value_count());
      const double best = one_by_one(graph, machine, 0, lies, placed, {});
      // Of decisions for one operation, the cheapest stands for all here: another one may hide more of others behind
      // its own work when they share a superstep.
      EXPECT_LE(exhaustive(graph, machine), best * (1 + 1e-9)) << launch << " " << across;
      EXPECT_GE(exhaustive(graph, machine), best * 0.995) << launch << " " << across;
      EXPECT_LE(searched(graph, machine), 1.02 * best) << launch << " " << across;
    }
  }
}

// activation of x, times a constant, reshaped, times another.
Graph products() {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {7, 12}});
  const ValueId first[] = {builder.pointwise(test::activation(DType::f32, DType::f32), std::span(&x, 1)),
                           builder.constant(Tensor(DType::f32, {12, 10}))};
  const ValueId y = builder.reshape(builder.matmul({}, first, DType::f32), {1, 7, 10});
  const ValueId second[] = {y, builder.input("v", {DType::f32, {1, 10, 3}})};
  builder.output("z", builder.matmul({}, second, DType::f32));
  return test::finish(std::move(builder));
}

double one_by_one(const Graph& graph, const Machine& machine, size_t i, std::vector<DistributedLayout>& layouts) {
  if (i == graph.op_count()) return 0;
  const Op& op = graph.op(OpId(i));
  const auto rest = [&] { return one_by_one(graph, machine, i + 1, layouts); };
  if (std::holds_alternative<Output>(op.attributes)) {
    const ValueId value = graph.operands(op)[0];
    return distributed_output_cost(machine, graph.type(value), layouts[value.index]).cost.cycles + rest();
  }
  const ValueId result = graph.result(op);
  std::vector<DistributedLayout> operands;
  for (const ValueId operand : graph.operands(op)) operands.push_back(layouts[operand.index]);
  double best = infinity;
  const auto next = [&](double cycles, const DistributedLayout& layout) {
    layouts[result.index] = layout;
    best = std::min(best, cycles + rest());
  };
  if (std::holds_alternative<Input>(op.attributes)) {
    next(0, DistributedLayout());
  } else if (std::holds_alternative<Constant>(op.attributes)) {
    DistributedLayout layout;
    layout.kind = DistributedLayout::Kind::constant;
    next(0, layout);
  } else if (std::holds_alternative<Matmul>(op.attributes)) {
    const DistributedMatmul work = distributed_matmul(graph, op, operands);
    for (MatmulPlan plan : distributed_matmul_space(machine, work.shape, 100000)) {
      for (const int64_t panel : distributed_panels(plan.block_k)) {
        plan.block_k = panel;
        next(distributed_matmul_cost(machine, work, plan).cost.cycles, layout_of(work.shape, plan));
      }
    }
  } else if (is_distributed_view(graph, op)) {
    next(0, operands[0]);
  } else {
    const DistributedSplit work = distributed_split(graph, op, operands);
    for (const SplitPlan& plan : distributed_split_space(machine, work.shape, 100000))
      next(distributed_split_cost(machine, work, plan).cost.cycles, layout_of(work.shape, plan));
  }
  return best;
}

TEST(Exhaustive, IsTheBestOfAllPlansOneByOneWithoutGlobalMemory) {
  const Graph graph = products();
  for (const double launch : {0.0, 10000.0}) {
    for (const double bytes_per_cycle : {0.05, 4.0, 1000.0}) {
      Machine machine = islands(4);
      machine.launch_cycles = launch;
      machine.cluster_bytes_per_cycle = bytes_per_cycle;
      std::vector<DistributedLayout> layouts(graph.value_count());
      const double best = one_by_one(graph, machine, 0, layouts);
      EXPECT_NEAR(exhaustive(graph, machine), best, 1e-9 * best) << launch << " " << bytes_per_cycle;
      EXPECT_LE(searched(graph, machine), 1.02 * best) << launch << " " << bytes_per_cycle;
    }
  }
}

// x = x * w, five times: what is carried lies where it lay.
TEST(Exhaustive, CarriedValuesStayWhereTheyAre) {
  GraphBuilder inner;
  const Type type{DType::f32, {6, 9}};
  const ValueId pair[] = {inner.input("x", type), inner.constant(Tensor(DType::f32, {9, 9}))};
  inner.output("next", inner.matmul({}, pair, DType::f32));
  Repeat repeat;
  repeat.count = 5;
  repeat.carried = 1;
  repeat.body = std::make_shared<const Graph>(test::finish(std::move(inner)));
  GraphBuilder builder;
  const ValueId operands[] = {builder.input("x", type)};
  builder.output("y", builder.repeat(repeat, operands)[0]);
  const Graph graph = test::finish(std::move(builder));
  const Machine machine = islands(5);

  const Graph& body = *repeat.body;
  const auto product =
      std::ranges::find_if(body.ops(), [](const Op& op) { return std::holds_alternative<Matmul>(op.attributes); });
  double best = infinity;
  for (const MatmulPlan& grid : distributed_matmul_space(machine, matmul_shape(body, *product), 100000)) {
    const DistributedLayout layout = layout_of(matmul_shape(body, *product), grid);
    DistributedLayout constant;
    constant.kind = DistributedLayout::Kind::constant;
    const DistributedLayout layouts[] = {layout, constant};
    const DistributedMatmul work = distributed_matmul(body, *product, layouts);
    const double around = distributed_copy_cost(machine, type, DistributedLayout(), layout).cost.cycles +
                          distributed_output_cost(machine, type, layout).cost.cycles;
    for (MatmulPlan plan : distributed_matmul_space(machine, work.shape, 100000)) {
      if (!(layout_of(work.shape, plan) == layout)) continue;
      for (const int64_t panel : distributed_panels(plan.block_k)) {
        plan.block_k = panel;
        best = std::min(best, around + 5 * distributed_matmul_cost(machine, work, plan).cost.cycles);
      }
    }
  }
  EXPECT_NEAR(exhaustive(graph, machine), best, 1e-9 * best);
  EXPECT_LE(searched(graph, machine), 1.02 * best);
  // With global memory an iteration costs as much as a block alone.
  const Machine host = *find_machine("host");
  EXPECT_NEAR(exhaustive(graph, host), 5 * exhaustive(body, host), 1e-6);
}

TEST(Exhaustive, TheBeamIsAsGoodOnSmallBlocks) {
  const Graph graph = test::mlp_graph(3, 18, 24, 40);
  for (const std::string_view name : {"host", "mi300x", "rx9070xt"}) {
    const Machine machine = *find_machine(name);
    EXPECT_LE(searched(graph, machine), 1.02 * exhaustive(graph, machine)) << name;
  }
  for (const uint32_t tiles : {1u, 2u, 5u, 7u}) {
    EXPECT_LE(searched(graph, islands(tiles)), 1.02 * exhaustive(graph, islands(tiles))) << tiles;
  }
}

TEST(Exhaustive, ABoundCutsOffWhatCostsMore) {
  for (const Machine& machine : {*find_machine("host"), islands(3)}) {
    const Graph graph = products();
    const double best = exhaustive(graph, machine);
    const auto same = search_exhaustively(graph, machine, {.bound_cycles = best * (1 + 1e-9)});
    ASSERT_TRUE(same) << same.error().message;
    EXPECT_EQ(same->cycles, best);
    const auto none = search_exhaustively(graph, machine, {.bound_cycles = best * 0.999});
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_EQ(none->cycles, infinity);
  }
}

TEST(Exhaustive, TooManyPlansAreRefused) {
  for (const Machine& machine : {*find_machine("host"), islands(3)}) {
    const auto all = search_exhaustively(products(), machine);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_TRUE(search_exhaustively(products(), machine, {.steps = all->steps}));
    for (const int64_t steps : {all->steps - 1, int64_t{1}, int64_t{0}, int64_t{-5}}) {
      const auto refused = search_exhaustively(products(), machine, {.steps = steps});
      ASSERT_FALSE(refused) << steps;
      EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
      EXPECT_THAT(refused.error().message, HasSubstr("steps"));
    }
  }
}

}  // namespace
}  // namespace low
