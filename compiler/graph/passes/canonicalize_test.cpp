#include "compiler/graph/passes/passes.h"

#include "compiler/graph/passes/simplify_expr.h"
#include "compiler/graph/passes/test_support.h"

namespace low::test {
namespace {

TEST(Canonicalize, ComposesMovement) {
  Maker m;
  const ValueId x = m.input("x", {f32, {2, 3, 5}});
  const ValueId t = m.transpose(m.transpose(x, {1, 2, 0}), {2, 0, 1});  // identity
  const ValueId r = m.reshape(m.reshape(t, {6, 5}), {5, 6});
  m.output("a", r);
  m.output("b", m.slice(m.slice(x, {0, 2, 1}, {1, -1, 2}, {2, 3, 2}), {1, 0, 1}, {1, 2, 1}, {1, 2, 1}));
  m.output("c", m.transpose(m.transpose(x, {1, 2, 0}), {1, 2, 0}));
  const Graph out = canonical(m.done());
  EXPECT_EQ(kinds(out), "input reshape output slice output transpose output");
}

TEST(Canonicalize, DropsIdentities) {
  Maker m;
  const ValueId x = m.input("x", {f32, {1, 3}});
  const Type type{f32, {1, 3}};
  const auto add = [&](Attributes attributes, ValueId v) {
    const OpId op = m.add(std::move(attributes), {&v, 1}, {&type, 1});
    return m.peek().result(m.peek().op(op));
  };
  ValueId v = add(Reshape{}, x);
  v = add(Transpose{{0, 1}}, v);
  v = add(Slice{{0, 0}, {7, 1}}, v);
  v = add(Expand{}, v);
  v = add(Cast{}, v);
  m.output("y", v);
  m.output("t", m.transpose(x, {1, 0}));               // an axis of 1: a reshape
  m.output("r", m.slice(x, {0, 2}, {1, -1}, {1, 3}));  // a reversed axis stays
  EXPECT_EQ(kinds(canonical(m.done())), "input output reshape output slice output");
}

TEST(Canonicalize, CastChains) {
  struct Case {
    DType from, through, to;
    bool drops;
  };
  const Case cases[] = {
      {f8, f32, f16, true},
      {f16, f32, f16, true},
      {f32, f16, f32, false},
      {f16, DType::bf16, f32, false},
      {DType::i8, f32, DType::u8, false},
      {DType::i8, DType::i32, DType::u8, true},
      {DType::u8, DType::bf16, f32, true},
      {DType::i16, f16, f32, false},
      {DType::boolean, f32, DType::i8, true},
      {f8, DType::f8e5m2, f32, false},
      {DType::u8, DType::i8, DType::i32, false},
      {DType::f8e5m2fnuz, f16, f32, true},
      {DType::f8e5m2fnuz, f8, f32, false},
      {DType::i32, DType::f64, DType::i64, true},
  };
  for (const Case& c : cases) {
    Maker m;
    const ValueId x = m.input("x", {c.from, {40}});
    m.output("y", m.cast(m.cast(x, c.through), c.to));
    const std::string out = kinds(canonical(m.done()));
    const std::string one = c.from == c.to ? "input output" : "input cast output";
    EXPECT_EQ(out, c.drops ? one : "input cast cast output") << name(c.from) << name(c.through) << name(c.to);
  }
}

// Every pair that is called exact keeps all values, checked on all elements of the small types.
TEST(SimplifyExpr, ExactConversionsAreExact) {
  for (int from = 0; from < dtype_count; ++from) {
    const auto source = static_cast<DType>(from);
    if (byte_size(source) > 2) continue;
    for (int to = 0; to < dtype_count; ++to) {
      const auto target = static_cast<DType>(to);
      if (!is_exact_conversion(source, target)) continue;
      ExprBuilder there(1);
      const Expr forth = std::move(there).finish(there.convert(there.input(0, source), target));
      ExprBuilder back_builder(1);
      const Expr back = std::move(back_builder).finish(back_builder.convert(back_builder.input(0, target), source));
      const uint64_t count = source == DType::boolean ? 2 : uint64_t{1} << (8 * byte_size(source));
      for (uint64_t bits = 0; bits < count; ++bits) {
        if (is_float(source) && std::isnan(decode(source, bits))) continue;
        const uint64_t moved = evaluate(forth, {&bits, 1});
        ASSERT_EQ(evaluate(back, {&moved, 1}), bits) << name(source) << " " << name(target);
      }
    }
  }
}

TEST(Canonicalize, SharesAndRemoves) {
  Maker m;
  const ValueId x = m.input("x", {f32, {3}});
  m.input("unused", {f32, {3}});
  const ValueId a = m.apply(ExprOp::add, x, m.number(2));
  const ValueId b = m.apply(ExprOp::add, x, m.number(2));
  m.apply(ExprOp::mul, a, b);
  m.output("y", m.apply(ExprOp::sub, a, b));
  const Graph out = canonical(m.done());
  EXPECT_EQ(kinds(out), "input input pointwise pointwise output");
  EXPECT_EQ(out.op_count(), 6u);  // and one constant
}

TEST(Canonicalize, FoldsConstantsButNotCompressedWeights) {
  Maker m;
  const ValueId w = m.constant(random_tensor(f32, {40, 60}, 1));
  const ValueId scale = m.number(0.25);
  m.output("t", m.transpose(w, {1, 0}));
  m.output("q", m.to_f8(w, scale));                    // smaller: folds
  m.output("d", m.from_f8(m.to_f8(w, scale), scale));  // larger: stays
  m.output("e", m.expand(m.constant(random_tensor(f32, {1, 7}, 2)), {9, 7}));
  m.output("s", m.apply(ExprOp::mul, scale, m.number(4)));
  const Graph out = canonical(m.done());
  EXPECT_EQ(kinds(out), "output output dequantize output expand output output");
}

TEST(Canonicalize, TransposesEnterMatmuls) {
  Maker m;
  const ValueId a = m.input("a", {f32, {2, 5, 3}});
  const ValueId b = m.input("b", {f32, {2, 7, 5}});
  m.output("y", m.product(m.transpose(a, {0, 2, 1}), m.transpose(b, {0, 2, 1})));
  m.output("z", m.product(a, m.transpose(m.input("c", {f32, {3, 2, 4}}), {1, 0, 2})));  // another permutation stays
  const Graph out = canonical(m.done());
  EXPECT_EQ(kinds(out), "input input matmul output input transpose matmul output");
  EXPECT_TRUE(std::get<Matmul>(out.op(OpId(2)).attributes).transpose_a);
  EXPECT_TRUE(std::get<Matmul>(out.op(OpId(2)).attributes).transpose_b);
}

TEST(Canonicalize, CollapsesBatch) {
  Maker m;
  const ValueId x = m.input("x", {f32, {2, 3, 4, 5}});
  const ValueId w = m.input("w", {f32, {1, 7, 5}});
  const ValueId bias = m.input("bias", {f32, {1, 1, 7}});
  const ValueId rows = m.input("rows", {f32, {2, 3, 4, 1}});
  const ValueId y = m.product(x, w, {.transpose_b = true});
  m.output("y", m.apply(ExprOp::mul, m.apply(ExprOp::add, y, bias), rows));
  const Graph out = canonical(m.done());
  EXPECT_EQ(kinds(out),
            "input input input input reshape reshape matmul reshape pointwise reshape pointwise reshape output")
      << print(out);
  for (const Op& op : out.ops()) {
    if (std::holds_alternative<Matmul>(op.attributes)) {
      EXPECT_EQ(out.type(out.result(op)).shape, (Shape{24, 7}));
    }
  }
}

TEST(Canonicalize, TransposedBatchStays) {
  Maker m;
  const ValueId x = m.input("x", {f32, {2, 3, 5}});  // [batch, k, m]
  const ValueId w = m.input("w", {f32, {3, 7}});
  m.output("y", m.product(x, w, {.transpose_a = true}));
  EXPECT_EQ(kinds(canonical(m.done())), "input input matmul output");
}

TEST(Canonicalize, ReshapesSinkOnlyWhereOthersBroadcastAlike) {
  const Type others[] = {{f32, {}}, {f32, {4}}, {f32, {3, 1}}, {f32, {3, 4}}};
  for (const Type& other : others) {
    Maker m;
    const ValueId x = m.reshape(m.input("x", {f32, {12}}), {3, 4});
    m.output("y", m.apply(ExprOp::add, x, m.input("o", other)));
    const std::string out = kinds(canonical(m.done()));
    if (other.shape.rank() == 0) {
      EXPECT_EQ(out, "input input pointwise reshape output");
    } else if (other.shape.elements() == 12) {
      EXPECT_EQ(out, "input input reshape pointwise reshape output");
    } else {
      EXPECT_EQ(out, "input reshape input pointwise output");
    }
  }
}

TEST(Canonicalize, RepeatOfNothing) {
  Maker b;
  const ValueId h = b.input("h", {f32, {3}});
  b.output("h", b.apply(ExprOp::neg, h));
  b.output("c", h);
  const auto body = std::make_shared<const Graph>(b.done());
  Maker m;
  const ValueId x = m.input("x", {f32, {3}});
  const std::vector<ValueId> results = m.repeat({.count = 0, .carried = 1, .collected = 1, .body = body}, {&x, 1});
  m.output("y", results[0]);
  m.output("c", results[1]);
  EXPECT_EQ(kinds(canonical(m.done())), "input output output");
}

// Each level's rounds must not multiply those of the levels inside it: 2^30 rounds would not end.
TEST(Canonicalize, DeeplyNestedRepeatsDoNotTakeForever) {
  Maker innermost;
  innermost.output("h", innermost.apply(ExprOp::neg, innermost.input("h", {f32, {3}})));
  auto body = std::make_shared<const Graph>(innermost.done());
  for (int depth = 0; depth < 30; ++depth) {
    Maker m;
    const ValueId h = m.input("h", {f32, {3}});
    // Something for each level to remove.
    static_cast<void>(m.apply(ExprOp::exp, h));
    m.output("h", m.repeat({.count = 2, .carried = 1, .body = body}, {&h, 1})[0]);
    body = std::make_shared<const Graph>(m.done());
  }
  const Graph out = checked(canonicalize(*body));  // not canonical(): evaluating it takes 2^30 steps
  EXPECT_EQ(kinds(out), "input repeat output");
  const auto& inner = *std::get<Repeat>(out.ops()[1].attributes).body;
  EXPECT_EQ(kinds(inner), "input repeat output");  // the dead operation is gone in there, too
}

TEST(Canonicalize, RepeatKeepsWhatItNeeds) {
  Maker b;
  const ValueId h = b.input("h", {f32, {3}});
  const ValueId same = b.input("same", {f32, {3}});  // passed on: invariant
  const ValueId dead = b.input("dead", {f32, {3}});  // only feeds itself
  const ValueId half = b.input("half", {f32, {}});   // a scalar constant
  const ValueId w = b.input("w", {f32, {3}});
  const ValueId w2 = b.input("w2", {f32, {3}});        // the same operand as w
  const ValueId idle = b.input("idle", {f32, {3}});    // not read
  const ValueId each = b.input("each", {f32, {3}});    // iterated
  const ValueId equal = b.input("equal", {f32, {3}});  // iterated, but equal in each iteration
  static_cast<void>(idle);
  ValueId next = b.apply(ExprOp::mul, b.apply(ExprOp::add, h, w), half);
  next = b.apply(ExprOp::add, b.apply(ExprOp::add, next, b.apply(ExprOp::mul, w2, each)),
                 b.apply(ExprOp::mul, same, equal));
  b.output("h", next);
  b.output("same", same);
  b.output("dead", b.apply(ExprOp::neg, dead));
  b.output("trace", next);
  b.output("unused", b.apply(ExprOp::exp, next));
  b.output("each", each);
  const auto body = std::make_shared<const Graph>(b.done());

  Tensor equal_data(f32, {4, 3});
  for (int64_t i = 0; i < 12; ++i) equal_data.set_value(i, static_cast<double>(i % 3));
  Maker m;
  const ValueId x = m.input("x", {f32, {3}});
  const ValueId weights = m.input("w", {f32, {3}});
  const ValueId iterated = m.input("i", {f32, {4, 3}});
  const ValueId operands[] = {x, weights, x, m.number(0.5), weights, weights, x, iterated, m.constant(equal_data)};
  const std::vector<ValueId> results =
      m.repeat({.count = 4, .carried = 3, .invariant = 4, .iterated = 2, .collected = 3, .body = body}, operands);
  m.output("h", results[0]);
  m.output("same", results[1]);
  m.output("trace", results[3]);
  m.output("each", results[5]);
  const Graph out = canonical(m.done());
  EXPECT_EQ(kinds(out), "input input input repeat output output output output") << print(out);
  for (const Op& op : out.ops()) {
    const auto* repeat = std::get_if<Repeat>(&op.attributes);
    if (repeat == nullptr) continue;
    EXPECT_EQ(repeat->carried, 1u);
    EXPECT_EQ(repeat->invariant, 2u);  // weights (three times), equal
    EXPECT_EQ(repeat->iterated, 1u);
    EXPECT_EQ(repeat->collected, 1u);
  }
}

int64_t constant_bytes_of(const Graph& graph) {
  int64_t bytes = 0;
  for (const Op& op : graph.ops())
    if (const auto* constant = std::get_if<Constant>(&op.attributes))
      bytes += static_cast<int64_t>(constant->tensor->bytes().size());
  return bytes;
}

// A product of two constants of 4 MB takes 2^30 steps: far more than it takes to read them.
TEST(Canonicalize, DoesNotFoldWhatTakesLong) {
  for (const int64_t n : {64, 1024}) {
    Maker m;
    const ValueId operands[] = {m.constant(Tensor(f32, {n, n})), m.constant(Tensor(f32, {n, n}))};
    m.output("y", m.matmul({}, operands, f32));
    const Result<Graph> out = canonicalize(m.done());
    ASSERT_TRUE(out) << out.error().message;
    EXPECT_EQ(kinds(*out), n == 64 ? "output" : "matmul output");
  }
}

// 300 sums of one constant of 1 MB: some are folded, but not all of 300 MB.
TEST(Canonicalize, FoldsNoMoreThanAFewTimesWhatThereIs) {
  Maker m;
  const ValueId large = m.constant(Tensor(f32, {1 << 18}));
  for (int i = 0; i < 300; ++i) {
    ExprBuilder expr(1);
    const uint16_t sum = expr.binary(ExprOp::add, expr.input(0, f32), expr.constant(f32, i + 1));
    const ValueId operands[] = {large};
    m.output("y" + std::to_string(i), m.pointwise(std::move(expr).finish(sum), operands));
  }
  const Result<Graph> out = canonicalize(m.done());
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_GT(constant_bytes_of(*out), int64_t{8} << 20);
  EXPECT_LT(constant_bytes_of(*out), int64_t{80} << 20);
}

// What becomes of a quantization for products on GPUs of FNUZ formats: one rounding, of the same result for every number.
TEST(SimplifyExpr, HalfOfTheTwinFormatIsOneRounding) {
  for (const auto& [twin, fnuz] : {std::pair(DType::f8e4m3fn, DType::f8e4m3fnuz), {DType::f8e5m2, DType::f8e5m2fnuz}}) {
    for (const DType from : {f32, f16, DType::bf16}) {
      for (const bool constant_first : {true, false}) {
        ExprBuilder builder(1);
        const uint16_t rounded = builder.convert(builder.input(0, from), twin, Overflow::saturate);
        const uint16_t widened = builder.convert(rounded, f32), half = builder.constant(f32, 0.5);
        const uint16_t product =
            constant_first ? builder.binary(ExprOp::mul, half, widened) : builder.binary(ExprOp::mul, widened, half);
        const Expr expr = std::move(builder).finish(builder.convert(product, fnuz, Overflow::saturate));
        const Expr simple = simplify_expr(expr);
        for (const ExprNode& node : simple.nodes) EXPECT_NE(node.dtype, twin);
        // All numbers of two bytes; of f32 these with and without digits behind them.
        for (uint64_t i = 0; i < 65536; ++i) {
          for (const uint64_t low : {uint64_t{0}, uint64_t{1}, uint64_t{0x8000}, uint64_t{0xffff}}) {
            const uint64_t bits = from == f32 ? i << 16 | low : i;
            ASSERT_EQ(evaluate(simple, {&bits, 1}), evaluate(expr, {&bits, 1})) << std::hex << bits;
            if (from != f32) break;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace low::test
