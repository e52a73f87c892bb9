// Attention through the whole pipeline, by each algorithm: random graphs, and cases by hand under every kind of plan.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "compiler/graph/passes/passes.h"
#include "compiler/search/attention.h"
#include "compiler/search/explain.h"
#include "compiler/test_support.h"
#include "reference/random_graph.h"
#include "runtime/tensor/random_tensor.h"

namespace low {
namespace {

using test::expect_close;
using test::finalists_agree;
using test::machine_named;
using test::plan_agrees;
using test::run_package;

constexpr std::optional<AttentionAlgorithm> any_algorithm = std::nullopt;

std::string name_of(std::optional<AttentionAlgorithm> algorithm) {
  return algorithm ? std::string(name(*algorithm)) : "any";
}

reference::RandomGraph random_graph(uint64_t seed, int operations) {
  return reference::random_graph(
      {.seed = seed, .operations = operations, .narrow_floats = seed % 2 == 1, .attention = true});
}

class RandomAttention : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomAttention, EveryStageAgreesWithTheReference) {
  ThreadPool pool(2);
  for (uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 12; ++seed) {
    const reference::RandomGraph random = random_graph(seed, 2 + static_cast<int>(seed % 7));
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto expected = reference::run(random.graph, random.inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    for (const char* machine_name : {"host", "mi300x", "ipu21"}) {
      Machine machine = machine_named(machine_name);
      if (!machine.global_memory) machine.tiles = 1 + static_cast<uint32_t>(seed * 7 % 40);
      const auto graph = graph_for(machine, random.graph, {});
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      for (const auto algorithm :
           {any_algorithm, std::optional(AttentionAlgorithm::flash), std::optional(AttentionAlgorithm::materialized)}) {
        SCOPED_TRACE(machine_name + (", " + name_of(algorithm)));
        const SearchOptions options{.attention = algorithm, .finalists = 2};
        ASSERT_NO_FATAL_FAILURE(
            finalists_agree(*graph, machine, options, random.inputs, *expected, random.tolerance, pool));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomAttention, ::testing::Range<uint64_t>(0, 10));

class RandomAttentionPackages : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomAttentionPackages, TheCompiledPackageAgreesWithTheReference) {
  ThreadPool pool(2);
  for (uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 5; ++seed) {
    const reference::RandomGraph random = random_graph(seed, 3 + static_cast<int>(seed % 6));
    const auto algorithm = seed % 2 == 0 ? AttentionAlgorithm::materialized : AttentionAlgorithm::flash;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + name_of(algorithm));
    const auto expected = reference::run(random.graph, random.inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    ASSERT_NO_FATAL_FAILURE(expect_close(run_package(random.graph, random.inputs, pool, {.attention = algorithm}),
                                         *expected, random.tolerance, "package"));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomAttentionPackages, ::testing::Range<uint64_t>(100, 104));

// A graph under construction with random inputs; constants only where a case wants them.
class Model {
 public:
  ValueId input(const Shape& shape, DType dtype = DType::f32) {
    return input(random_tensor(dtype, shape, 17 + inputs.size()));
  }
  ValueId input(Tensor tensor) {
    const ValueId value = builder.input("x" + std::to_string(inputs.size()), {tensor.dtype(), tensor.shape()});
    inputs.push_back(std::move(tensor));
    return value;
  }
  void output(ValueId value) { builder.output("y" + std::to_string(outputs++), value); }
  void output(const Attention& attributes, const std::vector<ValueId>& operands, DType dtype = DType::f32) {
    output(builder.attention(attributes, operands, dtype));
  }

  GraphBuilder builder;
  std::vector<Tensor> inputs;
  int outputs = 0;
};

// Each row sees keys i with (row * keys + i) * 7 % modulus < keep.
Tensor boolean_mask(const Shape& shape, int64_t modulus, int64_t keep) {
  Tensor mask(DType::boolean, shape);
  for (int64_t i = 0; i < mask.elements(); ++i) mask.set_bits(i, i * 7 % modulus < keep ? 1 : 0);
  return mask;
}

struct Case {
  std::string_view name;
  std::function<void(Model&)> make;
  double tolerance = 2e-5;
};

// q [7, 2 heads of 3], k and v [9, …]: rows 0, 1 and 2 have no key, row 6 has keys 0 to 3.
void causal_without_keys(Model& model, bool zero) {
  model.output({.q_heads = 2, .kv_heads = 2, .diagonal = -3, .empty_is_zero = zero},
               {model.input({1, 7, 6}), model.input({1, 9, 6}), model.input({1, 9, 10})});
}

// All of a row's keys, those of its second panel, or none are masked.
void masked_rows(Model& model, bool zero, DType dtype) {
  Tensor mask(dtype, {1, 1, 5, 9});
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 9; ++j) {
      const bool takes_part = i == 0 ? false : i == 1 ? j < 3 : i == 2 ? j >= 6 : i == 3 ? j == 4 : true;
      if (dtype == DType::boolean) {
        mask.set_bits(i * 9 + j, takes_part ? 1 : 0);
      } else {
        mask.set_value(i * 9 + j,
                       takes_part ? 0.25 * static_cast<double>(j) : -std::numeric_limits<double>::infinity());
      }
    }
  }
  model.output({.q_heads = 3, .kv_heads = 1, .masked = true, .empty_is_zero = zero},
               {model.input({2, 5, 12}), model.input({2, 9, 4}), model.input({2, 9, 5}), model.input(std::move(mask))});
}

// The last keys are NaN and infinite: they take no part where a boolean or the diagonal says so.
void special_keys_left_out(Model& model, bool causal) {
  Tensor keys = random_tensor(DType::f32, {1, 5, 4}, 3), mask(DType::boolean, {1, 1, 1, 5});
  keys.set_value(13, std::numeric_limits<double>::quiet_NaN());
  keys.set_value(18, std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < 3; ++i) mask.set_bits(i, 1);
  const std::vector<ValueId> operands = {model.input({1, 3, 4}), model.input(std::move(keys)), model.input({1, 5, 2})};
  if (causal) {
    model.output({.diagonal = 0}, operands);
  } else {
    model.output({.masked = true}, {operands[0], operands[1], operands[2], model.input(std::move(mask))});
  }
}

void grouped(Model& model, int64_t q_heads, int64_t kv_heads) {
  model.output(
      {.q_heads = q_heads, .kv_heads = kv_heads, .scale = 0.5, .diagonal = 4},
      {model.input({2, 5, q_heads * 3}), model.input({2, 8, kv_heads * 3}), model.input({2, 8, kv_heads * 2})});
}

// 6 batches of 2 heads share 3 batches of keys; the mask counts its heads in its own way.
void batches(Model& model, int64_t mask_heads, const Shape& mask) {
  model.output({.q_heads = 2, .kv_heads = 1, .mask_heads = mask_heads, .masked = true, .softcap = 2},
               {model.input({6, 3, 8}), model.input({3, 7, 4}), model.input({3, 7, 3}), model.input(mask)});
}

// Queries carried, keys invariant, values and masks iterated; the results are carried and collected.
void repeated(Model& model, bool panels_differ) {
  Model inner;
  const ValueId q = inner.input({2, 7, 6}), k = inner.input({1, 9, 6}), v = inner.input({1, 9, 6});
  const ValueId mask = inner.input({1, 2, 1, 9});
  Attention attributes{.q_heads = 2, .kv_heads = 2, .mask_heads = 2, .masked = true, .scale = 0.5};
  if (panels_differ) attributes.diagonal = 2;
  const ValueId mixed = inner.builder.attention(attributes, {{q, k, v, mask}}, DType::f32);
  ExprBuilder sum(2);
  const uint16_t both = sum.binary(ExprOp::add, sum.input(0, DType::f32), sum.input(1, DType::f32));
  inner.output(inner.builder.pointwise(std::move(sum).finish(both), {{q, mixed}}));
  inner.output(mixed);
  const Repeat repeat{.count = 3,
                      .carried = 1,
                      .invariant = 1,
                      .iterated = 2,
                      .collected = 1,
                      .body = std::make_shared<const Graph>(*std::move(inner.builder).finish())};
  const ValueId operands[] = {model.input({2, 7, 6}), model.input({1, 9, 6}), model.input({3, 1, 9, 6}),
                              model.input({3, 1, 2, 1, 9})};
  for (const ValueId result : model.builder.repeat(repeat, operands)) model.output(result);
}

// Keys and values are carried and swapped, queries come one after the other.
void swapped_keys(Model& model) {
  Model inner;
  const ValueId k = inner.input({1, 5, 8}), v = inner.input({1, 5, 8}), q = inner.input({1, 6, 8});
  inner.output(v);
  inner.output(k);
  inner.output(inner.builder.attention({.q_heads = 4, .kv_heads = 4}, {{q, k, v}}, DType::f32));
  const Repeat repeat{.count = 4,
                      .carried = 2,
                      .invariant = 0,
                      .iterated = 1,
                      .collected = 1,
                      .body = std::make_shared<const Graph>(*std::move(inner.builder).finish())};
  const ValueId operands[] = {model.input({1, 5, 8}), model.input({1, 5, 8}), model.input({4, 1, 6, 8})};
  for (const ValueId result : model.builder.repeat(repeat, operands)) model.output(result);
}

// The carried value is the attention's result itself: q, k and v of one iteration are what it overwrites in the next.
void self_attention_carried(Model& model) {
  Model inner;
  const ValueId x = inner.input({1, 6, 8});
  inner.output({.q_heads = 2, .kv_heads = 2, .scale = 2, .diagonal = 0}, {x, x, x});
  const Repeat repeat{.count = 5,
                      .carried = 1,
                      .invariant = 0,
                      .iterated = 0,
                      .collected = 0,
                      .body = std::make_shared<const Graph>(*std::move(inner.builder).finish())};
  model.output(model.builder.repeat(repeat, {{model.input({1, 6, 8})}})[0]);
}

// A linear layer gives queries, keys and values at once, cut apart as views; the result is quantized, and a layer
// follows.
void quantized_between_layers(Model& model, DType dtype) {
  GraphBuilder& builder = model.builder;
  const ValueId x = model.input({2, 5, 6}), weights = builder.constant(random_tensor(DType::f32, {6, 24}, 5));
  const ValueId all = builder.matmul({}, {{x, weights}}, DType::f32);
  std::vector<ValueId> operands;
  for (int64_t i = 0; i < 3; ++i) operands.push_back(builder.slice(all, {0, 0, 8 * i}, {1, 1, 1}, {2, 5, 8}));
  const ValueId mixed = builder.attention({.q_heads = 2, .kv_heads = 2, .scale = 0.1}, operands, DType::f32);
  Tensor scale(DType::f32, {});
  scale.set_value(0, 0.125);
  const ValueId factor = builder.constant(std::move(scale));
  const ValueId quantized = builder.quantize({}, {{mixed, factor}}, dtype);
  model.output(builder.dequantize({}, {{quantized, factor}}, DType::f32));
  model.output(quantized);
}

// The mask is what another computation finds, and an extra is the layer's input.
void computed_mask(Model& model) {
  const ValueId x = model.input({2, 5, 6}), limits = model.input({1, 2, 5, 7}), keys = model.input({2, 7, 6});
  ExprBuilder less(1);
  const uint16_t below = less.binary(ExprOp::less, less.input(0, DType::f32), less.constant(DType::f32, 0.75));
  const ValueId mask = model.builder.pointwise(std::move(less).finish(below), {{limits}});
  ExprBuilder sum(2);
  const uint16_t both = sum.binary(ExprOp::add, sum.input(0, DType::f32), sum.input(1, DType::f32));
  model.output({.q_heads = 2, .kv_heads = 2, .mask_heads = 2, .masked = true, .epilogue = std::move(sum).finish(both)},
               {x, keys, keys, mask, x});
}

// Heads of a usual tensor [batch, tokens, heads, size] as matrices of their own: strided views.
void strided(Model& model) {
  const auto heads_first = [&](int64_t tokens, int64_t size) {
    const ValueId x = model.input({2, tokens, 3, size});
    return model.builder.reshape(model.builder.transpose(x, {0, 2, 1, 3}), {6, tokens, size});
  };
  const ValueId k = model.builder.transpose(model.input({6, 4, 7}), {0, 2, 1});
  model.output(Attention{}, {heads_first(5, 4), k, heads_first(7, 3)});
}

std::vector<Case> cases() {
  return {
      {"causal",
       [](Model& m) {
         m.output({.q_heads = 2, .kv_heads = 2, .diagonal = 0},
                  {m.input({1, 11, 6}), m.input({1, 11, 6}), m.input({1, 11, 10})});
       }},
      {"causal with a past",
       [](Model& m) {
         m.output({.q_heads = 2, .kv_heads = 1, .diagonal = 6},
                  {m.input({1, 5, 6}), m.input({1, 11, 3}), m.input({1, 11, 2})});
       }},
      {"causal, rows without a key", [](Model& m) { causal_without_keys(m, false); }},
      {"causal, rows without a key give 0", [](Model& m) { causal_without_keys(m, true); }},
      {"rows masked by booleans", [](Model& m) { masked_rows(m, false, DType::boolean); }},
      {"rows masked by booleans give 0", [](Model& m) { masked_rows(m, true, DType::boolean); }},
      {"rows masked by floats", [](Model& m) { masked_rows(m, false, DType::f16); }},
      {"rows masked by floats give 0", [](Model& m) { masked_rows(m, true, DType::f32); }},
      {"a diagonal and a mask",
       [](Model& m) {
         m.output(
             {.q_heads = 1, .kv_heads = 1, .masked = true, .diagonal = 1, .empty_is_zero = true},
             {m.input({1, 9, 4}), m.input({1, 9, 4}), m.input({1, 9, 3}), m.input(boolean_mask({1, 1, 1, 9}, 11, 5))});
       }},
      {"NaN behind a boolean", [](Model& m) { special_keys_left_out(m, false); }},
      {"NaN behind the diagonal", [](Model& m) { special_keys_left_out(m, true); }},
      {"6 heads of 2", [](Model& m) { grouped(m, 6, 2); }},
      {"6 heads of 3", [](Model& m) { grouped(m, 6, 3); }},
      {"5 heads of 1", [](Model& m) { grouped(m, 5, 1); }},
      {"a mask for each batch", [](Model& m) { batches(m, 1, {12, 1, 3, 7}); }},
      {"a mask for each head", [](Model& m) { batches(m, 2, {1, 2, 3, 7}); }},
      {"a mask that counts heads across batches", [](Model& m) { batches(m, 4, {3, 4, 1, 7}); }},
      {"a mask for all of some heads", [](Model& m) { batches(m, 6, {2, 1, 3, 1}); }},
      {"a mask of one element", [](Model& m) { batches(m, 12, {1, 1, 1, 1}); }},
      {"keys that are values",
       [](Model& m) {
         const ValueId kv = m.input({2, 7, 8});
         m.output({.q_heads = 4, .kv_heads = 2}, {m.input({2, 5, 16}), kv, kv});
       }},
      {"one value for all",
       [](Model& m) {
         const ValueId x = m.input({2, 7, 8});
         m.output({.q_heads = 2, .kv_heads = 2, .diagonal = 0}, {x, x, x});
       }},
      {"keys that are queries",
       [](Model& m) {
         const ValueId x = m.input({1, 7, 8});
         m.output({.q_heads = 2, .kv_heads = 2}, {x, x, m.input({1, 7, 2})});
       }},
      {"f16, bf16 and FP8",
       [](Model& m) {
         m.output(
             {.q_heads = 2, .kv_heads = 2, .scale = 0.25, .diagonal = 3},
             {m.input({2, 5, 8}, DType::f16), m.input({2, 7, 8}, DType::bf16), m.input({2, 7, 6}, DType::f8e4m3fn)},
             DType::f16);
       },
       1e-2},
      {"f64",
       [](Model& m) {
         m.output({.q_heads = 2, .kv_heads = 1, .softcap = 1.5},
                  {m.input({1, 5, 8}, DType::f64), m.input({1, 7, 4}), m.input({1, 7, 3}, DType::f16)}, DType::f64);
       }},
      {"no rows",
       [](Model& m) {
         m.output({.q_heads = 2, .kv_heads = 2, .diagonal = 0},
                  {m.input({1, 0, 6}), m.input({1, 3, 6}), m.input({1, 3, 6})});
         m.output({.q_heads = 2, .kv_heads = 2, .masked = true},
                  {m.input({0, 4, 6}), m.input({0, 3, 6}), m.input({0, 3, 6}), m.input({1, 1, 4, 3})});
       }},
      {"computed mask", computed_mask},
      {"strided", strided},
      {"quantized to i8", [](Model& m) { quantized_between_layers(m, DType::i8); }, 0.05},
      {"quantized to FP8", [](Model& m) { quantized_between_layers(m, DType::f8e4m3fn); }, 0.1},
      {"repeated", [](Model& m) { repeated(m, false); }},
      {"repeated, causal", [](Model& m) { repeated(m, true); }},
      {"keys and values swapped", swapped_keys},
      {"self-attention carried", self_attention_carried},
  };
}

// How many parts along batch, rows and heads, panels of keys, and rows of a block; each as far as an operation has
// them.
struct Form {
  AttentionAlgorithm algorithm;
  uint32_t batch, m, heads;
  int64_t panels, rows;
};

AttentionPlan plan_of(const Form& form, const AttentionExtents& extents, const Machine& machine) {
  const auto at_most = [](uint32_t wanted, int64_t extent) {
    return static_cast<uint32_t>(std::clamp<int64_t>(extent, 1, wanted));
  };
  AttentionPlan plan{.algorithm = form.algorithm,
                     .grid_batch = at_most(form.batch, extents.batch),
                     .grid_m = at_most(form.m, extents.m),
                     .grid_heads = at_most(form.heads, extents.q_heads)};
  const int64_t rows = std::max<int64_t>((extents.m + plan.grid_m - 1) / plan.grid_m, 1);
  plan.block_m = machine.global_memory ? std::min(rows, form.rows) : rows;
  const bool panels = !machine.global_memory && form.algorithm == AttentionAlgorithm::flash;
  plan.block_n = panels ? (extents.n + form.panels - 1) / form.panels : extents.n;
  if (plan.block_n < 1) plan.block_n = 1;
  return plan;
}

void set_plans(const Graph& graph, RegionPlan& region, const Form& form, const Machine& machine) {
  for (size_t i = 0; i < region.ops.size(); ++i) {
    const Op& op = graph.op(OpId(i));
    if (auto* attention = std::get_if<AttentionPlan>(&region.ops[i]))
      *attention = plan_of(form, attention_extents(graph, op), machine);
    if (auto* repeat = std::get_if<RepeatPlan>(&region.ops[i]))
      set_plans(*std::get<Repeat>(op.attributes).body, repeat->body[0], form, machine);
  }
}

class Attentions : public ::testing::TestWithParam<const char*> {};

TEST_P(Attentions, AreTheSameUnderAnyPlan) {
  ThreadPool pool(2);
  Machine machine = machine_named(GetParam());
  machine.tiles = 80;
  std::vector<Form> forms;
  for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized}) {
    for (const uint32_t batch : {1U, 4U, 6U}) {
      for (const uint32_t m : {1U, 2U, 5U}) {
        for (const uint32_t heads : {1U, 2U, 3U, 4U}) {
          for (const int64_t depth : {1, 2, 3, 99}) {
            const bool panels = !machine.global_memory && algorithm == AttentionAlgorithm::flash;
            if (depth > 1 && !machine.global_memory && !panels) continue;
            forms.push_back({algorithm, batch, m, heads, depth, depth == 1 ? 99 : depth});
          }
        }
      }
    }
  }
  size_t index = 0, tried = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Model model;
    c.make(model);
    const auto made = std::move(model.builder).finish();
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const auto expected = reference::run(*made, model.inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    const auto graph = graph_for(machine, *made, {});
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const auto found = search(*graph, machine, {.finalists = 1}, pool);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    std::set<std::string> seen;
    for (const Form& form : forms) {
      ++index;
      Plan plan = found->finalists[0].plan;
      set_plans(*graph, plan.region, form, machine);
      const std::string text = print(plan);
      // A third of the plans, another third for each case.
      if (!seen.insert(text).second || index % 3 != 0) continue;
      SCOPED_TRACE(text);
      ++tried;
      ASSERT_NO_FATAL_FAILURE(plan_agrees(*graph, plan, machine, model.inputs, *expected, c.tolerance));
    }
  }
  EXPECT_GT(tried, 200U);
}
INSTANTIATE_TEST_SUITE_P(Machines, Attentions, ::testing::Values("host", "mi300x", "ipu21"),
                         [](const auto& test) { return std::string(test.param); });

// All cases as one program, by each algorithm that can compute it.
TEST(AttentionPackages, OfAllCases) {
  ThreadPool pool(2);
  for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized}) {
    SCOPED_TRACE(name_of(algorithm));
    Model model;
    std::vector<std::pair<std::string_view, double>> outputs;
    for (const Case& c : cases()) {
      if (algorithm == AttentionAlgorithm::materialized && c.name.ends_with("give 0")) continue;
      if (algorithm == AttentionAlgorithm::materialized && c.name == "a diagonal and a mask") continue;
      c.make(model);
      outputs.resize(static_cast<size_t>(model.outputs), {c.name, c.tolerance});
    }
    const auto graph = std::move(model.builder).finish();
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const auto expected = reference::run(*graph, model.inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    const auto actual = run_package(*graph, model.inputs, pool, {.attention = algorithm, .finalists = 1});
    ASSERT_TRUE(actual.has_value()) << actual.error().message;
    ASSERT_EQ(actual->size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      SCOPED_TRACE(outputs[i].first);
      expect_close(std::vector<Tensor>{(*actual)[i]}, {(*expected)[i]}, outputs[i].second, "package");
    }
  }
}

// The search and low/cost see one plan in two ways.
TEST(AttentionPlans, SearchAndExpansionPredictTheSameCost) {
  const struct {
    int64_t batch, m, n, q_heads, kv_heads, d, dv;
    DType dtype;
    bool causal;
  } shapes[] = {{1, 729, 729, 16, 16, 72, 72, DType::bf16, false},
                {2, 300, 300, 6, 2, 64, 64, DType::f16, false},
                {1, 1, 1024, 32, 8, 128, 128, DType::bf16, false},
                {1, 257, 513, 3, 3, 40, 24, DType::f32, true}};
  ThreadPool pool(2);
  for (const auto& s : shapes) {
    Model model;
    Attention attributes{.q_heads = s.q_heads, .kv_heads = s.kv_heads};
    if (s.causal) attributes.diagonal = s.n - s.m;
    model.output(attributes, {model.input({s.batch, s.m, s.q_heads * s.d}, s.dtype),
                              model.input({s.batch, s.n, s.kv_heads * s.d}, s.dtype),
                              model.input({s.batch, s.n, s.kv_heads * s.dv}, s.dtype)});
    const Graph graph = *std::move(model.builder).finish();
    for (const char* machine_name : {"host", "mi300x", "ipu21"}) {
      const Machine machine = machine_named(machine_name);
      for (const auto algorithm : {AttentionAlgorithm::flash, AttentionAlgorithm::materialized}) {
        const auto found = search(graph, machine, {.attention = algorithm, .finalists = 1}, pool);
        ASSERT_TRUE(found.has_value()) << found.error().message;
        const Finalist& finalist = found->finalists[0];
        const auto expanded = expand(graph, finalist.plan, machine);
        ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
        EXPECT_NEAR(cost_report(*expanded, machine).total.cycles / finalist.cycles, 1, 0.03)
            << print(finalist.plan) << explain(machine, finalist)
            << to_string(cost_report(*expanded, machine), machine);
      }
    }
  }
}

}  // namespace
}  // namespace low
