// Concat, pad, gather, reduce, cumulative and rowwise: text, verification and folding.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/graph/fold.h"
#include "compiler/graph/graph.h"

namespace low {
namespace {

constexpr DType f32 = DType::f32;
constexpr DType i64 = DType::i64;

Tensor tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor out(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (is_float(dtype)) {
      out.set_bits(index, encode(dtype, values[i], Overflow::propagate));
    } else {
      out.set_value(index, values[i]);
    }
  }
  return out;
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> out;
  for (int64_t i = 0; i < tensor.elements(); ++i) out.push_back(tensor.value(i));
  return out;
}

Expr unary(ExprOp op, DType type = f32) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.unary(op, builder.input(0, type)));
}
Expr binary(ExprOp op, DType type = f32) {
  ExprBuilder builder(2);
  const uint16_t a = builder.input(0, type);
  return std::move(builder).finish(builder.binary(op, a, builder.input(1, type)));
}

// The one result of an operation on constants.
Tensor folded(const Attributes& attributes, const std::vector<Tensor>& operands, const Type& result) {
  GraphBuilder builder;
  std::vector<ValueId> ids;
  std::vector<const Tensor*> pointers;
  for (const Tensor& operand : operands) {
    ids.push_back(builder.input("x", {operand.dtype(), operand.shape()}));
    pointers.push_back(&operand);
  }
  const OpId op = builder.add(attributes, ids, {&result, 1});
  const Result<void> verified = verify(builder.peek());
  EXPECT_TRUE(verified) << verified.error().message;
  if (!verified) return Tensor();
  const Result<std::vector<Tensor>> results = fold(builder.peek(), builder.peek().op(op), pointers);
  EXPECT_TRUE(results);
  return results ? (*results)[0] : Tensor();
}

using Values = std::vector<double>;

TEST(Families, TextRoundTrip) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {f32, {2, 3}});
  const ValueId fill = builder.constant(tensor(f32, {}, {-INFINITY}));
  const ValueId indices = builder.input("i", {i64, {2, 1}});
  const ValueId pair[] = {x, x};
  const ValueId joined = builder.concat(pair, 1);
  const ValueId padded_operands[] = {joined, fill};
  builder.output("pad", builder.pad({.mode = Pad::Mode::constant, .before = {1, 0}}, padded_operands, {0, 2}));
  builder.output("edge", builder.pad({.mode = Pad::Mode::reflect, .before = {0, 4}}, {&x, 1}, {0, 0}));
  builder.output("axis", builder.gather({.axis = 1}, x, indices));
  builder.output("elements", builder.gather({.mode = Gather::Mode::elements, .axis = 1}, x, indices));
  builder.output("nd", builder.gather({.mode = Gather::Mode::nd, .batch_axes = 1}, x, indices));
  builder.output(
      "sum", builder.reduce({.axes = {0, 1}, .map = unary(ExprOp::exp), .epilogue = unary(ExprOp::log)}, {&x, 1}, f32));
  builder.output("place", builder.reduce({.kind = Reduce::Kind::index_min, .axes = {1}, .last = true}, {&x, 1}, i64));
  builder.output("running", builder.cumulative({.axis = 1, .exclusive = true, .reverse = true}, x));
  builder.output("places", builder.add_one(TopK{.axis = 1, .k = 2, .smallest = true}, {{x}}, {i64, {2, 2}}));
  const ValueId list = builder.reshape(indices, {2});
  const ValueId scatter_operands[] = {x, list, x};
  builder.output("scattered", builder.add_one(Scatter{Scatter::Kind::max}, scatter_operands, {f32, {2, 3}}));
  builder.output("soft", builder.rowwise({.axes = {1}}, {&x, 1}, f32));
  builder.output(
      "norm",
      builder.rowwise(
          {.kind = Rowwise::Kind::layer_norm, .axes = {0, 1}, .epsilon = 1e-5F, .epilogue = binary(ExprOp::mul)}, pair,
          f32));
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::string text = print(*graph);
  const Result<Graph> parsed = parse_graph(text, {});
  ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
  EXPECT_EQ(*parsed, *graph) << text;
  EXPECT_EQ(print(*parsed), text);
  for (const std::string_view line :
       {"= concat %0 %0 : f32[2,6] {axis=1}\n", " : f32[3,8] {mode=constant before=[1,0]}\n",
        " : f32[2,7] {mode=reflect before=[0,4]}\n", " : f32[2,2,1] {mode=axis axis=1}\n",
        " : f32[2] {mode=nd batch_axes=1}\n", "{kind=index_min axes=[1] last}\n", "{axis=1 exclusive reverse}\n",
        "i64[2,2] {axis=1 k=2 smallest}\n", "f32[2,3] {kind=max}\n", "{kind=softmax axes=[1]}\n",
        "{kind=layer_norm axes=[0,1] epsilon=9.999999747378752e-06 epilogue=\""}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(Families, ParserRefuses) {
  const std::string head = "low-graph 2\n%0 = input : f32[2,3]\n";
  for (const std::string_view line :
       {"%1 = concat %0 : f32[2,3] {axis=9}", "%1 = pad %0 : f32[2,3] {mode=mirror before=[0,0]}",
        "%1 = reduce %0 : f32[2,1] {kind=sum axes=[1] accumulate}",
        "%1 = reduce %0 : f32[2,1] {kind=mean axes=[1] accumulate=f32}",
        "%1 = rowwise %0 : f32[2,3] {kind=layer_norm axes=[1] epsilon=x}",
        "%1 = rowwise %0 : f32[2,3] {kind=layer_norm axes=[1] epsilon=nan:0x7ff8000000000000}",
        "%1 = cumulative %0 : f32[2,3] {axis=0 axis2=1}",
        "%1 = gather %0 %0 : f32[2,3] {mode=axis axis=0 batch_axes=0}"}) {
    const Result<Graph> parsed = parse_graph(head + std::string(line) + "\n", {});
    ASSERT_FALSE(parsed) << line;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid) << line;
  }
}

void refuses(Attributes attributes, const std::vector<Type>& operands, const Type& result, std::string_view part) {
  GraphBuilder builder;
  std::vector<ValueId> ids;
  for (const Type& operand : operands) ids.push_back(builder.input("x", operand));
  builder.add(std::move(attributes), ids, {&result, 1});
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_FALSE(graph) << part;
  EXPECT_NE(graph.error().message.find(part), std::string::npos) << graph.error().message;
}

TEST(Families, VerifyRefuses) {
  const Type m{f32, {2, 3}};
  const Type scalar{f32, {}};
  const Type indices{i64, {4}};
  refuses(Concat{0}, {}, m, "0 operands");
  refuses(Concat{2}, {m}, m, "do not join");
  refuses(Concat{0}, {m, {f32, {2, 4}}}, {f32, {4, 3}}, "do not join");
  refuses(Concat{0}, {m, {DType::f16, {2, 3}}}, {f32, {4, 3}}, "operand 1 is f16");
  refuses(Concat{0}, {m, m}, {f32, {5, 3}}, "f32[4,3] was expected");
  refuses(Pad{.before = {0, 0}}, {m}, m, "1 operands; 2 are needed");
  refuses(Pad{.before = {0, 0}}, {m, {f32, {1}}}, m, "a fill of type f32[1]");
  refuses(Pad{.before = {0}}, {m, scalar}, m, "[0] before");
  refuses(Pad{.before = {-1, 0}}, {m, scalar}, m, "-1 elements before");
  refuses(Pad{.before = {1, 0}}, {m, scalar}, m, "1 elements before 2 of 2");
  refuses(Pad{.before = {INT64_MAX, 0}}, {m, scalar}, m, "before 2 of 2");
  refuses(Pad{.mode = Pad::Mode::edge, .before = {1}}, {{f32, {0}}}, {f32, {2}}, "axis 0 is empty");
  refuses(Gather{.axis = 2}, {m, indices}, m, "do not fit");
  refuses(Gather{}, {m, {f32, {4}}}, {f32, {4, 3}}, "indices of type f32");
  refuses(Gather{}, {m, indices}, {f32, {4, 2}}, "f32[4,3] was expected");
  refuses(Gather{}, {{f32, {0, 3}}, indices}, {f32, {4, 3}}, "do not fit");
  refuses(Gather{.mode = Gather::Mode::elements}, {m, {i64, {2, 4}}}, {f32, {2, 4}}, "do not fit");
  refuses(Gather{.mode = Gather::Mode::nd}, {m, {i64, {4, 3}}}, {f32, {4}}, "do not fit");
  refuses(Gather{.mode = Gather::Mode::nd, .batch_axes = 1}, {m, {i64, {3, 1}}}, {f32, {3}}, "do not fit");
  refuses(Gather{.batch_axes = 1}, {m, indices}, {f32, {4, 3}}, "bad mode");
  refuses(Reduce{.axes = {1, 0}}, {m}, {f32, {1, 1}}, "axes [1,0]");
  refuses(Reduce{.axes = {0, 0}}, {m}, {f32, {1, 3}}, "axes [0,0]");
  refuses(Reduce{.axes = {2}}, {m}, m, "axes [2]");
  refuses(Reduce{.axes = {1}}, {m}, {f32, {2}}, "f32[2,1] was expected");
  refuses(Reduce{.axes = {1}, .accumulate = DType::f16}, {m}, {f32, {2, 1}}, "accumulated in f16");
  refuses(Reduce{.axes = {1}, .last = true}, {m}, {f32, {2, 1}}, "last");
  refuses(Reduce{.axes = {1}, .map = unary(ExprOp::abs, DType::f16)}, {m}, {f32, {2, 1}}, "map: ");
  refuses(Reduce{.axes = {1}, .accumulate = DType::f64, .map = unary(ExprOp::abs)}, {m}, {f32, {2, 1}}, "map: ");
  refuses(Reduce{.axes = {1}}, {m, m}, {f32, {2, 1}}, "2 operands");
  refuses(Reduce{.axes = {1}, .epilogue = binary(ExprOp::add)}, {m, m}, {f32, {2, 1}}, "does not broadcast");
  refuses(Reduce{.axes = {1}}, {{DType::boolean, {2, 3}}}, {f32, {2, 1}}, "of bool");
  refuses(Reduce{.kind = Reduce::Kind::index_max, .axes = {0, 1}}, {m}, {i64, {1, 1}}, "along 2 axes");
  refuses(Reduce{.kind = Reduce::Kind::index_max, .axes = {1}}, {{f32, {2, 0}}}, {i64, {2, 1}}, "of no elements");
  refuses(Cumulative{2}, {m}, m, "axis 2");
  refuses(Cumulative{0}, {m}, {DType::f64, {2, 3}}, "was expected");
  refuses(Cumulative{0}, {{DType::boolean, {2}}}, {DType::boolean, {2}}, "of bool");
  refuses(TopK{2}, {m}, m, "axis 2");
  refuses(TopK{.axis = 1, .k = 4}, {m}, {i64, {2, 4}}, "4 of 3 elements");
  refuses(TopK{.axis = 1, .k = -1}, {m}, {i64, {2, 0}}, "-1 of 3 elements");
  refuses(TopK{.axis = 1, .k = 2}, {m}, {f32, {2, 2}}, "i64[2,2] was expected");
  refuses(TopK{}, {{DType::boolean, {2}}}, {i64, {1}}, "of bool");
  refuses(Scatter{}, {{f32, {2}}, indices, m}, {f32, {2}}, "expected a matrix");
  refuses(Scatter{}, {m, {f32, {4}}, {f32, {4, 3}}}, m, "expected a list of i32 or i64");
  refuses(Scatter{}, {m, indices, {f32, {4, 2}}}, m, "expected f32[4,3]");
  refuses(Scatter{}, {m, indices, {f32, {4, 3}}}, {f32, {2, 4}}, "f32[2,3] was expected");
  refuses(Scatter{Scatter::Kind::add}, {{DType::boolean, {2, 3}}, indices, {DType::boolean, {4, 3}}},
          {DType::boolean, {2, 3}}, "add of booleans");
  refuses(Scatter{static_cast<Scatter::Kind>(9)}, {m, indices, {f32, {4, 3}}}, m, "bad kind");
  refuses(Rowwise{}, {m}, m, "axes []");
  refuses(Rowwise{.axes = {1}}, {{DType::i32, {2, 3}}}, m, "of i32");
  refuses(Rowwise{.axes = {1}, .epsilon = 1}, {m}, m, "epsilon");
  refuses(Rowwise{.kind = Rowwise::Kind::rms_norm, .axes = {1}, .epsilon = -1}, {m}, m, "epsilon");
  refuses(Rowwise{.kind = Rowwise::Kind::rms_norm, .axes = {1}, .epsilon = NAN}, {m}, m, "epsilon");
  refuses(Rowwise{.axes = {1}}, {m}, {DType::i8, {2, 3}}, "to i8");
  refuses(Rowwise{.axes = {1}}, {m, m}, m, "2 operands");
}

TEST(FoldFamilies, Movement) {
  const Tensor a = tensor(f32, {2, 2}, {1, 2, 3, 4});
  const Tensor b = tensor(f32, {2, 1}, {5, 6});
  EXPECT_EQ(values(folded(Concat{1}, {a, b, a}, {f32, {2, 5}})), (Values{1, 2, 5, 1, 2, 3, 4, 6, 3, 4}));
  EXPECT_EQ(values(folded(Concat{0}, {a, tensor(f32, {0, 2}, {})}, {f32, {2, 2}})), (Values{1, 2, 3, 4}));
  const Tensor row = tensor(f32, {3}, {1, 2, 3});
  const Tensor fill = tensor(f32, {}, {9});
  const auto pad = [&](Pad::Mode mode, int64_t before, int64_t extent) {
    std::vector<Tensor> operands = {row};
    if (mode == Pad::Mode::constant) operands.push_back(fill);
    return values(folded(Pad{mode, {before}}, operands, {f32, {extent}}));
  };
  EXPECT_EQ(pad(Pad::Mode::constant, 2, 6), (Values{9, 9, 1, 2, 3, 9}));
  EXPECT_EQ(pad(Pad::Mode::edge, 2, 6), (Values{1, 1, 1, 2, 3, 3}));
  // … 3 2 1 2 3 2 1 …: also farther than the extent.
  EXPECT_EQ(pad(Pad::Mode::reflect, 5, 10), (Values{2, 1, 2, 3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(pad(Pad::Mode::wrap, 4, 9), (Values{3, 1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(values(folded(Pad{Pad::Mode::reflect, {2}}, {tensor(f32, {1}, {7})}, {f32, {4}})), (Values{7, 7, 7, 7}));
}

TEST(FoldFamilies, Gather) {
  const Tensor data = tensor(f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  // Columns 2, -3 = 0 and, clamped, 2; 0.
  const Tensor columns = tensor(i64, {2, 2}, {2, -3, 99, -99});
  EXPECT_EQ(values(folded(Gather{.axis = 1}, {data, columns}, {f32, {2, 2, 2}})), (Values{3, 1, 3, 1, 6, 4, 6, 4}));
  EXPECT_EQ(values(folded(Gather{}, {data, tensor(DType::i32, {}, {1})}, {f32, {3}})), (Values{4, 5, 6}));
  // Element (0, j) is data[index][j].
  EXPECT_EQ(values(folded(Gather{.mode = Gather::Mode::elements}, {data, tensor(i64, {1, 2}, {1, 0})}, {f32, {1, 2}})),
            (Values{4, 2}));
  EXPECT_EQ(values(folded(Gather{.mode = Gather::Mode::nd}, {data, tensor(i64, {2, 2}, {0, 1, -1, -1})}, {f32, {2}})),
            (Values{2, 6}));
  EXPECT_EQ(values(folded(Gather{.mode = Gather::Mode::nd}, {data, tensor(i64, {1, 1}, {1})}, {f32, {1, 3}})),
            (Values{4, 5, 6}));
  EXPECT_EQ(values(folded(Gather{.mode = Gather::Mode::nd, .batch_axes = 1}, {data, tensor(i64, {2, 1}, {2, 0})},
                          {f32, {2}})),
            (Values{3, 4}));
}

TEST(FoldFamilies, Scatter) {
  const Tensor data = tensor(f32, {3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor updates = tensor(f32, {4, 2}, {10, -10, 20, -20, 30, -30, 40, -40});
  // Row 2 twice, one that is not there, row 0; no row is counted from the end.
  const Tensor rows = tensor(i64, {4}, {2, 3, 2, 0}), negative = tensor(DType::i32, {4}, {-1, -2, 1, -3});
  const auto scattered = [&](Scatter::Kind kind, const Tensor& indices) {
    return values(folded(Scatter{kind}, {data, indices, updates}, {f32, {3, 2}}));
  };
  EXPECT_EQ(scattered(Scatter::Kind::replace, rows), (Values{40, -40, 3, 4, 30, -30}));
  EXPECT_EQ(scattered(Scatter::Kind::replace, negative), (Values{1, 2, 30, -30, 5, 6}));
  EXPECT_EQ(scattered(Scatter::Kind::add, rows), (Values{41, -38, 3, 4, 45, -34}));
  EXPECT_EQ(scattered(Scatter::Kind::mul, rows), (Values{40, -80, 3, 4, 1500, 1800}));
  EXPECT_EQ(scattered(Scatter::Kind::max, rows), (Values{40, 2, 3, 4, 30, 6}));
  EXPECT_EQ(scattered(Scatter::Kind::min, rows), (Values{1, -40, 3, 4, 5, -30}));
}

TEST(FoldFamilies, TopK) {
  const Tensor x = tensor(f32, {2, 4}, {1, NAN, 3, 3, -INFINITY, 0, -0.0, 2});
  const auto places = [&](const TopK& attributes, const Shape& shape) {
    return values(folded(attributes, {x}, {i64, shape}));
  };
  EXPECT_EQ(places({.axis = 1, .k = 3}, {2, 3}), (Values{1, 2, 3, 3, 1, 2}));
  EXPECT_EQ(places({.axis = 1, .k = 4, .smallest = true}, {2, 4}), (Values{0, 2, 3, 1, 0, 1, 2, 3}));
  EXPECT_EQ(places({.axis = 0, .k = 1}, {1, 4}), (Values{0, 0, 0, 0}));
  EXPECT_EQ(places({.axis = 0, .k = 2, .smallest = true}, {2, 4}), (Values{1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(places({.axis = 0, .k = 0}, {0, 4}), (Values{}));
}

TEST(FoldFamilies, Reduce) {
  const Tensor x = tensor(f32, {2, 3}, {1, -2, 3, 4, 5, -6});
  const auto reduce = [&](Reduce attributes, const Shape& shape) {
    const bool index = attributes.kind >= Reduce::Kind::index_max;
    return values(folded(attributes, {x}, {index ? i64 : f32, shape}));
  };
  EXPECT_EQ(reduce({.axes = {1}}, {2, 1}), (Values{2, 3}));
  EXPECT_EQ(reduce({.axes = {0}}, {1, 3}), (Values{5, 3, -3}));
  EXPECT_EQ(reduce({.axes = {}}, {2, 3}), values(x));
  EXPECT_EQ(reduce({.kind = Reduce::Kind::product, .axes = {0, 1}}, {1, 1}), (Values{720}));
  EXPECT_EQ(reduce({.kind = Reduce::Kind::max, .axes = {1}}, {2, 1}), (Values{3, 5}));
  EXPECT_EQ(reduce({.kind = Reduce::Kind::min, .axes = {0}}, {1, 3}), (Values{1, -2, -6}));
  EXPECT_EQ(reduce({.axes = {1}, .map = unary(ExprOp::abs), .epilogue = unary(ExprOp::neg)}, {2, 1}),
            (Values{-6, -15}));
  EXPECT_EQ(reduce({.kind = Reduce::Kind::index_max, .axes = {1}}, {2, 1}), (Values{2, 1}));
  EXPECT_EQ(reduce({.kind = Reduce::Kind::index_min, .axes = {0}}, {1, 3}), (Values{0, 0, 1}));
  const Tensor ties = tensor(f32, {5}, {1, 7, NAN, 7, NAN});
  EXPECT_EQ(values(folded(Reduce{.kind = Reduce::Kind::index_max, .axes = {0}}, {ties}, {i64, {1}})), (Values{2}));
  EXPECT_EQ(values(folded(Reduce{.kind = Reduce::Kind::index_min, .axes = {0}, .last = true}, {ties}, {i64, {1}})),
            (Values{4}));
  EXPECT_TRUE(std::isnan(folded(Reduce{.kind = Reduce::Kind::max, .axes = {0}}, {ties}, {f32, {1}}).value(0)));
  // Integers wrap: 100 + 100 is -56.
  EXPECT_EQ(values(folded(Reduce{.axes = {0}, .accumulate = DType::i8}, {tensor(DType::i8, {2}, {100, 100})},
                          {DType::i8, {1}})),
            (Values{-56}));
  const auto empty = [&](Reduce::Kind kind, DType type) {
    return folded(Reduce{.kind = kind, .axes = {0}, .accumulate = type}, {Tensor(type, {0, 1})}, {type, {1, 1}})
        .value(0);
  };
  EXPECT_EQ(empty(Reduce::Kind::sum, f32), 0);
  EXPECT_EQ(empty(Reduce::Kind::product, DType::i16), 1);
  EXPECT_EQ(empty(Reduce::Kind::max, f32), -INFINITY);
  EXPECT_EQ(empty(Reduce::Kind::max, DType::i8), -128);
  EXPECT_EQ(empty(Reduce::Kind::max, DType::u8), 0);
  EXPECT_EQ(empty(Reduce::Kind::min, DType::u16), 65535);
}

TEST(FoldFamilies, Cumulative) {
  const Tensor x = tensor(f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto run = [&](Cumulative attributes) { return values(folded(attributes, {x}, {f32, {2, 3}})); };
  EXPECT_EQ(run({1, false, false}), (Values{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(run({1, true, false}), (Values{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(run({1, false, true}), (Values{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(run({0, true, true}), (Values{4, 5, 6, 0, 0, 0}));
}

TEST(FoldFamilies, Rowwise) {
  const double e = std::exp(1.0);
  const Tensor x = tensor(f32, {2, 2}, {0, 1, 1000, 1001});
  const auto near = [](const Tensor& actual, const Values& expected) {
    ASSERT_EQ(actual.elements(), static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual.value(static_cast<int64_t>(i)), expected[i], 1e-6);
  };
  near(folded(Rowwise{.axes = {1}}, {x}, {f32, {2, 2}}), {1 / (1 + e), e / (1 + e), 1 / (1 + e), e / (1 + e)});
  near(folded(Rowwise{.kind = Rowwise::Kind::log_softmax, .axes = {1}}, {x}, {f32, {2, 2}}),
       {-std::log(1 + e), 1 - std::log(1 + e), -std::log(1 + e), 1 - std::log(1 + e)});
  // Mean 2, variance 1, along the other axis.
  const Tensor y = tensor(DType::f16, {2, 1}, {1, 3});
  near(folded(Rowwise{.kind = Rowwise::Kind::layer_norm, .axes = {0}, .epsilon = 3}, {y}, {f32, {2, 1}}), {-0.5, 0.5});
  // Mean of squares 5.
  near(folded(Rowwise{.kind = Rowwise::Kind::rms_norm, .axes = {0, 1}, .epsilon = 4, .epilogue = binary(ExprOp::mul)},
              {y, tensor(f32, {1}, {6})}, {f32, {2, 1}}),
       {2, 6});
  const Tensor none = tensor(f32, {2}, {-INFINITY, -INFINITY});
  EXPECT_TRUE(std::isnan(folded(Rowwise{.axes = {0}}, {none}, {f32, {2}}).value(0)));
  near(folded(Rowwise{.kind = Rowwise::Kind::masked_softmax, .axes = {0}}, {none}, {f32, {2}}), {0, 0});
  near(folded(Rowwise{.kind = Rowwise::Kind::masked_softmax, .axes = {1}}, {x}, {f32, {2, 2}}),
       {1 / (1 + e), e / (1 + e), 1 / (1 + e), e / (1 + e)});
}

TEST(ExprFamilies, Bits) {
  struct Case {
    ExprOp op;
    DType type;
    uint64_t a, b, expected;
  };
  for (const Case& c : {Case{ExprOp::bit_and, DType::i8, 0xf0, 0x3c, 0x30},
                        {ExprOp::bit_or, DType::u16, 0x1200, 0x34, 0x1234},
                        {ExprOp::bit_xor, DType::u32, 0xffffffff, 1, 0xfffffffe},
                        {ExprOp::shift_left, DType::u8, 0x81, 1, 0x02},
                        {ExprOp::shift_left, DType::u8, 0x81, 8, 0},
                        {ExprOp::shift_right, DType::u8, 0x81, 7, 1},
                        {ExprOp::shift_right, DType::i8, 0x80, 1, 0x40},
                        {ExprOp::shift_left, DType::i8, 1, 0xff, 0},
                        {ExprOp::shift_right, DType::u64, ~uint64_t{0}, 63, 1},
                        {ExprOp::shift_left, DType::u64, 1, 64, 0}}) {
    const uint64_t inputs[] = {c.a, c.b};
    EXPECT_EQ(evaluate(binary(c.op, c.type), inputs), c.expected) << info(c.op).name << " " << name(c.type);
  }
  EXPECT_FALSE(verify(binary(ExprOp::bit_and, f32), "e"));
  EXPECT_FALSE(verify(binary(ExprOp::shift_left, DType::boolean), "e"));
}

}  // namespace
}  // namespace low
