#include "compiler/graph/graph.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/graph/fold.h"

namespace low {
namespace {

constexpr DType f32 = DType::f32;
constexpr DType f8 = DType::f8e4m3fn;

Tensor tensor(DType dtype, const Shape& shape, std::initializer_list<double> values) {
  Tensor out(dtype, shape);
  int64_t i = 0;
  for (const double value : values) out.set_value(i++, value);
  return out;
}

Expr identity(DType type) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.input(0, type));
}

Expr sum(int inputs, DType type) {
  ExprBuilder builder(inputs);
  uint16_t total = builder.input(0, type);
  for (int i = 1; i < inputs; ++i) total = builder.binary(ExprOp::add, total, builder.input(i, type));
  return std::move(builder).finish(total);
}

// One of each kind of operation, two nested regions, odd names.
Graph sample() {
  GraphBuilder inner;
  const ValueId h = inner.input("h", {f32, {2, 3}});
  const ValueId w = inner.input("w", {f8, {3, 3}});
  const ValueId s = inner.input("s", {f32, {}});
  const ValueId extra[] = {h, w, s};
  ExprBuilder epilogue(2);
  Matmul attributes;
  attributes.transpose_b = true;
  attributes.epilogue =
      std::move(epilogue).finish(epilogue.binary(ExprOp::mul, epilogue.input(0, f32), epilogue.input(1, f32)));
  const ValueId next = inner.matmul(attributes, extra, f32, "mm \"quoted\" \\ \n\x7f é");
  inner.output("next", next);
  inner.output("row", inner.slice(next, {1, 2}, {1, -2}, {1, 2}));

  GraphBuilder builder;
  const ValueId x = builder.input("x", {f32, {2, 3}});
  const ValueId weights = builder.constant(tensor(f8, {2, 3, 3}, {1, 2, -3}), "W");
  const ValueId scales = builder.constant(tensor(f32, {2}, {0.1, 1e-30}));
  const ValueId many = builder.constant(tensor(DType::i64, {17}, {5, -7}), "");
  const ValueId operands[] = {x, weights, scales};
  Repeat repeat{.count = 2,
                .carried = 1,
                .iterated = 2,
                .collected = 1,
                .body = std::make_shared<const Graph>(*std::move(inner).finish())};
  const std::vector<ValueId> results = builder.repeat(repeat, operands, "loop");
  const ValueId t = builder.transpose(builder.reshape(results[1], {2, 2}), {1, 0});
  const ValueId e = builder.expand(t, {3, 2, 2});
  const ValueId scale = builder.constant(tensor(f32, {3}, {1, 2, 4}));
  const ValueId q[] = {e, scale};
  const ValueId quantized = builder.quantize({.axis = 0, .overflow = Overflow::propagate}, q, DType::f8e5m2);
  const ValueId d[] = {quantized, scale};
  const ValueId back = builder.dequantize({.axis = 0}, d, DType::f16);
  builder.output("y", builder.cast(back, f8, Overflow::saturate));
  const ValueId sums[] = {results[0], x};
  builder.output("z", builder.pointwise(sum(2, f32), sums));
  builder.output("many", many);
  Result<Graph> graph = std::move(builder).finish();
  EXPECT_TRUE(graph) << graph.error().message;
  return *graph;
}

TEST(Graph, TextRoundTrip) {
  const Graph graph = sample();
  const std::string text = print(graph);
  const Result<Graph> parsed = parse_graph(text, constants_by_hash(graph));
  ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
  EXPECT_EQ(*parsed, graph) << text;
  EXPECT_EQ(print(*parsed), text);
  EXPECT_EQ(digest(*parsed), digest(graph));
  EXPECT_EQ(digest(graph).size(), 64u);
  EXPECT_NE(text.find("%2 = constant : f32[2] {data=[0.1,1e-30]}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("slice %3 : f32[1,2] {start=[1,2] step=[1,-2]}\n"), std::string::npos) << text;
  // Without the tensors, the two constants of more than 16 elements cannot be had.
  EXPECT_FALSE(parse_graph(text, {}));
  EXPECT_EQ(constants_by_hash(graph).size(), 2u);
}

TEST(Graph, DigestSeesEveryDifference) {
  const auto make = [](std::string name, double value, int64_t n) {
    GraphBuilder builder;
    const ValueId x = builder.input(std::move(name), {f32, {n}});
    const ValueId operands[] = {x, builder.constant(tensor(f32, {}, {value}))};
    builder.output("y", builder.pointwise(sum(2, f32), operands));
    return digest(*std::move(builder).finish());
  };
  EXPECT_EQ(make("x", 1, 2), make("x", 1, 2));
  EXPECT_NE(make("x", 1, 2), make("z", 1, 2));
  EXPECT_NE(make("x", 1, 2), make("x", 2, 2));
  EXPECT_NE(make("x", 1, 2), make("x", 1, 3));
}

TEST(Graph, ConstantHashSeesTypeShapeAndBytes) {
  const Tensor a = tensor(DType::i8, {2, 3}, {1, 2, 3});
  EXPECT_EQ(constant_hash(a), constant_hash(tensor(DType::i8, {2, 3}, {1, 2, 3})));
  EXPECT_NE(constant_hash(a), constant_hash(tensor(DType::i8, {3, 2}, {1, 2, 3})));
  EXPECT_NE(constant_hash(a), constant_hash(tensor(DType::u8, {2, 3}, {1, 2, 3})));
  EXPECT_NE(constant_hash(a), constant_hash(tensor(DType::i8, {2, 3}, {1, 2, 4})));
}

TEST(Graph, GarbageIsRefusedWithALine) {
  struct Case {
    std::string_view text, part;
  };
  const Case cases[] = {
      {"", "line 1"},
      {"low-graph 3\n", "line 1"},
      {"low-graph 2\n%0 = input\n", "line 2"},
      {"low-graph 2\n%1 = input : f32[]\n", "numbered"},
      {"low-graph 2\n%0 = input : f99[]\n", "dtype"},
      {"low-graph 2\n%0 = input : f32[-1]\n", "illegal shape"},
      {"low-graph 2\n%0 = input : f32[9999999999,9999999999]\n", "illegal shape"},
      {"low-graph 2\n%0 = input : f32[1,1,1,1,1,1,1,1,1]\n", "illegal shape"},
      {"low-graph 2\n%0 = input : f32[2] {x}\n", "unexpected attribute"},
      {"low-graph 2\n%0 = input : f32[2] \"a\" b\n", "end of the line"},
      {"low-graph 2\n%0 = input : f32[2] \"a\n", "unterminated"},
      {"low-graph 2\n%0 = input : f32[2] \"a\\q\"\n", "escape"},
      {"low-graph 2\noutput %0\n", "unknown value"},
      {"low-graph 2\n%0 = constant : f32[2] {data=[1]}\n", "1 elements"},
      {"low-graph 2\n%0 = constant : f32[1] {data=[x]}\n", "bad element"},
      {"low-graph 2\n%0 = constant : f32[1]\n", "0 elements"},
      {"low-graph 2\n%0 = constant : f32[1] {sha256=00}\n", "not given"},
      {"low-graph 2\n%0 = constant : f32[68719476736] {data=[1]}\n", "1 elements"},
      {"low-graph 2\n%0 = input : f32[2]\n%1 = cast %0 : f32[3]\n", "operation 1 (cast)"},
      {"low-graph 2\n%0 = magic : f32[2]\n", "unknown operation"},
      {"low-graph 2\n%0 = input : f32[2]\n%1 = pointwise %0 : f32[2] {expr=\"t0 = x\"}\n", "line 3"},
      {"low-graph 2\n%0 = repeat : f32[2] {count=1 carried=0 invariant=0 iterated=0 collected=0} {\n",
       "without its end"},
      {"low-graph 2\n%0 = repeat : f32[2] {count=-1 carried=0 invariant=0 iterated=0 collected=0} {\n}\n", "count"},
      {"low-graph 2\n}\n", "unexpected '}'"},
  };
  for (const Case& c : cases) {
    const Result<Graph> parsed = parse_graph(c.text, {});
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
    EXPECT_NE(parsed.error().message.find(c.part), std::string::npos) << c.text << "\n" << parsed.error().message;
  }
  std::string deep = "low-graph 2\n";
  for (int i = 0; i < 100000; ++i) deep += "repeat {count=1 carried=0 invariant=0 iterated=0 collected=0} {\n";
  const Result<Graph> parsed = parse_graph(deep, {});
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("nested"), std::string::npos);
}

TEST(Graph, MutatedTextNeverCrashes) {
  const unsigned seed = 99;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Graph graph = sample();
  const std::string text = print(graph);
  const ConstantsByHash constants = constants_by_hash(graph);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = text;
    const size_t position = random() % changed.size();
    switch (random() % 4) {
      case 0:
        changed[position] = static_cast<char>(random() % 256);
        break;
      case 1:
        changed.erase(position, 1 + random() % 8);
        break;
      case 2:
        changed.insert(position, changed.substr(random() % changed.size(), random() % 12));
        break;
      default:
        changed.resize(position);
    }
    const Result<Graph> parsed = parse_graph(changed, constants);
    if (!parsed) {
      EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
      continue;
    }
    ++accepted;
    const Result<Graph> again = parse_graph(print(*parsed), constants);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *parsed);
  }
  EXPECT_LT(accepted, 2500);
}

// Builds one operation over given operand types and expects verify to complain with `part`.
void refuses(Attributes attributes, std::initializer_list<Type> operands, std::initializer_list<Type> results,
             std::string_view part) {
  GraphBuilder builder;
  std::vector<ValueId> values;
  for (const Type& type : operands) values.push_back(builder.input("i", type));
  builder.add(std::move(attributes), values, std::vector<Type>(results));
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_FALSE(graph) << part;
  EXPECT_EQ(graph.error().kind, ErrorKind::internal);
  EXPECT_NE(graph.error().message.find(part), std::string::npos) << graph.error().message;
}

TEST(Graph, VerifyRefuses) {
  const Type v{f32, {4}};
  const Type m{f32, {2, 3}};
  refuses(Input{}, {v}, {v}, "1 operands; 0 are needed");
  refuses(Output{}, {}, {}, "0 operands");
  refuses(Constant{}, {}, {v}, "no tensor");
  refuses(Constant{std::make_shared<const Tensor>(f32, Shape{3})}, {}, {v}, "f32[3] was expected");
  refuses(Input{}, {}, {{f32, {-1}}}, "illegal shape");
  refuses(Pointwise{sum(2, f32)}, {v, {f32, {3}}}, {v}, "does not broadcast");
  refuses(Pointwise{sum(2, f32)}, {v, v}, {{f32, {1}}}, "does not broadcast");
  refuses(Pointwise{sum(2, f32)}, {v}, {v}, "has 2 inputs; 1 are given");
  refuses(Pointwise{sum(2, f32)}, {v, {DType::f16, {4}}}, {v}, "reads input 1 as f32; it is f16");
  refuses(Pointwise{identity(f32)}, {v}, {{DType::f16, {4}}}, "gives f32; f16 is needed");
  refuses(Pointwise{}, {v}, {v}, "without nodes");
  refuses(Matmul{}, {m, m}, {m}, "do not multiply");
  refuses(Matmul{}, {m, v}, {m}, "rank of at least 2");
  refuses(Matmul{.transpose_b = true}, {m, m}, {m}, "f32[2,2] was expected");
  refuses(Matmul{}, {{f32, {2, 2, 3}}, {f32, {3, 3, 4}}}, {{f32, {2, 2, 4}}}, "do not multiply");
  refuses(Matmul{.accumulate = DType::f16}, {m, {f32, {3, 1}}}, {{f32, {2, 1}}}, "accumulated in f16");
  refuses(Matmul{}, {{DType::i8, {2, 3}}, {DType::i8, {3, 1}}}, {{f32, {2, 1}}}, "accumulated in f32");
  refuses(Matmul{}, {{DType::boolean, {2, 3}}, {f32, {3, 1}}}, {{f32, {2, 1}}}, "bool");
  refuses(Matmul{}, {m, {f32, {3, 1}}, v}, {{f32, {2, 1}}}, "3 operands");
  refuses(Matmul{.epilogue = sum(2, f32)}, {m, {f32, {3, 1}}, v}, {{f32, {2, 1}}}, "does not broadcast");
  refuses(Matmul{.epilogue = sum(2, f32)}, {m, {f32, {3, 1}}}, {{f32, {2, 1}}}, "2 inputs; 1 are given");
  refuses(Matmul{.epilogue = identity(DType::f16)}, {m, {f32, {3, 1}}}, {{DType::f16, {2, 1}}}, "reads input 0 as f16");
  refuses(Reshape{}, {m}, {{f32, {5}}}, "cannot become");
  refuses(Transpose{{0, 0}}, {m}, {m}, "not a permutation");
  refuses(Transpose{{0, 2}}, {m}, {m}, "not a permutation");
  refuses(Transpose{{0}}, {m}, {m}, "permutation [0]");
  refuses(Transpose{{1, 0}}, {m}, {m}, "f32[3,2] was expected");
  refuses(Slice{{0}, {0}}, {v}, {v}, "step 0");
  refuses(Slice{{1}, {1}}, {v}, {v}, "leave the extent");
  refuses(Slice{{3}, {-2}}, {v}, {{f32, {3}}}, "leave the extent");
  refuses(Slice{{0}, {INT64_MAX}}, {v}, {{f32, {4}}}, "leave the extent");
  refuses(Slice{{-1}, {1}}, {v}, {{f32, {1}}}, "leave the extent");
  refuses(Slice{{0, 0}, {1, 1}}, {v}, {v}, "start [0,0]");
  refuses(Expand{}, {m}, {v}, "does not broadcast");
  refuses(Expand{}, {v}, {{DType::f16, {2, 4}}}, "was expected");
  refuses(Quantize{}, {m, v}, {{f8, {2, 3}}}, "operand 1 has the shape [4]; [] was expected");
  refuses(Quantize{.axis = 1}, {m, {f32, {2}}}, {{f8, {2, 3}}}, "[3] was expected");
  refuses(Quantize{.axis = 2}, {m, {f32, {2}}}, {{f8, {2, 3}}}, "axis 2");
  refuses(Quantize{}, {m, {f32, {}}}, {{f32, {2, 3}}}, "to f32");
  refuses(Quantize{}, {m, {f8, {}}}, {{f8, {2, 3}}}, "scale of dtype");
  refuses(Quantize{}, {m, {f32, {}}, {DType::i8, {}}}, {{f8, {2, 3}}}, "zero point of dtype i8");
  refuses(Dequantize{}, {m, {f32, {}}}, {m}, "of f32");
  refuses(Dequantize{}, {{f8, {2}}, {f32, {}}}, {{DType::i8, {2}}}, "to i8");
  refuses(Cast{}, {m}, {v}, "was expected");
}

TEST(Graph, VerifyRefusesLaterOperands) {
  GraphBuilder builder;
  const Type v{f32, {4}};
  const ValueId later[] = {ValueId(1)};
  builder.add(Cast{}, later, {&v, 1});
  builder.input("x", v);
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message.find("not the result of an earlier"), std::string::npos);
}

TEST(Graph, VerifyRefusesRepeats) {
  const Type v{f32, {4}};
  const Type stacked{f32, {3, 4}};
  const auto body = [](std::initializer_list<Type> inputs, size_t outputs) {
    GraphBuilder builder;
    std::vector<ValueId> values;
    for (const Type& type : inputs) values.push_back(builder.input("i", type));
    for (size_t i = 0; i < outputs; ++i) builder.output("o", values[i]);
    return std::make_shared<const Graph>(*std::move(builder).finish());
  };
  const auto two = body({v, v}, 2);
  refuses(Repeat{.count = 3}, {}, {}, "no body");
  refuses(Repeat{.count = -1, .body = two}, {}, {}, "count -1");
  refuses(Repeat{.count = 3, .carried = 1, .iterated = 1, .collected = 1, .body = two}, {v}, {v, stacked},
          "1 operands");
  refuses(Repeat{.count = 3, .carried = 1, .iterated = 1, .collected = 1, .body = two}, {v, stacked}, {v}, "1 results");
  refuses(Repeat{.count = 3, .carried = 1, .iterated = 1, .collected = 1, .body = two}, {v, v}, {v, stacked},
          "operand 1");
  refuses(Repeat{.count = 2, .carried = 1, .iterated = 1, .collected = 1, .body = two}, {v, stacked}, {v, stacked},
          "operand 1");
  refuses(Repeat{.count = 3, .carried = 1, .iterated = 1, .collected = 1, .body = two}, {v, stacked}, {v, v},
          "result 1");
  refuses(Repeat{.count = 3, .carried = 1, .iterated = 1, .body = two}, {v, stacked}, {v}, "a body of 2 inputs");
  const auto swap = body({v, {f32, {5}}}, 1);
  refuses(Repeat{.count = 3, .carried = 1, .invariant = 1, .body = swap}, {{f32, {5}}, v}, {v}, "operand 0");
}

TEST(Graph, ZeroSizesAreLegal) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {f32, {0, 3}});
  const ValueId w = builder.input("w", {f32, {3, 0}});
  const ValueId a[] = {w, x};
  const ValueId b[] = {x, w};
  builder.output("zeros", builder.matmul({}, a, f32));  // k = 0
  builder.output("none", builder.matmul({}, b, f32));   // m = n = 0
  builder.output("r", builder.reshape(x, {7, 0}));
  builder.output("s", builder.slice(w, {2, 0}, {-1, 1}, {2, 0}));
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const Tensor left(f32, {3, 0});
  const Tensor right(f32, {0, 3});
  const Tensor* operands[] = {&left, &right};
  const Result<std::vector<Tensor>> zeros = fold(*graph, graph->op(OpId(2)), operands);
  ASSERT_TRUE(zeros);
  EXPECT_EQ((*zeros)[0], Tensor(f32, {3, 3}));
}

Tensor fold_one(const GraphBuilder& builder, ValueId value, std::initializer_list<Tensor> operands) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& operand : operands) pointers.push_back(&operand);
  const Graph& graph = builder.peek();
  Result<std::vector<Tensor>> result = fold(graph, graph.op(graph.value(value).producer), pointers);
  EXPECT_TRUE(result);
  return (*result)[0];
}

TEST(Fold, Movement) {
  GraphBuilder b;
  const Tensor data = tensor(f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const ValueId x = b.constant(data);
  EXPECT_EQ(fold_one(b, b.transpose(x, {1, 0}), {data}), tensor(f32, {3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(fold_one(b, b.reshape(x, {3, 2}), {data}), tensor(f32, {3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(fold_one(b, b.slice(x, {1, 2}, {1, -2}, {1, 2}), {data}), tensor(f32, {1, 2}, {6, 4}));
  const Tensor row = tensor(f32, {1, 3}, {1, 2, 3});
  EXPECT_EQ(fold_one(b, b.expand(b.constant(row), {2, 2, 3}), {row}),
            tensor(f32, {2, 2, 3}, {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
}

TEST(Fold, MatmulAgainstHandArithmetic) {
  GraphBuilder b;
  const Tensor left = tensor(f32, {2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor right = tensor(f8, {2, 3}, {1, 0, 2, -1, 1, 0.5});  // stored [n, k]
  const Tensor bias = tensor(f32, {2}, {10, 20});
  const ValueId operands[] = {b.constant(left), b.constant(right), b.constant(bias)};
  Matmul attributes{.transpose_b = true, .epilogue = sum(2, f32)};
  // [1 2 3] . [1 0 2] = 7; . [-1 1 .5] = 2.5; [4 5 6]: 16 and 4
  EXPECT_EQ(fold_one(b, b.matmul(attributes, operands, f32), {left, right, bias}),
            tensor(f32, {2, 1, 2}, {17, 22.5, 26, 24}));
  const Tensor ints = tensor(DType::i8, {3, 1}, {-128, -128, 2});  // a transposed: [1, 3]
  const ValueId both[] = {b.constant(ints), b.constant(ints)};
  Matmul exact{.accumulate = DType::i32, .transpose_a = true};
  EXPECT_EQ(fold_one(b, b.matmul(exact, both, f32), {ints, ints}), tensor(f32, {1, 1}, {32772}));  // 2 * 16384 + 4
}

TEST(Fold, QuantizeAlongAnAxis) {
  GraphBuilder b;
  const Tensor x = tensor(f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor scale = tensor(f32, {3}, {1, 2, 4});
  const ValueId q[] = {b.constant(x), b.constant(scale)};
  // 3 / 4 = 0.75 -> 1; 5 / 2 = 2.5 -> 2; 6 / 4 = 1.5 -> 2
  const Tensor quantized = tensor(DType::i8, {2, 3}, {1, 1, 1, 4, 2, 2});
  const ValueId value = b.quantize({.axis = 1}, q, DType::i8);
  EXPECT_EQ(fold_one(b, value, {x, scale}), quantized);
  const ValueId d[] = {value, q[1]};
  EXPECT_EQ(fold_one(b, b.dequantize({.axis = 1}, d, f32), {quantized, scale}),
            tensor(f32, {2, 3}, {1, 2, 4, 4, 4, 8}));
}

}  // namespace
}  // namespace low
