// What tests of passes share: short builders, an evaluator on top of `fold` (what a pass must not change), and
// comparisons.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/graph/fold.h"
#include "compiler/graph/passes/passes.h"
#include "reference/reference.h"

namespace low::test {

inline std::vector<Tensor> evaluate_graph(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(graph.value_count());
  std::vector<Tensor> outputs;
  size_t input = 0;
  for (const Op& op : graph.ops()) {
    std::vector<const Tensor*> operands;
    for (const ValueId operand : graph.operands(op)) operands.push_back(&values[operand.index]);
    if (std::holds_alternative<Input>(op.attributes)) {
      values[op.results.begin] = inputs[input++];
    } else if (std::holds_alternative<Output>(op.attributes)) {
      outputs.push_back(*operands[0]);
    } else if (const auto* repeat = std::get_if<Repeat>(&op.attributes)) {
      const size_t first_iterated = size_t{repeat->carried} + repeat->invariant;
      std::vector<Tensor> current;
      for (const Tensor* operand : operands) current.push_back(*operand);
      for (uint32_t j = 0; j < op.results.count; ++j) {
        const Type& type = graph.type(graph.result(op, j));
        values[op.results.begin + j] = Tensor(type.dtype, type.shape);
      }
      for (int64_t i = 0; i < repeat->count; ++i) {
        for (size_t j = first_iterated; j < operands.size(); ++j) {
          current[j] = Tensor(operands[j]->dtype(), Shape(operands[j]->shape().extents().subspan(1)));
          const size_t bytes = current[j].bytes().size();
          if (bytes > 0) {
            std::memcpy(current[j].bytes().data(), operands[j]->bytes().data() + static_cast<size_t>(i) * bytes, bytes);
          }
        }
        const std::vector<Tensor> next = evaluate_graph(*repeat->body, current);
        for (size_t j = 0; j < next.size(); ++j) {
          if (j < repeat->carried) {
            current[j] = next[j];
          } else if (const size_t bytes = next[j].bytes().size(); bytes > 0) {
            std::memcpy(values[op.results.begin + j].bytes().data() + static_cast<size_t>(i) * bytes,
                        next[j].bytes().data(), bytes);
          }
        }
      }
      for (size_t j = 0; j < repeat->carried; ++j) values[op.results.begin + j] = current[j];
    } else {
      Result<std::vector<Tensor>> results = fold(graph, op, operands);
      EXPECT_TRUE(results);
      values[op.results.begin] = (*results)[0];
    }
  }
  return outputs;
}

inline constexpr DType f32 = DType::f32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType f8 = DType::f8e4m3fn;

inline Tensor random_tensor(DType dtype, const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double unit = static_cast<double>(random() % 2001) / 1000 - 1;
    tensor.set_value(i, is_float(dtype) ? unit : dtype == DType::u8 ? 127 + 127 * unit : 100 * unit);
  }
  return tensor;
}

inline Tensor scalar(DType dtype, double value) {
  Tensor tensor(dtype, Shape());
  tensor.set_value(0, value);
  return tensor;
}

inline Expr binary(ExprOp op, DType type = f32) {
  ExprBuilder builder(2);
  return std::move(builder).finish(builder.binary(op, builder.input(0, type), builder.input(1, type)));
}
inline Expr unary(ExprOp op, DType type = f32) {
  ExprBuilder builder(1);
  return std::move(builder).finish(builder.unary(op, builder.input(0, type)));
}

// A builder with short names.
struct Maker : GraphBuilder {
  ValueId apply(ExprOp op, ValueId a, ValueId b) {
    const ValueId operands[] = {a, b};
    return pointwise(binary(op, type(a).dtype), operands);
  }
  ValueId apply(ExprOp op, ValueId a) { return pointwise(unary(op, type(a).dtype), {&a, 1}); }
  ValueId product(ValueId a, ValueId b, Matmul attributes = {}, DType result = f32) {
    const ValueId operands[] = {a, b};
    return matmul(attributes, operands, result);
  }
  ValueId number(double value) { return constant(scalar(f32, value)); }
  ValueId to_f8(ValueId x, ValueId scale) {
    const ValueId operands[] = {x, scale};
    return quantize({}, operands, f8);
  }
  ValueId from_f8(ValueId x, ValueId scale, std::optional<int> axis = std::nullopt) {
    const ValueId operands[] = {x, scale};
    return dequantize({axis}, operands, f32);
  }
  Graph done() {
    Result<Graph> graph = std::move(*this).finish();
    EXPECT_TRUE(graph) << graph.error().message;
    return graph ? *std::move(graph) : Graph();
  }
};

inline Graph checked(const Result<Graph>& result) {
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return Graph();
  EXPECT_TRUE(verify(*result));
  return *result;
}

// "input matmul output": the kinds of operations in order, without constants.
inline std::string kinds(const Graph& graph) {
  std::string out;
  for (const Op& op : graph.ops()) {
    if (std::holds_alternative<Constant>(op.attributes)) continue;
    if (!out.empty()) out += ' ';
    out += kind_name(op.attributes);
  }
  return out;
}

inline std::vector<Tensor> random_inputs(const Graph& graph, unsigned seed) {
  std::vector<Tensor> inputs;
  for (const OpId id : graph.inputs()) {
    const Type& type = graph.type(graph.result(graph.op(id)));
    inputs.push_back(random_tensor(type.dtype, type.shape, seed++));
  }
  return inputs;
}

// The same outputs, to `tolerance` (0: bit for bit), and the same interface.
inline void expect_same(const Graph& before, const Graph& after, double tolerance = 0) {
  ASSERT_EQ(before.inputs().size(), after.inputs().size());
  ASSERT_EQ(before.outputs().size(), after.outputs().size());
  for (size_t i = 0; i < before.inputs().size(); ++i) {
    EXPECT_EQ(before.op(before.inputs()[i]).name, after.op(after.inputs()[i]).name);
  }
  const std::vector<Tensor> inputs = random_inputs(before, 17);
  const std::vector<Tensor> expected = evaluate_graph(before, inputs);
  const std::vector<Tensor> actual = evaluate_graph(after, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i].dtype(), expected[i].dtype());
    ASSERT_EQ(actual[i].shape(), expected[i].shape());
    for (int64_t j = 0; j < expected[i].elements(); ++j) {
      const double want = expected[i].value(j);
      const double have = actual[i].value(j);
      if (tolerance == 0) {
        ASSERT_EQ(actual[i].bits(j), expected[i].bits(j)) << "output " << i << " element " << j << "\n" << print(after);
      } else {
        ASSERT_NEAR(have, want, tolerance * (1 + std::abs(want))) << "output " << i << " element " << j;
      }
    }
  }
}

// The independent judge, in double precision: both graphs on the same inputs.
inline void expect_like_reference(const Graph& before, const Graph& after, const std::vector<Tensor>& inputs,
                                  double absolute, double relative) {
  const Result<std::vector<Tensor>> expected = reference::run(before, inputs);
  const Result<std::vector<Tensor>> actual = reference::run(after, inputs);
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_TRUE(actual) << actual.error().message;
  for (size_t i = 0; i < expected->size(); ++i) {
    const Result<reference::Comparison> comparison =
        reference::compare((*actual)[i], (*expected)[i], {.absolute = absolute, .relative = relative});
    ASSERT_TRUE(comparison) << comparison.error().message;
    EXPECT_TRUE(comparison->passed()) << "output " << i << ": " << comparison->worst_actual << " instead of "
                                      << comparison->worst_expected << "\n"
                                      << print(before) << "\n"
                                      << print(after);
  }
}

// Canonical form of a graph; checks meaning and that it is a fixed point.
inline Graph canonical(const Graph& graph) {
  const Graph out = checked(canonicalize(graph));
  expect_same(graph, out);
  EXPECT_EQ(print(checked(canonicalize(out))), print(out));
  return out;
}

// x * 0.5 * (1 + tanh(0.7978845608 * (x + 0.044715 * x^3)))
inline ValueId gelu(Maker& m, ValueId x) {
  const ValueId cube = m.apply(ExprOp::mul, m.apply(ExprOp::mul, x, x), x);
  const ValueId inner = m.apply(ExprOp::add, x, m.apply(ExprOp::mul, cube, m.number(0.044715)));
  const ValueId t = m.apply(ExprOp::tanh, m.apply(ExprOp::mul, inner, m.number(0.7978845608)));
  return m.apply(ExprOp::mul, m.apply(ExprOp::mul, x, m.number(0.5)), m.apply(ExprOp::add, t, m.number(1)));
}

}  // namespace low::test
