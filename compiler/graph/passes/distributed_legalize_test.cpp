// What machines without global memory cannot do is gone, and nothing else changes.
#include "compiler/graph/passes/test_support.h"
#include "reference/random_graph.h"

namespace low {
namespace {

using namespace test;

// Bit for bit where no sum is taken in another order.
void expect_equal(const Result<std::vector<Tensor>>& actual, const Result<std::vector<Tensor>>& expected,
                  double tolerance) {
  ASSERT_TRUE(actual) << actual.error().message;
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_EQ(actual->size(), expected->size());
  for (size_t i = 0; i < actual->size(); ++i) {
    const auto comparison =
        reference::compare((*actual)[i], (*expected)[i], {.absolute = tolerance, .relative = tolerance});
    ASSERT_TRUE(comparison) << comparison.error().message;
    EXPECT_TRUE(comparison->passed()) << "output " << i << ": " << reference::to_string(*comparison);
  }
}

void expect_legal(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    EXPECT_FALSE(std::holds_alternative<Pad>(op.attributes));
    if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) expect_legal(*repeat->body);
    if (op.operands.count == 0) continue;
    const int last = graph.type(graph.operands(op)[0]).shape.rank() - 1;
    if (const auto* reduce = std::get_if<Reduce>(&op.attributes)) {
      EXPECT_EQ(reduce->axes, Shape{last});
    }
    if (const auto* rowwise = std::get_if<Rowwise>(&op.attributes)) {
      EXPECT_EQ(rowwise->axes, Shape{last});
    }
    if (const auto* cumulative = std::get_if<Cumulative>(&op.attributes)) {
      EXPECT_EQ(cumulative->axis, last);
    }
  }
}

Graph legalized(const Graph& graph) {
  Result<Graph> legal = legalize_for_distributed_memory(graph);
  EXPECT_TRUE(legal) << legal.error().message;
  expect_legal(*legal);
  return std::move(*legal);
}

TEST(DistributedLegalize, ReductionsAndNormalizationsMoveToTheLastAxis) {
  const Shape shapes[] = {{2, 3, 5}, {7, 1, 4}, {1, 1, 1}, {3, 0, 2}};
  const Shape axes[] = {{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (const Shape& shape : shapes) {
    for (const Shape& some : axes) {
      SCOPED_TRACE(to_string(shape) + " along " + to_string(some));
      Shape reduced = shape;
      for (const int64_t axis : some) reduced[static_cast<int>(axis)] = 1;
      // Extras that vary along all axes, along one, and along none.
      const Shape extras[] = {reduced, {reduced[1], 1}, {reduced[2]}, {}};
      for (const Shape& extra : extras) {
        GraphBuilder builder;
        const ValueId x = builder.input("x", {f32, shape});
        const ValueId operands[] = {x, builder.input("e", {f32, extra})};
        ExprBuilder add(2);
        const uint16_t a = add.input(0, f32), b = add.input(1, f32);
        const Expr sum = std::move(add).finish(add.binary(ExprOp::add, a, b));
        Reduce reduce;
        reduce.kind = Reduce::Kind::max;
        reduce.axes = some;
        reduce.epilogue = sum;
        builder.output("m", builder.reduce(reduce, operands, f32));
        if (some.rank() > 0) {
          Rowwise rowwise;
          rowwise.axes = some;
          rowwise.epilogue = sum;
          const ValueId normal[] = {x, builder.input("f", {f32, extra.rank() == 1 ? Shape{shape[2]} : extra})};
          builder.output("n", builder.rowwise(rowwise, normal, f32));
        }
        if (some.rank() == 1) {
          const auto axis = static_cast<int>(some[0]);
          builder.output("c", builder.cumulative({.axis = axis, .exclusive = true, .reverse = axis == 1}, x));
          Reduce index;
          index.kind = Reduce::Kind::index_min;
          index.axes = some;
          if (shape[axis] != 0) builder.output("i", builder.reduce(index, {&x, 1}, DType::i64));
        }
        const Result<Graph> before = std::move(builder).finish();
        ASSERT_TRUE(before) << before.error().message;
        std::vector<Tensor> inputs;
        for (const OpId input : before->inputs()) {
          const Type& type = before->type(before->result(before->op(input)));
          inputs.push_back(random_tensor(type.dtype, type.shape, static_cast<unsigned>(inputs.size() + 1)));
        }
        const Graph after = legalized(*before);
        expect_equal(reference::run(after, inputs), reference::run(*before, inputs), 1e-6);
      }
    }
  }
}

TEST(DistributedLegalize, PadsAreConcats) {
  struct Case {
    Shape shape, before, after;
  };
  const Case cases[] = {
      {{4}, {2}, {0}},
      {{2, 3}, {1, 0}, {0, 2}},
      {{3, 1, 5}, {2, 2, 3}, {4, 0, 50}},
      {{5, 2}, {40, 0}, {37, 90}},  // more periods than are written out one by one
      {{3, 2, 2}, {0, 31, 0}, {0, 30, 0}},
      {{2, 2, 1, 1, 1, 1, 1, 3}, {0, 17, 0, 0, 0, 0, 0, 29}, {0, 0, 0, 1, 0, 0, 0, 0}},
      {{0, 3}, {0, 2}, {0, 40}},
  };
  for (const Case& one : cases) {
    for (const Pad::Mode mode : {Pad::Mode::constant, Pad::Mode::edge, Pad::Mode::reflect, Pad::Mode::wrap}) {
      SCOPED_TRACE(to_string(one.shape) + ", mode " + std::to_string(static_cast<int>(mode)));
      GraphBuilder builder;
      std::vector<ValueId> operands{builder.input("x", {DType::i32, one.shape})};
      if (mode == Pad::Mode::constant) operands.push_back(builder.input("fill", {DType::i32, {}}));
      Pad pad;
      pad.mode = mode;
      pad.before = one.before;
      builder.output("y", builder.pad(pad, operands, one.after));
      const Result<Graph> before = std::move(builder).finish();
      ASSERT_TRUE(before) << before.error().message;
      std::vector<Tensor> inputs{random_tensor(DType::i32, one.shape, 3)};
      if (mode == Pad::Mode::constant) inputs.push_back(scalar(DType::i32, 77));
      const Graph after = legalized(*before);
      EXPECT_LT(after.op_count(), 60u) << print(after);
      expect_equal(reference::run(after, inputs), reference::run(*before, inputs), 0);
    }
  }
}

TEST(DistributedLegalize, AnEmptyAxisIsFilled) {
  GraphBuilder builder;
  const ValueId operands[] = {builder.input("x", {f32, {2, 0}}), builder.constant(scalar(f32, 3))};
  builder.output("y", builder.pad({.mode = Pad::Mode::constant, .before = {1, 2}}, operands, {0, 1}));
  const Result<Graph> before = std::move(builder).finish();
  ASSERT_TRUE(before) << before.error().message;
  const std::vector<Tensor> inputs{Tensor(f32, {2, 0})};
  const auto outputs = reference::run(legalized(*before), inputs);
  ASSERT_TRUE(outputs) << outputs.error().message;
  ASSERT_EQ((*outputs)[0].shape(), (Shape{3, 3}));
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ((*outputs)[0].value(i), 3);
}

TEST(DistributedLegalize, RandomGraphs) {
  int changed = 0;
  for (uint64_t seed = 9000; seed < 9150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const reference::RandomGraph random =
        reference::random_graph({.seed = seed, .operations = 3 + static_cast<int>(seed % 7)});
    const Result<Graph> passed = run_passes(random.graph);
    ASSERT_TRUE(passed) << passed.error().message;
    const Graph after = legalized(*passed);
    if (after == *passed) continue;
    ++changed;
    // Legal graphs stay as they are.
    EXPECT_EQ(legalized(after), after);
    ASSERT_NO_FATAL_FAILURE(expect_equal(reference::run(after, random.inputs),
                                         reference::run(random.graph, random.inputs), 4 * random.tolerance));
  }
  EXPECT_GE(changed, 30);
}

}  // namespace
}  // namespace low
