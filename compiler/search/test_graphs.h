// Graphs that several tests of the search need.
#pragma once

#include <string>

#include "compiler/graph/graph.h"

namespace low::test {

// One element mapped by tanh(x) * 2, rounded to `to`.
inline Expr activation(DType from, DType to) {
  ExprBuilder builder(1);
  const uint16_t x = builder.convert(builder.input(0, from), DType::f32);
  const uint16_t y = builder.binary(ExprOp::mul, builder.unary(ExprOp::tanh, x), builder.constant(DType::f32, 2));
  return std::move(builder).finish(builder.convert(y, to, Overflow::saturate));
}

// input 0 + input 1, both f32, to `to`.
inline Expr sum(DType to) {
  ExprBuilder builder(2);
  const uint16_t y = builder.binary(ExprOp::add, builder.input(0, DType::f32), builder.input(1, DType::f32));
  return std::move(builder).finish(builder.convert(y, to, Overflow::saturate));
}

inline Graph finish(GraphBuilder builder) {
  Result<Graph> graph = std::move(builder).finish();
  LOW_CHECK(graph.has_value());
  return std::move(*graph);
}

// a[m,k] * b[k,n] -> f32
inline Graph matmul_graph(int64_t m, int64_t n, int64_t k, DType dtype = DType::f32) {
  GraphBuilder builder;
  const ValueId a = builder.input("a", {dtype, {m, k}});
  const ValueId b = builder.input("b", {dtype, {k, n}});
  const ValueId operands[] = {a, b};
  builder.output("c", builder.matmul({}, operands, DType::f32));
  return finish(std::move(builder));
}

inline Graph pointwise_graph(const Shape& shape) {
  GraphBuilder builder;
  const ValueId operands[] = {builder.input("x", {DType::f32, shape})};
  builder.output("y", builder.pointwise(activation(DType::f32, DType::f32), operands));
  return finish(std::move(builder));
}

// quantize, matmul + bias + quantize, matmul + bias: `count` times with own weights.
inline Graph mlp_graph(int64_t count, int64_t tokens, int64_t width, int64_t hidden) {
  const DType fp8 = DType::f8e4m3fn;
  Graph body;
  {
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {tokens, width}});
    const ValueId w1 = builder.input("w1", {fp8, {width, hidden}});
    const ValueId b1 = builder.input("b1", {DType::f32, {hidden}});
    const ValueId w2 = builder.input("w2", {fp8, {hidden, width}});
    const ValueId b2 = builder.input("b2", {DType::f32, {width}});
    const ValueId quantize[] = {x};
    const ValueId first[] = {builder.pointwise(activation(DType::f32, fp8), quantize, "quantize"), w1, b1};
    Matmul matmul;
    matmul.epilogue = sum(fp8);
    const ValueId second[] = {builder.matmul(matmul, first, fp8, "fc1"), w2, b2};
    matmul.epilogue = sum(DType::f32);
    builder.output("y", builder.matmul(matmul, second, DType::f32, "fc2"));
    body = finish(std::move(builder));
  }
  GraphBuilder builder;
  const ValueId operands[] = {
      builder.input("x", {DType::f32, {tokens, width}}),  builder.input("w1", {fp8, {count, width, hidden}}),
      builder.input("b1", {DType::f32, {count, hidden}}), builder.input("w2", {fp8, {count, hidden, width}}),
      builder.input("b2", {DType::f32, {count, width}}),
  };
  Repeat repeat;
  repeat.count = count;
  repeat.carried = 1;
  repeat.iterated = 4;
  repeat.body = std::make_shared<const Graph>(std::move(body));
  builder.output("y", builder.repeat(repeat, operands, "layers")[0]);
  return finish(std::move(builder));
}

}  // namespace low::test
