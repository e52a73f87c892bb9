// Speed of the matrix kernels, one thread, for every target that the CPU runs: blocks of the SigLIP MLP and others; one
// row times a matrix that lies in the closest cache, and times one that does not.
//   gemm_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

struct Shape3 {
  int64_t m, n, k;
};
constexpr Shape3 shapes[] = {{365, 1076, 1152}, {365, 288, 4304}, {729, 1152, 1152}, {46, 4304, 1152},
                             {92, 538, 1152},   {16, 1152, 1152}, {1, 64, 288},      {1, 4304, 1152}};
enum class Variant : uint8_t { plain, gelu, transposed_b, panels };
constexpr std::string_view variants[] = {"", "/gelu", "/transposed_b", "/panels"};

// tanh-GELU and quantization of sum * scale + bias.
Expr gelu(DType sum, DType result) {
  ExprBuilder builder(3);
  const auto constant = [&](double value) { return builder.constant(DType::f32, value); };
  uint16_t x = builder.convert(builder.input(0, sum), DType::f32);
  x = builder.binary(ExprOp::mul, x, builder.input(1, DType::f32));
  x = builder.binary(ExprOp::add, x, builder.input(2, DType::f32));
  uint16_t inner = builder.binary(ExprOp::mul, constant(0.044715), builder.binary(ExprOp::pow, x, constant(3)));
  inner = builder.binary(ExprOp::mul, constant(0.7978845608), builder.binary(ExprOp::add, x, inner));
  const uint16_t gate = builder.binary(ExprOp::add, constant(1), builder.unary(ExprOp::tanh, inner));
  const uint16_t y = builder.binary(ExprOp::mul, builder.binary(ExprOp::mul, constant(0.5), x), gate);
  const uint16_t scaled = builder.binary(ExprOp::div, y, constant(0.05));
  return std::move(builder).finish(builder.convert(scaled, result, Overflow::saturate));
}

// As the host has it.
KernelContract contract(DType operands, Variant variant) {
  const Machine host = *find_machine("host");
  const DType sum = is_float(operands) ? DType::f32 : DType::i32;
  GemmKernel kernel = gemm_kernel(host, gemm_math(host, sum, operands, operands), sum, 0);
  kernel.panels = variant == Variant::panels;
  const std::vector<Access> rows = {Access::strided, Access::unit}, columns = {Access::unit, Access::strided},
                            panels = {Access::strided, Access::strided, Access::unit};
  KernelContract c{.family = kernel,
                   .operands = {{operands, rows},
                                {operands, variant == Variant::transposed_b ? columns
                                           : kernel.panels                  ? panels
                                                                            : rows}},
                   .expr = testing::identity(sum)};
  DType result = sum;
  if (variant == Variant::gelu) {
    c.operands.push_back({DType::f32, {Access::broadcast, Access::broadcast}});
    c.operands.push_back({DType::f32, {Access::broadcast, Access::unit}});
    result = DType::f8e4m3fn;
    c.expr = gelu(sum, result);
  }
  c.operands.push_back({result, rows});
  return c;
}

void run(benchmark::State& state, const testing::Code& code, const KernelContract& c, const Shape& mnk, uint32_t kernel,
         Variant variant) {
  const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
  testing::Memory memory;
  std::mt19937_64 random(1);
  std::vector<testing::Operand> operands = {
      memory.add(c.operands[0].dtype, {m, k}),
      variant == Variant::panels
          ? memory.add(c.operands[1].dtype, operand_extents(c, mnk, 1))
          : memory.add(c.operands[1].dtype, {k, n}, variant == Variant::transposed_b ? Strides{1, k} : Strides{n, 1})};
  for (const testing::Operand& operand : operands) {
    memory.write(operand, testing::small_values(operand.dtype, operand.extents.elements(), random));
  }
  if (c.operands.size() > 3) {
    operands.push_back(memory.add(DType::f32, {m, n}, {0, 0}));
    operands.push_back(memory.add(DType::f32, {m, n}, {0, 1}));
    memory.set_bits(operands[2], 0, encode(DType::f32, 0.05, Overflow::propagate));
    for (int64_t j = 0; j < n; ++j) memory.set_bits(operands[3], j, encode(DType::f32, 0.5, Overflow::propagate));
  }
  operands.push_back(memory.add(c.operands.back().dtype, {m, n}));
  memory.time(code, kernel, operands, [&](auto call) {
    for (auto _ : state) call();
  });
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace low

int main(int argc, char** argv) {
  using namespace low;
  struct Named {
    std::string name;
    Shape mnk;
    uint32_t kernel;
    Variant variant;
  };
  KernelSet kernels;
  std::vector<Named> names;
  for (const Shape3& s : shapes) {
    for (const DType type : {DType::f32, DType::f8e4m3fn, DType::bf16, DType::i8}) {
      for (const Variant variant : {Variant::plain, Variant::gelu, Variant::transposed_b, Variant::panels}) {
        const Shape mnk{s.m, s.n, s.k};
        const std::string name =
            fmt::format("{}/{}x{}x{}{}", low::name(type), s.m, s.n, s.k, variants[static_cast<size_t>(variant)]);
        names.push_back({name, mnk, testing::add_run(kernels, contract(type, variant), mnk), variant});
      }
    }
  }
  const std::vector<testing::Code> codes = testing::compile_and_load(kernels);
  for (const testing::Code& code : codes) {
    for (const Named& n : names) {
      benchmark::RegisterBenchmark((code.target + "/" + n.name).c_str(), [&code, &n](benchmark::State& state) {
        run(state, code, code.contracts[n.kernel], n.mnk, n.kernel, n.variant);
      });
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
