// The whole pipeline against the reference: each stage's result, interpreted, and the compiled package.
#include "compiler/compile.h"

#include <gtest/gtest.h>

#include "compiler/graph/passes/passes.h"
#include "compiler/search/explain.h"
#include "compiler/test_support.h"
#include "compiler/workload/workload.h"
#include "reference/random_graph.h"

namespace low {
namespace {

using test::expect_close;
using test::finalists_agree;
using test::machine_named;
using test::run_package;

class RandomGraphs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphs, EveryStageAgreesWithTheReference) {
  ThreadPool pool(2);
  for (uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const reference::RandomGraph random = reference::random_graph(
        {.seed = seed, .operations = 2 + static_cast<int>(seed % 9), .narrow_floats = seed % 2 == 1});
    const auto expected = reference::run(random.graph, random.inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    const auto graph = run_passes(random.graph);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    ASSERT_NO_FATAL_FAILURE(expect_close(reference::run(*graph, random.inputs), *expected, random.tolerance, "passes"));

    for (const char* name : {"host", "mi300x"}) {
      const Machine machine = machine_named(name);
      const auto found = search(*graph, machine, {}, pool);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      for (const Finalist& finalist : found->finalists) {
        const auto parsed = parse_plan(print(finalist.plan));
        ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
        EXPECT_EQ(*parsed, finalist.plan);
        const auto valid = verify(finalist.plan, *graph, machine);
        ASSERT_TRUE(valid.has_value()) << valid.error().message;
        const auto expanded = expand(*graph, finalist.plan, machine);
        ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
        ASSERT_NO_FATAL_FAILURE(
            expect_close(interpret(*expanded, random.inputs), *expected, random.tolerance, "expanded"));
        const auto simplified = simplify_tile_graph(*expanded);
        ASSERT_TRUE(simplified.has_value()) << simplified.error().message;
        const auto placement = place(*simplified, machine);
        ASSERT_TRUE(placement.has_value()) << placement.error().message;
        const auto schedule = schedule_exchange(*simplified, *placement, machine);
        ASSERT_TRUE(schedule.has_value()) << schedule.error().message;
        ASSERT_NO_FATAL_FAILURE(expect_close(interpret(*simplified, *placement, *schedule, random.inputs), *expected,
                                             random.tolerance, "scheduled"));
        const std::string text = print(*simplified);
        ConstantsByHash constants;
        for (const auto& constant : simplified->constants())
          constants.emplace_back(constant_hash(*constant.tensor()), constant.tensor());
        const auto again = parse_tile_graph(text, constants);
        ASSERT_TRUE(again.has_value()) << again.error().message;
        EXPECT_EQ(print(*again), text);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range<uint64_t>(0, 8));

// Machines without global memory, of few tiles to many.
class RandomTileGraphs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomTileGraphs, PlacedAndScheduledAgreesWithTheReference) {
  ThreadPool pool(2);
  Machine machine = machine_named("ipu21");
  for (uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    machine.tiles = 1 + static_cast<uint32_t>(seed * 7 % 40);
    const reference::RandomGraph random = reference::random_graph(
        {.seed = seed, .operations = 2 + static_cast<int>(seed % 6), .narrow_floats = seed % 2 == 1});
    const auto expected = reference::run(random.graph, random.inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    const auto graph = graph_for(machine, random.graph, {});
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    ASSERT_NO_FATAL_FAILURE(
        finalists_agree(*graph, machine, {.finalists = 2}, random.inputs, *expected, random.tolerance, pool));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomTileGraphs, ::testing::Range<uint64_t>(300, 312));

class RandomPackages : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomPackages, TheCompiledPackageAgreesWithTheReference) {
  ThreadPool pool(2);
  for (uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const reference::RandomGraph random = reference::random_graph(
        {.seed = seed, .operations = 4 + static_cast<int>(seed % 9), .narrow_floats = seed % 2 == 1});
    const auto expected = reference::run(random.graph, random.inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    ASSERT_NO_FATAL_FAILURE(
        expect_close(run_package(random.graph, random.inputs, pool), *expected, random.tolerance, "package"));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPackages, ::testing::Range<uint64_t>(100, 108));

// The walking skeleton: one small f32 matmul through every stage to a verified run.
TEST(Pipeline, ProgramsThatAreCompiledTogetherRunAlone) {
  ThreadPool pool(2);
  const auto device = open_device("host", {});
  ASSERT_TRUE(device.has_value()) << device.error().message;
  CompileOptions options;
  options.targets = {(*device)->info().targets.front()};
  std::vector<reference::RandomGraph> random;
  std::vector<Compilation> together;
  size_t kernels = 0;
  for (const uint64_t seed : {900, 901, 902, 900}) {
    random.push_back(reference::random_graph({.seed = seed, .operations = 6, .narrow_floats = false}));
    auto lowered = lower_graph(random.back().graph, options, pool);
    ASSERT_TRUE(lowered.has_value()) << lowered.error().message;
    kernels += lowered->kernels.contracts.size();
    together.push_back(std::move(*lowered));
  }

  // Nothing is half done after an error.
  CompileOptions without_clang = options;
  without_clang.toolchain.clang = "/nowhere/clang++";
  const auto refused = compile_together(together, without_clang, pool);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_TRUE(together[0].objects.empty());

  const auto compiled = compile_together(together, options, pool);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  EXPECT_LT(together[0].kernels.contracts.size(), kernels);  // two programs are the same
  for (size_t i = 0; i < together.size(); ++i) {
    SCOPED_TRACE("program " + std::to_string(i));
    EXPECT_EQ(together[i].source, together[0].source);
    const auto expected = reference::run(random[i].graph, random[i].inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    ASSERT_NO_FATAL_FAILURE(expect_close(test::run_package(together[i], **device, random[i].inputs), *expected,
                                         random[i].tolerance, "package"));
  }
}

TEST(Pipeline, OnePackageForSeveralMachines) {
  ThreadPool pool(2);
  const auto device = open_device("host", {});
  ASSERT_TRUE(device.has_value()) << device.error().message;
  CompileOptions options;
  options.targets = {"gfx942", "host", "simt-gfx942", "gfx1100"};
  options.tiles = 4;  // of the host: GPUs have tiles of hardware
  const auto machines = by_machine(options);
  ASSERT_TRUE(machines.has_value()) << machines.error().message;
  ASSERT_EQ(machines->size(), 3);
  EXPECT_EQ((*machines)[0].targets, (std::vector<std::string>{"gfx942", "simt-gfx942"}));
  const reference::RandomGraph random = reference::random_graph({.seed = 903, .operations = 6, .narrow_floats = true});
  const auto compilations = compile_graph_for(*machines, random.graph, pool);
  ASSERT_TRUE(compilations.has_value()) << compilations.error().message;
  auto package = Package::from_bytes(write_package(*compilations, {}), "test");
  ASSERT_TRUE(package.has_value()) << package.error().message;
  const std::vector<VariantInfo>& variants = (*package)->manifest().variants;
  ASSERT_EQ(variants.size(), 3);
  EXPECT_EQ(variants[0].machine, "mi300x");
  EXPECT_EQ(variants[1].machine, "host");
  EXPECT_EQ(variants[2].machine, "rx7900xtx");
  for (const VariantInfo& variant : variants) {
    const auto program = (*package)->program(variant);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_EQ(program->tiles, variant.machine == "host" ? 4 : machine_named(variant.machine).tiles);
  }
  EXPECT_GT(variants[0].targets[0].kernels.front().vgprs, 0);
  EXPECT_NE(variants[0].targets[0].clang_version, "");

  const auto expected = reference::run(random.graph, random.inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  auto program = LoadedProgram::load(**device, std::move(*package));
  ASSERT_TRUE(program.has_value()) << program.error().message;
  auto session = Session::create(std::move(*program));
  ASSERT_TRUE(session.has_value()) << session.error().message;
  ASSERT_NO_FATAL_FAILURE(expect_close(session->run(random.inputs), *expected, random.tolerance, "package"));
}

TEST(Pipeline, CompilesAndRunsOneMatmul) {
  GraphBuilder builder;
  const ValueId a = builder.input("a", {DType::f32, {3, 5}});
  const ValueId b = builder.input("b", {DType::f32, {5, 7}});
  const ValueId operands[] = {a, b};
  builder.output("c", builder.matmul({}, operands, DType::f32));
  const auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph.has_value());
  Tensor left(DType::f32, {3, 5}), right(DType::f32, {5, 7});
  for (int64_t i = 0; i < 15; ++i) left.set_value(i, static_cast<double>(i % 5) - 2);
  for (int64_t i = 0; i < 35; ++i) right.set_value(i, static_cast<double>(i % 4));
  const std::vector<Tensor> inputs = {left, right};
  ThreadPool pool(1);
  const auto outputs = run_package(*graph, inputs, pool);
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 7; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 5; ++k) sum += left.value(i * 5 + k) * right.value(k * 7 + j);
      EXPECT_EQ((*outputs)[0].value(i * 7 + j), sum) << i << "," << j;
    }
}

// Each family with outer and inner axes, concat and pad, in row-major and in transposed order, from f32 and f16.
TEST(Pipeline, ReductionsNormalizationsAndAssemblies) {
  ThreadPool pool(2);
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(std::string(name(dtype)) + (transposed ? ", transposed" : ""));
      GraphBuilder builder;
      const ValueId in = builder.input("x", {dtype, {6, 35, 21}});
      const ValueId x = transposed ? builder.transpose(in, {2, 0, 1}) : in;
      const ValueId one[] = {x};
      int outputs = 0;
      const auto output = [&](ValueId value) { builder.output("y" + std::to_string(outputs++), value); };
      for (const Rowwise::Kind kind :
           {Rowwise::Kind::softmax, Rowwise::Kind::log_softmax, Rowwise::Kind::layer_norm, Rowwise::Kind::rms_norm}) {
        Rowwise rowwise;
        rowwise.kind = kind;
        rowwise.axes = kind == Rowwise::Kind::rms_norm ? Shape{1, 2} : Shape{outputs % 3};
        rowwise.epsilon = kind == Rowwise::Kind::layer_norm || kind == Rowwise::Kind::rms_norm ? 1e-5 : 0;
        output(builder.rowwise(rowwise, one, dtype));
      }
      for (const Reduce::Kind kind : {Reduce::Kind::sum, Reduce::Kind::max, Reduce::Kind::min, Reduce::Kind::index_max,
                                      Reduce::Kind::index_min}) {
        for (const Shape& axes : {Shape{0}, Shape{2}, Shape{0, 2}, Shape{0, 1, 2}}) {
          const bool index = kind == Reduce::Kind::index_max || kind == Reduce::Kind::index_min;
          if (index && axes.rank() > 1) continue;
          Reduce reduce;
          reduce.kind = kind;
          reduce.axes = axes;
          output(builder.reduce(reduce, one, index ? DType::i64 : DType::f32));
        }
      }
      output(builder.cumulative({.axis = 1, .exclusive = transposed, .reverse = true}, x));
      const ValueId parts[] = {x, builder.cumulative({.axis = 0}, x), x};
      output(builder.concat(parts, 1));
      for (const Pad::Mode mode : {Pad::Mode::constant, Pad::Mode::edge, Pad::Mode::reflect, Pad::Mode::wrap}) {
        std::vector<ValueId> operands{x};
        Tensor seven(dtype, {});
        seven.set_value(0, 7);
        if (mode == Pad::Mode::constant) operands.push_back(builder.constant(std::move(seven)));
        Pad pad;
        pad.mode = mode;
        pad.before = {2, 0, 3};
        output(builder.pad(pad, operands, {0, 4, 50}));
      }
      Tensor indices(DType::i64, {2, 5, 2});
      for (int64_t i = 0; i < 20; ++i) indices.set_value(i, static_cast<double>(i * 3 % 13 - 6));
      const ValueId list = builder.constant(std::move(indices));
      output(builder.gather({.mode = Gather::Mode::axis, .axis = 1}, x, list));
      output(builder.gather({.mode = Gather::Mode::elements, .axis = 2}, x, list));
      output(builder.gather({.mode = Gather::Mode::nd}, x, list));
      const auto graph = std::move(builder).finish();
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      Tensor tensor(dtype, {6, 35, 21});
      for (int64_t i = 0; i < tensor.elements(); ++i)
        tensor.set_value(i, static_cast<double>((i * 7919 + i / 11) % 61) / 16 - 2);
      const std::vector<Tensor> inputs = {tensor};
      const auto expected = reference::run(*graph, inputs);
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      const double tolerance = dtype == DType::f32 ? 2e-6 : 2e-3;
      expect_close(run_package(*graph, inputs, pool), *expected, tolerance, "package");
      for (const uint32_t tiles : {1u, 13u, 64u}) {
        SCOPED_TRACE(std::to_string(tiles) + " tiles without global memory");
        Machine machine = machine_named("ipu21");
        machine.tiles = tiles;
        machine.tile_memory_bytes = uint64_t{64} << 20;  // as many values as a test has outputs do not fit otherwise
        const auto legal = graph_for(machine, *graph, {});
        ASSERT_TRUE(legal.has_value()) << legal.error().message;
        ASSERT_NO_FATAL_FAILURE(finalists_agree(*legal, machine, {.finalists = 1}, inputs, *expected, tolerance, pool));
      }
    }
  }
}

// One body: the text of a Repeat's program does not depend on its count, but for the count's own digits.
TEST(Pipeline, ARepeatIsExpandedOnce) {
  const auto text_size = [](int64_t count) {
    GraphBuilder body;
    const ValueId x = body.input("x", {DType::f32, {9, 8}});
    const ValueId w = body.input("w", {DType::f32, {8, 8}});
    const ValueId pair[] = {x, w};
    body.output("next", body.matmul({}, pair, DType::f32));
    Repeat repeat{.count = count, .carried = 1, .invariant = 1};
    repeat.body = std::make_shared<const Graph>(*std::move(body).finish());
    GraphBuilder builder;
    const ValueId operands[] = {builder.input("x", {DType::f32, {9, 8}}), builder.input("w", {DType::f32, {8, 8}})};
    builder.output("y", builder.repeat(repeat, operands)[0]);
    const Graph graph = *std::move(builder).finish();
    const Machine machine = machine_named("host");
    ThreadPool pool(1);
    const auto found = search(graph, machine, {.finalists = 1}, pool);
    LOW_CHECK(found.has_value());
    const auto expanded = expand(graph, found->finalists[0].plan, machine);
    LOW_CHECK(expanded.has_value());
    return print(*expanded).size();
  };
  EXPECT_EQ(text_size(3), text_size(9));
  EXPECT_EQ(text_size(3) + 1, text_size(27));
}

// Each run of digits becomes one '#', each hash of a constant an 'H': what is left does not say how many of something
// there are.
std::string without_numbers(const std::string& text) {
  std::string masked;
  for (size_t i = 0; i < text.size();) {
    const size_t hash = std::min(text.find_first_not_of("0123456789abcdef", i), text.size()) - i;
    const size_t digits = std::min(text.find_first_not_of("0123456789", i), text.size()) - i;
    masked += hash == 64 ? 'H' : digits > 0 ? '#' : text[i];
    i += hash == 64 ? 64 : std::max<size_t>(digits, 1);
  }
  return masked;
}

// Two types that differ in the number of blocks are one where there is one block.
std::string without_types(const std::string& text) {
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (!text.substr(begin, end - begin).starts_with("type ")) kept.append(text, begin, end - begin);
    begin = end;
  }
  return kept;
}

// One block or 27, from the same decisions: one program, but for its numbers. With one iteration the repeat is kept for
// that.
TEST(Pipeline, AnyNumberOfBlocksIsOneProgram) {
  for (const char* name : {"tiny-mlp-b2-repeat3", "tiny-mlp-row1"}) {
    const auto imported = [&](int blocks) {
      const auto model = make_workload(name, {.repeat = blocks, .unrolled = std::nullopt});
      LOW_CHECK(model.has_value());
      auto graph = import_onnx(std::as_bytes(std::span(*model)), name, {});
      LOW_CHECK(graph.has_value());
      return *std::move(graph);
    };
    for (const char* machine_name : {"ipu21", "mi300x"}) {
      const Machine machine = machine_named(machine_name);
      ThreadPool pool(2);
      std::optional<Plan> plan;
      std::string first;
      for (const int blocks : {3, 1, 9, 27}) {
        SCOPED_TRACE(std::string(name) + " of " + std::to_string(blocks) + " blocks on " + machine_name);
        const auto graph = graph_for(machine, imported(blocks), {.keep_single_repeats = true});
        ASSERT_TRUE(graph.has_value()) << graph.error().message;
        if (!plan) {
          const auto found = search(*graph, machine, {.finalists = 1}, pool);
          ASSERT_TRUE(found.has_value()) << found.error().message;
          plan = found->finalists[0].plan;
        }
        plan->graph_digest = digest(*graph);
        const auto valid = verify(*plan, *graph, machine);
        ASSERT_TRUE(valid.has_value()) << valid.error().message;
        const auto expanded = expand(*graph, *plan, machine);
        ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
        const auto simplified = simplify_tile_graph(*expanded);
        ASSERT_TRUE(simplified.has_value()) << simplified.error().message;
        EXPECT_EQ(simplified->repeats().size(), 1u);
        const std::string text = without_numbers(print(*simplified));
        if (first.empty()) first = text;
        const std::string actual = blocks == 1 ? without_types(text) : text;
        const std::string expected = blocks == 1 ? without_types(first) : first;
        EXPECT_EQ(actual.size(), expected.size());
        EXPECT_TRUE(actual == expected);  // not EXPECT_EQ: the texts are long
      }
    }
    const auto inlined = run_passes(imported(1));
    ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
    EXPECT_EQ(print(*inlined).find("repeat"), std::string::npos);
  }
}

TEST(Pipeline, APlanForAnotherGraphOrMachineIsRefused) {
  const reference::RandomGraph one = reference::random_graph({.seed = 11}),
                               other = reference::random_graph({.seed = 12});
  ThreadPool pool(1);
  const Machine host = machine_named("host");
  const auto graph = run_passes(one.graph), unlike = run_passes(other.graph);
  ASSERT_TRUE(graph && unlike);
  const auto found = search(*graph, host, {.finalists = 1}, pool);
  ASSERT_TRUE(found.has_value());
  const Plan& plan = found->finalists[0].plan;
  EXPECT_TRUE(verify(plan, *graph, host).has_value());
  EXPECT_FALSE(verify(plan, *unlike, host).has_value());
  EXPECT_FALSE(verify(plan, *graph, machine_named("mi300x")).has_value());
}

// The search and low/cost see one plan in two ways; what they predict for it has to be the same time.
TEST(Pipeline, SearchAndExpansionPredictTheSameCost) {
  const struct {
    int64_t m, n, k;
    DType dtype;
  } products[] = {{729, 1152, 4304, DType::f8e4m3fn}, {1458, 4304, 1152, DType::f8e4m3fn},
                  {729, 1152, 1152, DType::bf16},     {300, 300, 300, DType::f32},
                  {17, 65, 129, DType::f32},          {1, 4096, 4096, DType::f16}};
  ThreadPool pool(2);
  for (const auto& [m, n, k, dtype] : products) {
    GraphBuilder builder;
    const ValueId operands[] = {builder.input("a", {dtype, {m, k}}), builder.input("b", {dtype, {k, n}})};
    builder.output("c", builder.matmul({}, operands, DType::f32));
    const Graph graph = *std::move(builder).finish();
    for (const char* name : {"host", "mi300x"}) {
      const Machine machine = machine_named(name);
      const auto found = search(graph, machine, {.finalists = 8}, pool);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      for (const Finalist& finalist : found->finalists) {
        const auto expanded = expand(graph, finalist.plan, machine);
        ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
        EXPECT_NEAR(cost_report(*expanded, machine).total.cycles / finalist.cycles, 1, 0.03)
            << name << " " << m << "x" << n << "x" << k << "\n"
            << print(finalist.plan) << explain(machine, finalist)
            << to_string(cost_report(*expanded, machine), machine);
      }
    }
  }
}

// The same for the workloads: every finalist, with what its operations share and wait for.
TEST(Pipeline, SearchAndExpansionAgreeOnWorkloads) {
  ThreadPool pool(2);
  for (const std::string& workload : workload_names()) {
    const Result<Graph> model = test::workload_graph(workload);
    ASSERT_TRUE(model) << model.error().message;
    for (const std::string_view name : machine_names()) {
      const Machine machine = machine_named(name);
      // Large models on many tiles take long in a checked build.
      if (!machine.global_memory && !workload.starts_with("tiny-") && workload != "mlp-b1") continue;
      const Graph graph = *graph_for(machine, *model, {});
      const auto found = search(graph, machine, {}, pool);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      for (const Finalist& finalist : found->finalists) {
        ExpansionCaches caches;
        const auto expanded = expand_finalist(graph, finalist.plan, machine, caches);
        ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
        EXPECT_NEAR(cost_report(*expanded, machine).total.cycles / finalist.cycles, 1, 0.05)
            << name << " " << workload << "\n"
            << print(finalist.plan) << explain(machine, finalist)
            << to_string(cost_report(*expanded, machine), machine);
      }
    }
  }
}

// A carried value lies in an allocation of two halves, which must not need a rank of 9.
TEST(Pipeline, ARepeatCarriesAValueOfTheLargestRank) {
  const Type type{DType::f32, {1, 2, 1, 2, 1, 2, 1, 3}};
  const auto doubled = [&](GraphBuilder& builder, ValueId x) {
    ExprBuilder expr(1);
    const uint16_t in = expr.input(0, DType::f32);
    const ValueId operands[] = {x};
    return builder.pointwise(std::move(expr).finish(expr.binary(ExprOp::add, in, in)), operands);
  };
  GraphBuilder inner;
  inner.output("h", doubled(inner, inner.input("h", type)));
  const auto body = std::make_shared<const Graph>(*std::move(inner).finish());
  GraphBuilder builder;
  const ValueId operands[] = {builder.input("x", type)};
  builder.output("y", builder.repeat({.count = 3, .carried = 1, .body = body}, operands)[0]);
  const Graph graph = *std::move(builder).finish();
  ThreadPool pool(1);
  const Machine machine = machine_named("host");
  const auto planned = plan_program(graph, machine, {}, pool);
  ASSERT_TRUE(planned.has_value()) << planned.error().message;
  Tensor x(type.dtype, type.shape), eight_times(type.dtype, type.shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.set_value(i, static_cast<double>(i));
    eight_times.set_value(i, static_cast<double>(8 * i));
  }
  expect_close(interpret(planned->graph, std::span(&x, 1)), {eight_times}, 0, "interpreted");
}

TEST(Pipeline, MoreKernelRunsThanMemoryAllowsAreRefused) {
  GraphBuilder builder;
  const int64_t batch = int64_t{1} << 30;
  const ValueId operands[] = {builder.input("a", {DType::f32, {batch, 1, 1}}),
                              builder.input("b", {DType::f32, {batch, 1, 1}})};
  builder.output("c", builder.matmul({}, operands, DType::f32));
  const Graph graph = *std::move(builder).finish();
  ThreadPool pool(1);
  const auto planned = plan_program(graph, machine_named("host"), {}, pool);
  ASSERT_FALSE(planned.has_value());
  EXPECT_EQ(planned.error().kind, ErrorKind::unsupported);
  // Three operands of each, and the superstep.
  EXPECT_NE(planned.error().message.find("needs 3221225473 or more pieces"), std::string::npos)
      << planned.error().message;
}

// A running sum is one tile's work.
TEST(Pipeline, GpusCountElementsIn32Bits) {
  for (const int64_t length : {int64_t{1} << 30, int64_t{1} << 31}) {
    GraphBuilder builder;
    builder.output("y", builder.cumulative({.axis = 0}, builder.input("x", {DType::f32, {length}})));
    const Graph graph = *std::move(builder).finish();
    ThreadPool pool(1);
    CompileOptions options;
    options.targets = {"gfx942"};
    const auto lowered = lower_graph(graph, options, pool);
    EXPECT_EQ(lowered.has_value(), length < int64_t{1} << 31);
    if (lowered.has_value()) continue;
    EXPECT_EQ(lowered.error().kind, ErrorKind::unsupported);
    EXPECT_NE(lowered.error().message.find("2147483648 elements on one tile of machine mi300x"), std::string::npos)
        << lowered.error().message;
  }
}

}  // namespace
}  // namespace low
