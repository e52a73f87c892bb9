// Speed of the attention kernels, one thread, for every target that the CPU runs: one tile's rows of one head. A
// multiply-add of the two products counts two operations; the softmax counts none.
//   attention_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
#include <benchmark/benchmark.h>

#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

struct Heads {
  int64_t m, n, d;
  bool masked = false;
};
constexpr Heads heads[] = {{46, 729, 72},  {92, 729, 72},    {128, 729, 72}, {365, 729, 72},     {729, 729, 72},
                           {64, 1024, 64}, {128, 4096, 128}, {1, 4096, 128}, {92, 729, 72, true}};

Shape extents_of(const Heads& h) { return {h.m, h.n, h.d, h.d}; }

KernelContract contract(const Heads& h, DType dtype) {
  KernelContract c;
  c.family = AttentionKernel{.d = h.d, .dv = h.d, .masked = h.masked, .scale = 0.125};
  const std::vector<Access> rows = {Access::strided, Access::unit};
  c.operands.assign(3, {dtype, rows});
  if (h.masked) c.operands.push_back({DType::f32, rows});
  c.operands.push_back({DType::f32, rows});
  c.expr = testing::identity(DType::f32);
  return c;
}

void run(benchmark::State& state, const testing::Code& code, const KernelContract& c, const Shape& all,
         uint32_t kernel) {
  testing::Memory memory;
  std::mt19937_64 random(1);
  std::vector<testing::Operand> operands;
  // Heads are packed: rows of 16 of them.
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Shape extents = operand_extents(c, all, i);
    const bool mask = c.as<AttentionKernel>()->masked && i == 3;
    operands.push_back(memory.add(c.operands[i].dtype, extents, {mask ? extents[1] : extents[1] * 16, 1}));
    if (i + 1 == c.operands.size()) break;
    memory.write(operands[i], testing::small_values(operands[i].dtype, extents.elements(), random));
  }
  memory.time(code, kernel, operands, [&](auto call) {
    for (auto _ : state) call();
  });
  state.counters["GFLOP/s"] =
      benchmark::Counter(1e-9 * matrix_flop(c, all), benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace low

int main(int argc, char** argv) {
  using namespace low;
  KernelSet kernels;
  struct Run {
    std::string name;
    Shape extents;
    uint32_t kernel;
  };
  std::vector<Run> runs;
  for (const Heads& h : heads) {
    for (const DType type : {DType::f32, DType::f8e4m3fn, DType::bf16}) {
      runs.push_back({std::string(name(type)) + "/" + std::to_string(h.m) + "x" + std::to_string(h.n) + "x" +
                          std::to_string(h.d) + (h.masked ? "/mask" : ""),
                      extents_of(h), testing::add_run(kernels, contract(h, type), extents_of(h))});
    }
  }
  const std::vector<testing::Code> codes = testing::compile_and_load(kernels);
  for (const testing::Code& code : codes) {
    for (const Run& r : runs) {
      benchmark::RegisterBenchmark((code.target + "/" + r.name).c_str(), [&code, &r](benchmark::State& state) {
        run(state, code, code.contracts[r.kernel], r.extents, r.kernel);
      });
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
