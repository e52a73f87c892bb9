#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "compiler/base/integers.h"
#include "compiler/search/op_cost.h"
#include "compiler/search/search.h"
#include "compiler/search/space.h"
#include "compiler/search/test_graphs.h"

namespace low {
namespace {

Machine host() { return *find_machine("host"); }
Machine mi300x() { return *find_machine("mi300x"); }

TEST(Cost, GemmByHand) {
  Machine machine;  // numbers that make the arithmetic easy
  machine.vector_flop_per_cycle = 2;
  machine.math = {{DType::f32, DType::f32, 8}};
  machine.matrix_rows = machine.matrix_columns = 4;
  machine.across_bytes_per_cycle = 4;
  machine.device_bytes_per_cycle = 10;
  machine.command_cycles = 7;
  machine.launch_cycles = 100;
  KernelWork work;
  work.kind = KernelWork::Kind::gemm;
  work.m = 5;
  work.n = 3;
  work.k = 10;
  work.read_bytes = 320;
  work.written_bytes = 60;
  work.expression_nodes = 2;
  // 5 x 3 is computed as 8 x 4: 2 * 32 * 10 / 8 = 80 cycles, of which 2 * (32 - 15) * 10 / 8 = 42.5 are padding.
  // Epilogue: 15 * 2 / 2.
  Cost cost = kernel_cost(machine, work);
  EXPECT_DOUBLE_EQ(cost.compute, 80 + 15);
  EXPECT_DOUBLE_EQ(cost.padding, 42.5);
  EXPECT_DOUBLE_EQ(cost.memory, 95);
  EXPECT_DOUBLE_EQ(cost.launch, 7);
  EXPECT_DOUBLE_EQ(cost.total(), 95 + 7);
  // Packing: (15 + 3) * 10 elements are converted, 2 a cycle.
  Machine packing = machine;
  packing.targets = {"host-x86-64-v4"};
  const GemmConfigurations known = gemm_configurations(packing);
  ASSERT_TRUE(known.packs);
  KernelWork many = work;
  many.m = 15;
  const auto rows = static_cast<double>(round_up(15, known.step_m)), columns = static_cast<double>(known.step_n);
  EXPECT_DOUBLE_EQ(kernel_cost(packing, many).compute, 2 * rows * columns * 10 / 8 + 45 + 90);
  // Fewer rows than a register block: 3 are computed, and b is not packed: 3 * 10 elements.
  KernelWork few = work;
  few.m = 3;
  EXPECT_DOUBLE_EQ(kernel_cost(packing, few).compute, 2 * 3 * columns * 10 / 8 + 9 + 15);
  // A superstep: two tiles, the slower counts; 3000 bytes at 10 a cycle outweigh it.
  const Cost step = superstep_cost(machine, {{cost, Cost{.compute = 1}}, 500});
  EXPECT_DOUBLE_EQ(step.total(), 95 + 7 + 100);
  EXPECT_DOUBLE_EQ(superstep_cost(machine, {{cost, cost}, 3000}).total(), 300 + 7 + 100);
  // 1000 different bytes at 10 a cycle, 2000 repeated ones at 50; unless the cache is too small.
  machine.shared_cache_bytes = 1000;
  machine.shared_cache_bytes_per_cycle = 50;
  EXPECT_DOUBLE_EQ(superstep_cost(machine, {{cost, cost}, 3000, 1000}).total(), 140 + 7 + 100);
  EXPECT_DOUBLE_EQ(superstep_cost(machine, {{cost, cost}, 3000, 1001}).total(), 300 + 7 + 100);
}

// Two threads take three tiles of 10 and one of 25 cycles as they come: 10 + 10 and 10 + 25.
TEST(Cost, ThreadsTakeTurnsWithTiles) {
  Machine machine = *find_machine("host");
  machine.launch_cycles = 7;
  machine.workers = 2;
  const Cost ten{.compute = 10}, long_one{.memory = 25};
  const Cost step = superstep_cost(machine, {{ten, ten, ten, long_one}, 0});
  EXPECT_DOUBLE_EQ(step.compute, 10);
  EXPECT_DOUBLE_EQ(step.memory, 25);
  EXPECT_DOUBLE_EQ(superstep_cost(machine, {{ten, ten, ten, ten, ten}, 0}).total(), 30 + 7);
  machine.workers = 16;
  EXPECT_DOUBLE_EQ(superstep_cost(machine, {{ten, ten, ten}, 0}).total(), 10 + 7);
}

TEST(Cost, NothingToDoCostsNothing) {
  KernelWork work;
  work.m = 0;
  EXPECT_EQ(kernel_cost(host(), work).total(), 0);
  work.kind = KernelWork::Kind::gemm;
  work.m = 3;
  work.n = 0;
  EXPECT_EQ(kernel_cost(host(), work).total(), 0);
}

TEST(Cost, MoreWorkIsNeverCheaper) {
  const unsigned seed = 3;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const Machine& machine : {host(), mi300x()}) {
    for (int round = 0; round < 500; ++round) {
      KernelWork work;
      work.kind = static_cast<KernelWork::Kind>(random() % 3);
      work.m = random() % 300;
      work.n = random() % 300;
      work.k = random() % 300;
      work.expression_nodes = random() % 20;
      work.read_bytes = random() % 100000;
      const Cost before = kernel_cost(machine, work);
      EXPECT_LE(before.padding, before.compute);
      KernelWork more = work;
      switch (random() % 6) {
        case 0:
          ++more.m;
          break;
        case 1:
          ++more.n;
          break;
        case 2:
          ++more.k;
          break;
        case 3:
          more.read_bytes += 100;
          break;
        case 4:
          more.expression_nodes += 3;
          break;
        default:
          more.strided = true;
      }
      EXPECT_GE(kernel_cost(machine, more).total(), before.total());
    }
  }
}

TEST(Cost, SumsAddTotals) {
  CostSum sum;
  sum.add(Cost{.compute = 10, .memory = 2, .launch = 1});
  sum.add(Cost{.compute = 3, .memory = 9, .launch = 1}, 2);
  EXPECT_EQ(sum.cycles, 11 + 2 * 10);  // not max(16, 20) + 3
  EXPECT_EQ(sum.items.compute, 16);
  EXPECT_EQ(sum.items.memory, 20);
}

// Every tile, every block, one by one.
Cost enumerated(const Machine& machine, const MatmulWork& work, const MatmulPlan& plan) {
  const auto part = [](int64_t extent, uint32_t grid, uint32_t i) {
    const int64_t size = (extent + grid - 1) / grid;
    const int64_t begin = std::min(size * i, extent);
    return std::min(begin + size, extent) - begin;
  };
  const auto a_bytes = static_cast<int64_t>(byte_size(work.a));
  const auto b_bytes = static_cast<int64_t>(byte_size(work.b));
  SuperstepWork superstep;
  for (uint32_t b = 0; b < plan.grid_batch; ++b) {
    for (uint32_t i = 0; i < plan.grid_m; ++i) {
      for (uint32_t j = 0; j < plan.grid_n; ++j) {
        CostSum tile;
        const int64_t pm = part(work.shape.m, plan.grid_m, i);
        const int64_t pn = part(work.shape.n, plan.grid_n, j);
        for (int64_t batch = 0; batch < part(work.shape.batch, plan.grid_batch, b); ++batch) {
          for (int64_t m = 0; m < pm; m += plan.block_m) {
            for (int64_t n = 0; n < pn; n += plan.block_n) {
              KernelWork run;
              run.kind = KernelWork::Kind::gemm;
              run.m = std::min(plan.block_m, pm - m);
              run.n = std::min(plan.block_n, pn - n);
              run.k = work.shape.k;
              run.a = work.a;
              run.b = work.b;
              run.expression_nodes = work.expression_nodes;
              run.read_bytes = run.m * run.k * a_bytes + run.k * run.n * b_bytes;
              for (const MatmulWork::Extra& extra : work.extras) {
                run.read_bytes += (extra.m ? run.m : 1) * (extra.n ? run.n : 1) * extra.element_bytes;
              }
              run.written_bytes = run.m * run.n * work.result_bytes;
              run.strided = work.strided;
              tile.add(kernel_cost(machine, run));
              superstep.bytes += static_cast<double>(run.read_bytes + run.written_bytes);
            }
          }
        }
        superstep.tiles.push_back(tile.items);
      }
    }
  }
  const auto& [batches, rows, columns, depth] = work.shape;
  superstep.distinct_bytes = static_cast<double>(
      batches * (rows * depth * a_bytes + depth * columns * b_bytes + rows * columns * work.result_bytes));
  for (const MatmulWork::Extra& extra : work.extras) {
    superstep.distinct_bytes += static_cast<double>((extra.batch ? batches : 1) * (extra.m ? rows : 1) *
                                                    (extra.n ? columns : 1) * extra.element_bytes);
  }
  return superstep_cost(machine, superstep);
}

TEST(Cost, MatmulAgreesWithEnumerationOfAllRuns) {
  const unsigned seed = 11;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (const Machine& base : {host(), mi300x()}) {
    Machine machine = base;
    for (int round = 0; round < 400; ++round) {
      machine.device_bytes_per_cycle = random() % 2 == 0 ? 10 : 100000;  // sometimes the bottleneck
      machine.shared_cache_bytes = random() % 2 == 0 ? 0 : 20000;
      MatmulWork work;
      work.shape = {1 + below(3), 1 + below(100), 1 + below(100), below(50)};
      work.a = random() % 2 == 0 ? DType::f8e4m3fn : DType::f32;
      work.b = random() % 2 == 0 ? DType::f8e4m3fn : DType::f32;
      work.expression_nodes = random() % 5;
      work.extras = {{false, false, true, 4}, {true, true, true, 2}, {false, true, false, 4}};
      const std::vector<MatmulPlan> space = matmul_space(machine, work.shape, work.a, work.b, 300);
      ASSERT_FALSE(space.empty());
      MatmulPlan plan = space[random() % space.size()];
      plan.grid_k = 1;  // partial sums: below
      const Cost expected = enumerated(machine, work, plan);
      const Cost actual = matmul_cost(machine, work, plan).items;
      EXPECT_NEAR(actual.total(), expected.total(), 1e-9 * expected.total());
      EXPECT_NEAR(actual.padding, expected.padding, 1e-9 * expected.total());
      EXPECT_NEAR(actual.memory, expected.memory, 1e-9 * expected.total());
    }
  }
}

TEST(Cost, PaddingIsCounted) {
  // Nine rows of 33 on the host: 9 x 64 are computed.
  MatmulWork work;
  work.shape = {1, 9, 33, 64};
  MatmulPlan plan{.block_m = 9, .block_n = 33, .block_k = 64};
  EXPECT_DOUBLE_EQ(matmul_cost(host(), work, plan).items.padding, 2.0 * (9 * 64 - 9 * 33) * 64 / 64);
  // 16 x 48 on a GPU.
  MatmulWork fp8 = work;
  fp8.a = fp8.b = DType::f8e4m3fnuz;
  EXPECT_DOUBLE_EQ(matmul_cost(mi300x(), fp8, plan).items.padding, 2.0 * (16 * 48 - 9 * 33) * 64 / 4096);
  work.shape.m = 8;
  work.shape.n = 64;
  EXPECT_EQ(matmul_cost(host(), work, {.block_m = 8, .block_n = 64, .block_k = 64}).items.padding, 0);
}

// 6 x 32 with k = 100 in three sums of 34, 34 and 32; on four tiles the reduction has two rows a tile.
TEST(Cost, PartialSumsByHand) {
  Machine machine = host();
  machine.tiles = 4;
  machine.matrix_rows = machine.matrix_columns = 1;
  machine.targets = {};
  machine.device_bytes_per_cycle = 1e9;
  MatmulWork work;
  work.shape = {1, 6, 32, 100};
  work.result_bytes = 2;
  work.expression_nodes = 7;
  work.extras = {{false, true, true, 4}};
  const MatmulPlan plan{.grid_k = 3, .block_m = 6, .block_n = 32, .block_k = 34};
  const CostSum sum = matmul_cost(machine, work, plan);
  const double products = 2.0 * 6 * 32 * 34 / matmul_rate(machine, DType::f32, DType::f32).flop_per_cycle;
  const double additions = 2.0 * 32 * (3 + 2 + 7) / machine.vector_flop_per_cycle;
  EXPECT_DOUBLE_EQ(sum.items.compute, products + additions);
  const double read = 6 * 34 * 4 + 34 * 32 * 4 + 6 * 32 * 4;
  const double read_again = 2 * 32 * 4 * 3 + 2 * 32 * 4 + 2 * 32 * 2;
  EXPECT_DOUBLE_EQ(sum.items.memory, (read + read_again) / machine.across_bytes_per_cycle);
  EXPECT_DOUBLE_EQ(sum.items.launch, 2 * (machine.launch_cycles + machine.command_cycles));
  EXPECT_EQ(partial_sum_bytes(work, plan), 3u * 6 * 32 * 4);
}

TEST(Cost, SplitsByHand) {
  Machine machine;
  machine.vector_flop_per_cycle = 1;
  machine.vector_lanes = 4;
  machine.across_bytes_per_cycle = 1;
  machine.device_bytes_per_cycle = 1000;
  machine.tiles = 8;
  SplitWork work;
  work.shape = {3, 10};
  work.expression_nodes = 2;
  work.operands = {{4, {3, 10}}, {4, {1, 10}}};
  // Axis 1 in 2: 3 rows of 5, computed as 8: 48 operations, 18 of them padding; reads 3 * 5 * 4 + 5 * 4, writes 60.
  Cost cost = split_cost(machine, work, {1, 2});
  EXPECT_DOUBLE_EQ(cost.compute, 48);
  EXPECT_DOUBLE_EQ(cost.padding, 18);
  EXPECT_DOUBLE_EQ(cost.memory, 60 + 20 + 60);
  // Axis 0 in 3: one row of 10 as 12; reads 40 + 40, writes 40.
  cost = split_cost(machine, work, {0, 3});
  EXPECT_DOUBLE_EQ(cost.compute, 24);
  EXPECT_DOUBLE_EQ(cost.memory, 120);
  // The device: 120 + 3 * 40 (the second operand for each part) + 120 bytes.
  machine.device_bytes_per_cycle = 1;
  EXPECT_DOUBLE_EQ(split_cost(machine, work, {0, 3}).memory, 360);
  work.kind = KernelWork::Kind::copy;
  EXPECT_GT(split_cost(machine, work, {0, 3}).exchange, 0);
  work.shape = {0, 10};
  EXPECT_EQ(split_cost(machine, work, {0, 1}).total(), 0);
}

TEST(Cost, StridedOperandsCostMore) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {64, 48}});
  const ValueId y = builder.transpose(x, {1, 0});
  const ValueId operands[] = {y};
  builder.output("z", builder.pointwise(test::activation(DType::f32, DType::f32), operands));
  const Graph graph = test::finish(std::move(builder));
  const Op& op = graph.op(OpId(2));
  const Layout dense[] = {row_major({48, 64})};
  const Layout turned[] = {transposed(row_major({64, 48}), {1, 0})};
  EXPECT_FALSE(pointwise_work(graph, op, dense).strided);
  EXPECT_TRUE(pointwise_work(graph, op, turned).strided);
  EXPECT_LT(split_cost(host(), pointwise_work(graph, op, dense), {0, 16}).memory,
            split_cost(host(), pointwise_work(graph, op, turned), {0, 16}).memory);
}

TEST(Cost, ExpressionWork) {
  EXPECT_GT(expression_work(test::activation(DType::f32, DType::f32)), 12);
  EXPECT_LT(expression_work(test::sum(DType::f32)), 5);
  EXPECT_LT(expression_work(test::sum(DType::f32)), expression_work(test::sum(DType::f8e4m3fn)));
}

TEST(Space, SplitsArePrecise) {
  using Parts = std::vector<uint32_t>;
  // 10 in up to 10: parts of 10 5 4 (3 parts: 4,4,2) 3 (4: 3,3,3,1) 2 (5) 1 (10). 4 parts waste 2 of 12.
  EXPECT_EQ(splits(10, 10), (Parts{1, 2, 3, 4, 5, 10}));
  EXPECT_EQ(splits(7, 16), (Parts{1, 2, 3, 4, 7}));  // 3: 3,3,1 wastes 2 of 9
  EXPECT_EQ(splits(13, 4, 0.0), (Parts{1, 2, 4}));   // divisors of the limit stay
  EXPECT_EQ(splits(0, 4), (Parts{1}));
  EXPECT_EQ(splits(1, 300), (Parts{1}));
  for (const uint32_t parts : splits(1458, 304)) {
    const int64_t part = (1458 + parts - 1) / parts;
    EXPECT_GT(1458 - part * (parts - 1), 0) << parts;  // no empty part
  }
}

TEST(Space, MatmulCandidatesAreValidAndNotOnlyPowersOfTwo) {
  for (const Machine& machine : {host(), mi300x(), *find_machine("rx7900xtx")}) {
    SCOPED_TRACE(machine.name);
    const DType types[] = {DType::f8e4m3fn, DType::f32, DType::f64};
    for (const DType type : types) {
      const std::vector<MatmulPlan> space = matmul_space(machine, {1, 1458, 4304, 1152}, type, type, 4096);
      bool odd = false;
      ASSERT_GT(space.size(), 30u);
      for (const MatmulPlan& plan : space) {
        EXPECT_FALSE(gemm_block_problem(machine, {plan.block_m, plan.block_n, plan.block_k}, type, type));
        EXPECT_LE(uint64_t{plan.grid_m} * plan.grid_n * plan.grid_batch, machine.tiles);
        odd = odd || (plan.grid_m & (plan.grid_m - 1)) != 0;
      }
      EXPECT_TRUE(odd);
    }
  }
}

TEST(Space, MatmulsOfAnySizeHaveCandidates) {
  for (const std::string_view name : {"host", "mi300x", "mi355x", "mi250x-gcd", "rx7900xtx", "rx9070xt"}) {
    const Machine machine = *find_machine(name);
    for (const MatmulShape& shape :
         {MatmulShape{1, 1, 1, 1}, MatmulShape{0, 5, 5, 5}, MatmulShape{3, 0, 7, 2}, MatmulShape{1, 13, 17, 0},
          MatmulShape{101, 3, 1, 5}, MatmulShape{1, 10007, 1, 1}, MatmulShape{1, int64_t{1} << 30, 7, 1}}) {
      const std::vector<MatmulPlan> space = matmul_space(machine, shape, DType::f32, DType::f64, 4096);
      ASSERT_FALSE(space.empty());
      EXPECT_LE(space.size(), 4096u);
      for (const MatmulPlan& plan : space)
        EXPECT_FALSE(gemm_block_problem(machine, {plan.block_m, plan.block_n, plan.block_k}, DType::f32, DType::f64));
    }
    EXPECT_EQ(matmul_space(machine, {1, 100, 100, 100}, DType::f32, DType::f32, 3).size(), 3u);
  }
}

TEST(Space, DepthsOfProductsThatNoPlanCuts) {
  for (const std::string_view name : machine_names()) {
    SCOPED_TRACE(name);
    const Machine machine = *find_machine(name);
    const GemmConfigurations known = gemm_configurations(machine);
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{729, 729, 72}, {16, 72, 729}, {1, 1, 100000}, {5, 7, 1}}) {
      const int64_t depth = gemm_depth(machine, m, n, k, DType::f32, DType::f16);
      EXPECT_GE(depth, 1);
      EXPECT_LE(depth, k);
      const GemmKernel kernel = gemm_kernel(machine, {DType::f32, DType::f32}, DType::f32, depth);
      EXPECT_EQ(kernel.stage_k,
                machine.global_memory ? 0 : depth);  // with it kernels go through k in steps of their own
      EXPECT_EQ(kernel.configuration.has_value(), machine.global_memory && !known.packs);
      const auto fits = [&](int64_t rows, int64_t columns) {
        return !gemm_block_problem(machine, {rows, columns, depth}, DType::f32, DType::f16);
      };
      EXPECT_TRUE(fits(std::min<int64_t>(m, machine.matrix_rows), std::min<int64_t>(n, machine.matrix_columns)));
    }
  }
}

TEST(Space, SplitCandidates) {
  EXPECT_EQ(split_space(host(), Shape(), 100), (std::vector<SplitPlan>{{0, 1}}));
  EXPECT_EQ(split_space(host(), {4, 0}, 100), (std::vector<SplitPlan>{{0, 1}}));
  EXPECT_EQ(split_space(host(), {3, 2}, 100), (std::vector<SplitPlan>{{0, 3}, {0, 2}, {0, 1}, {1, 2}}));
  EXPECT_EQ(split_space(host(), {100, 100}, 5).size(), 5u);
}

}  // namespace
}  // namespace low
