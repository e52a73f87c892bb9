// One node a model: imported graphs run in the reference, against results worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "compiler/frontend/operator_case.h"

namespace low {
namespace {

TEST(Operators, Elementwise) {
  check({
      {"add broadcasts",
       14,
       "Add",
       {f32({2, 1}, {1, 2}), f32({3}, {10, 20, 30})},
       {},
       {},
       {f32({2, 3}, {11, 21, 31, 12, 22, 32})}},
      {"integer division truncates", 14, "Div", {i32({3}, {-7, 7, 6}), i32({}, {2})}, {}, {}, {i32({3}, {-3, 3, 3})}},
      {"mod takes the divisor's sign",
       13,
       "Mod",
       {i32({4}, {-7, 7, -6, 6}), i32({4}, {3, -3, 3, -3})},
       {},
       {},
       {i32({4}, {2, -2, 0, 0})}},
      {"fmod takes the dividend's",
       13,
       "Mod",
       {f32({2}, {-7.5, 7.5}), f32({}, {2})},
       {},
       [](auto& node) { set(node, "fmod", 1); },
       {f32({2}, {-1.5, 1.5})}},
      // 7 = 3 * 2 + 1 and -7 = -4 * 2 + 1; an infinite divisor of the other sign is the result.
      {"mod of floats takes the divisor's sign",
       28,
       "Mod",
       {f32({6}, {-7.5, 7.5, -7.5, 7.5, 1, -1}), f32({6}, {2, 2, -2, -2, inf, inf})},
       {},
       {},
       {f32({6}, {0.5, 1.5, -1.5, -0.5, 1, inf})}},
      {"relu keeps NaN", 14, "Relu", {f32({3}, {-1, 2, nan})}, {}, {}, {f32({3}, {0, 2, nan})}},
      {"sign", 13, "Sign", {i64({3}, {-5, 0, 9})}, {}, {}, {i64({3}, {-1, 0, 1})}},
      {"abs of unsigned", 13, "Abs", {u8({2}, {0, 200})}, {}, {}, {u8({2}, {0, 200})}},
      {"round half to even", 11, "Round", {f32({4}, {0.5, 1.5, 2.5, -0.5})}, {}, {}, {f32({4}, {0, 2, 2, 0})}},
      {"is NaN", 20, "IsNaN", {f32({2}, {1, nan})}, {}, {}, {boolean({2}, {0, 1})}},
      {"max of three", 13, "Max", {f32({2}, {1, nan}), f32({}, {2}), f32({1}, {3})}, {}, {}, {f32({2}, {3, nan})}},
      {"min of one", 13, "Min", {f32({2}, {1, 2})}, {}, {}, {f32({2}, {1, 2})}},
      {"clip by inputs",
       13,
       "Clip",
       {f32({4}, {-9, 0.5, 9, nan}), f32({}, {-1}), f32({}, {2})},
       {},
       {},
       {f32({4}, {-1, 0.5, 2, nan})}},
      {"clip where low is above high",
       13,
       "Clip",
       {f32({1}, {0}), f32({}, {5}), f32({}, {2})},
       {},
       {},
       {f32({1}, {2})}},
      {"clip by attributes",
       10,
       "Clip",
       {f32({3}, {-9, 0.5, inf})},
       {},
       [](auto& node) { set_float(node, "min", -1); },
       {f32({3}, {-1, 0.5, 3.4028234663852886e38})}},
      {"where",
       16,
       "Where",
       {boolean({2, 1}, {1, 0}), f32({2}, {1, 2}), f32({}, {9})},
       {},
       {},
       {f32({2, 2}, {1, 2, 9, 9})}},
      {"equal of booleans", 13, "Equal", {boolean({2}, {1, 0}), boolean({}, {0})}, {}, {}, {boolean({2}, {0, 1})}},
      {"less or equal", 16, "LessOrEqual", {f32({3}, {1, 2, nan}), f32({}, {2})}, {}, {}, {boolean({3}, {1, 1, 0})}},
      {"pow of integers", 15, "Pow", {i32({3}, {2, -3, 7}), i32({3}, {10, 3, 0})}, {}, {}, {i32({3}, {1024, -27, 1})}},
      {"integer base, float exponent", 15, "Pow", {i32({2}, {9, 2}), f32({2}, {0.5, 3})}, {}, {}, {i32({2}, {3, 8})}},
      {"float base, integer exponent",
       15,
       "Pow",
       {f32({2}, {-2, 3}), i64({2}, {3, -1})},
       {},
       {},
       {f32({2}, {-8, 1.0f / 3.0f})}},
      // 300 * 300 overflows f16, but is in range of f32: exponent 2.0 in f32 rounds to infinity once, 0.5 does not.
      {"f16 base, f32 exponent", 15, "Pow", {f16({2}, {300, 256}), f32({2}, {2, 0.5})}, {}, {}, {f16({2}, {inf, 16})}},
      {"erf-gelu",
       20,
       "Gelu",
       {f32({3}, {-1, 0, 2})},
       {},
       {},
       {f32({3}, {-0.15865525393145707, 0, 1.9544997361036416})}},
      {"tanh-gelu",
       20,
       "Gelu",
       {f32({2}, {-1, 2})},
       {},
       [](auto& node) { set(node, "approximate", std::string("tanh")); },
       {f32({2}, {-0.15880800939172324, 1.954597694087775})}},
      // 50 cubed is beyond f16.
      {"tanh-gelu of large f16",
       20,
       "Gelu",
       {f16({2}, {50, -50})},
       {},
       [](auto& node) { set(node, "approximate", std::string("tanh")); },
       {f16({2}, {50, 0})}},
      {"cast truncates",
       13,
       "Cast",
       {f32({3}, {-1.5, 2.9, 0})},
       {},
       [](auto& node) { set(node, "to", 7); },
       {i64({3}, {-1, 2, 0})}},
      {"cast to FP8 saturates",
       19,
       "Cast",
       {f32({2}, {1000, -3})},
       {},
       [](auto& node) { set(node, "to", 17); },
       {fp8({2}, {448, -3})}},
      {"cast to FP8 without saturation",
       19,
       "Cast",
       {f32({1}, {1000})},
       {},
       [](auto& node) {
         set(node, "to", 17);
         set(node, "saturate", 0);
       },
       {fp8({1}, {nan})}},
      {"infinity to FNUZ is NaN before opset 24",
       23,
       "Cast",
       {f32({4}, {inf, -inf, 1000, nan})},
       {},
       [](auto& node) { set(node, "to", 18); },
       {make(DType::f8e4m3fnuz, {4}, {nan, nan, 240, nan})}},
      {"infinity to FNUZ saturates since",
       24,
       "Cast",
       {f32({6}, {inf, -inf, 1000, nan, 1.0625, -0.0})},
       {},
       [](auto& node) { set(node, "to", 18); },
       {make(DType::f8e4m3fnuz, {6}, {240, -240, 240, nan, 1, 0})}},
      // E5M2 has 224 and 256 around E4M3FNUZ's maximum.
      {"from E5M2 to FNUZ",
       24,
       "Cast",
       {make(DType::f8e5m2, {5}, {inf, 224, 256, -57344, nan})},
       {},
       [](auto& node) { set(node, "to", 18); },
       {make(DType::f8e4m3fnuz, {5}, {240, 224, 240, -240, nan})}},
      {"cast like FNUZ",
       24,
       "CastLike",
       {f16({4}, {inf, -inf, 65504, nan}), make(DType::f8e5m2fnuz, {0}, {})},
       {},
       {},
       {make(DType::f8e5m2fnuz, {4}, {57344, -57344, 57344, nan})}},
      {"infinity to FNUZ without saturation",
       24,
       "Cast",
       {f32({2}, {inf, 1000})},
       {},
       [](auto& node) {
         set(node, "to", 18);
         set(node, "saturate", 0);
       },
       {make(DType::f8e4m3fnuz, {2}, {nan, nan})}},
      {"cast like", 19, "CastLike", {f32({1}, {2.5}), i32({0}, {})}, {}, {}, {i32({1}, {2})}},
  });
}

TEST(Operators, Products) {
  const Tensor a = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = f32({3, 2}, {1, 0, 0, 1, 1, 1});
  check({
      {"matrix by matrix", 13, "MatMul", {a, b}, {}, {}, {f32({2, 2}, {4, 5, 10, 11})}},
      {"vector by matrix", 13, "MatMul", {f32({3}, {1, 2, 3}), b}, {}, {}, {f32({2}, {4, 5})}},
      {"matrix by vector", 13, "MatMul", {a, f32({3}, {1, 0, 2})}, {}, {}, {f32({2}, {7, 16})}},
      {"vector by vector", 13, "MatMul", {f32({3}, {1, 2, 3}), f32({3}, {1, 1, 1})}, {}, {}, {f32({}, {6})}},
      {"batches broadcast",
       13,
       "MatMul",
       {f32({2, 1, 1, 1}, {2, 3}), f32({3, 1, 1}, {1, 10, 100})},
       {},
       {},
       {f32({2, 3, 1, 1}, {2, 20, 200, 3, 30, 300})}},
      {"vector by batch",
       13,
       "MatMul",
       {f32({2}, {1, 2}), f32({2, 2, 1}, {1, 1, 10, 10})},
       {},
       {},
       {f32({2, 1}, {3, 30})}},
      {"no inner elements",
       13,
       "MatMul",
       {f32({2, 0}, {}), f32({0, 3}, {})},
       {},
       {},
       {f32({2, 3}, {0, 0, 0, 0, 0, 0})}},
      {"integers", 13, "MatMul", {i32({1, 2}, {3, 4}), i32({2, 1}, {5, -6})}, {}, {}, {i32({1, 1}, {-9})}},
      {"gemm",
       13,
       "Gemm",
       {a, b, f32({2}, {1, 2})},
       {},
       [](auto& node) {
         set_float(node, "alpha", 0.5f);
         set_float(node, "beta", 10);
       },
       {f32({2, 2}, {12, 22.5, 15, 25.5})}},
      // A^T of [3,2] b gives [2,3] x [3,2]; B^T of a gives [2,3]^T = [3,2].
      {"gemm transposed",
       13,
       "Gemm",
       {b, a},
       {},
       [](auto& node) {
         set(node, "transA", 1);
         set(node, "transB", 1);
       },
       {f32({2, 2}, {4, 10, 5, 11})}},
      {"gemm with a column", 11, "Gemm", {a, b, f32({2, 1}, {100, 200})}, {}, {}, {f32({2, 2}, {104, 105, 210, 211})}},
      // 300 * 300 is beyond f16; scaled before it is rounded, it is not.
      {"gemm of f16 rounds once",
       13,
       "Gemm",
       {f16({1, 1}, {300}), f16({1, 1}, {300})},
       {},
       [](auto& node) { set_float(node, "alpha", 0.5f); },
       {f16({1, 1}, {45000})}},
  });
}

TEST(Operators, Quantization) {
  check({
      {"to u8 by default",
       13,
       "QuantizeLinear",
       {f32({4}, {-1, 0.5, 3, 1000}), f32({}, {2})},
       {},
       {},
       {u8({4}, {0, 0, 2, 255})}},
      {"zero point",
       13,
       "QuantizeLinear",
       {f32({3}, {-4, 0, 3}), f32({}, {2}), i8({}, {-3})},
       {},
       {},
       {i8({3}, {-5, -3, -1})}},
      // 1.5 rounds to 2, plus -3.
      {"per axis",
       13,
       "QuantizeLinear",
       {f32({2, 2}, {2, 4, 2, 4}), f32({2}, {1, 2})},
       {},
       [](auto& node) { set(node, "axis", -2); },
       {u8({2, 2}, {2, 4, 1, 2})}},
      {"a scale of one element",
       13,
       "QuantizeLinear",
       {f32({2}, {2, 4}), f32({1}, {2}), u8({1}, {1})},
       {},
       {},
       {u8({2}, {2, 3})}},
      {"a zero point of one element",
       13,
       "QuantizeLinear",
       {f32({1}, {4}), f32({}, {2}), u8({1}, {1})},
       {},
       {},
       {u8({1}, {3})}},
      {"to FP8",
       19,
       "QuantizeLinear",
       {f32({3}, {1, 1.06, 9999}), f32({}, {1}), fp8({}, {0})},
       {false, false, true},
       {},
       {fp8({3}, {1, 1, 448})}},
      {"output_dtype",
       21,
       "QuantizeLinear",
       {f32({1}, {-300}), f32({}, {2})},
       {},
       [](auto& node) { set(node, "output_dtype", 5); },
       {make(DType::i16, {1}, {-150})}},
      {"from i8 in a wide type",
       13,
       "DequantizeLinear",
       {i8({2}, {-128, 127}), f32({}, {0.5}), i8({}, {127})},
       {},
       {},
       {f32({2}, {-127.5, 0})}},
      {"from FP8 per axis",
       19,
       "DequantizeLinear",
       {fp8({2, 2}, {1, 2, 3, 4}), f32({2}, {10, 100})},
       {},
       {},
       {f32({2, 2}, {10, 200, 30, 400})}},
      {"from i32 to f16",
       23,
       "DequantizeLinear",
       {i32({1}, {3}), f32({}, {0.5})},
       {},
       [](auto& node) { set(node, "output_dtype", 10); },
       {f16({1}, {1.5})}},
  });
}

TEST(Operators, Movement) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  check({
      {"reshape", 13, "Reshape", {x, i64({2}, {0, -1})}, {false, true}, {}, {f32({2, 3}, {1, 2, 3, 4, 5, 6})}},
      {"reshape infers",
       13,
       "Reshape",
       {x, i64({3}, {3, -1, 1})},
       {false, true},
       {},
       {f32({3, 2, 1}, {1, 2, 3, 4, 5, 6})}},
      {"reshape to zero",
       14,
       "Reshape",
       {f32({0, 3}, {}), i64({2}, {5, 0})},
       {false, true},
       [](auto& node) { set(node, "allowzero", 1); },
       {f32({5, 0}, {})}},
      {"transpose", 13, "Transpose", {x}, {}, {}, {f32({3, 2}, {1, 4, 2, 5, 3, 6})}},
      {"transpose by perm",
       13,
       "Transpose",
       {f32({1, 2, 3}, {1, 2, 3, 4, 5, 6})},
       {},
       [](auto& node) { set(node, "perm", Dims{2, 0, 1}); },
       {f32({3, 1, 2}, {1, 4, 2, 5, 3, 6})}},
      {"squeeze all", 13, "Squeeze", {f32({1, 2, 1}, {1, 2})}, {}, {}, {f32({2}, {1, 2})}},
      {"squeeze by attribute",
       11,
       "Squeeze",
       {f32({1, 2, 1}, {1, 2})},
       {},
       [](auto& node) { set(node, "axes", Dims{-1}); },
       {f32({1, 2}, {1, 2})}},
      {"unsqueeze",
       13,
       "Unsqueeze",
       {f32({2}, {1, 2}), i64({2}, {0, -1})},
       {false, true},
       {},
       {f32({1, 2, 1}, {1, 2})}},
      {"flatten",
       13,
       "Flatten",
       {f32({2, 1, 3}, {1, 2, 3, 4, 5, 6})},
       {},
       [](auto& node) { set(node, "axis", -1); },
       {f32({2, 3}, {1, 2, 3, 4, 5, 6})}},
      {"flatten at 0",
       13,
       "Flatten",
       {x},
       {},
       [](auto& node) { set(node, "axis", 0); },
       {f32({1, 6}, {1, 2, 3, 4, 5, 6})}},
      {"expand both ways",
       13,
       "Expand",
       {f32({2, 1}, {1, 2}), i64({3}, {2, 1, 2})},
       {false, true},
       {},
       {f32({2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2})}},
      {"shape",
       15,
       "Shape",
       {f32({2, 3, 1}, {1, 2, 3, 4, 5, 6})},
       {},
       [](auto& node) { set(node, "start", -2); },
       {i64({2}, {3, 1})}},
      {"dropout", 13, "Dropout", {x}, {}, {}, {x, boolean({2, 3}, {1, 1, 1, 1, 1, 1})}},
      {"constant of shape",
       9,
       "ConstantOfShape",
       {i64({2}, {1, 2})},
       {true},
       [](auto& node) { set(node, "value", i64({1}, {7})); },
       {i64({1, 2}, {7, 7})}},
      {"constant", 13, "Constant", {}, {}, [](auto& node) { set(node, "value_ints", Dims{4, 5}); }, {i64({2}, {4, 5})}},
  });
}

TEST(Operators, RefusedInOneSentence) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  struct Refusal {
    Case test;
    ErrorKind kind;
    std::string message;
  };
  const Refusal refusals[] = {
      {{"", 13, "Add", {x, f32({2}, {1, 2})}, {}, {}, {}},
       ErrorKind::invalid,
       "m.onnx: node \"n\" (#0): Add: shapes [2,3] and [2] do not broadcast"},
      {{"", 13, "Add", {x, i64({}, {1})}, {}, {}, {}}, ErrorKind::invalid, "data types differ"},
      {{"", 13, "Add", {x}, {}, {}, {}}, ErrorKind::invalid, "Add: input 1 is missing"},
      {{"", 13, "MatMul", {x, x}, {}, {}, {}}, ErrorKind::invalid, "inner dimensions of f32[2,3] and f32[2,3]"},
      {{"", 13, "MatMul", {fp8({1, 1}, {1}), fp8({1, 1}, {1})}, {}, {}, {}}, ErrorKind::invalid, "f8e4m3fn cannot be"},
      {{"", 13, "MatMul", {f32({}, {1}), x}, {}, {}, {}}, ErrorKind::invalid, "a scalar is no matrix"},
      {{"", 13, "Reshape", {x, i64({1}, {6})}, {}, {}, {}}, ErrorKind::unsupported, "not known before the model runs"},
      {{"", 13, "Reshape", {x, i64({1}, {5})}, {false, true}, {}, {}},
       ErrorKind::invalid,
       "f32[2,3] cannot be reshaped to [5]"},
      {{"", 13, "Reshape", {x, i64({2}, {-1, -1})}, {false, true}, {}, {}}, ErrorKind::invalid, "more than one -1"},
      {{"", 13, "Reshape", {x, i64({1}, {-7})}, {false, true}, {}, {}}, ErrorKind::invalid, "negative extent"},
      {{"", 13, "Reshape", {x, i64({3}, {0, 0, 0})}, {false, true}, {}, {}}, ErrorKind::invalid, "cannot be reshaped"},
      {{"", 13, "Expand", {x, i64({2}, {1e12, 1e12})}, {false, true}, {}, {}}, ErrorKind::unsupported, "too large"},
      {{"", 13, "ConstantOfShape", {i64({2}, {1e9, 1e9})}, {true}, {}, {}}, ErrorKind::unsupported, "too large"},
      {{"", 13, "ConstantOfShape", {i64({1}, {-1})}, {true}, {}, {}}, ErrorKind::invalid, "negative extent"},
      {{"", 13, "Transpose", {x}, {}, [](auto& node) { set(node, "perm", Dims{0, 0}); }, {}},
       ErrorKind::invalid,
       "twice"},
      {{"", 13, "Squeeze", {x, i64({1}, {0})}, {false, true}, {}, {}},
       ErrorKind::invalid,
       "axis 0 of f32[2,3] is not 1"},
      {{"", 13, "Unsqueeze", {x, i64({1}, {5})}, {false, true}, {}, {}}, ErrorKind::invalid, "out of range"},
      {{"", 13, "Cast", {x}, {}, [](auto& node) { set(node, "to", 8); }, {}}, ErrorKind::unsupported, "STRING"},
      {{"", 13, "Cast", {x}, {}, [](auto& node) { set(node, "to", 22); }, {}}, ErrorKind::unsupported, "INT4"},
      {{"", 13, "Cast", {x}, {}, {}, {}}, ErrorKind::invalid, "\"to\" is missing"},
      {{"", 13, "Cast", {x}, {}, [](auto& node) { set(node, "to", std::string("FLOAT")); }, {}},
       ErrorKind::invalid,
       "is not of type INT"},
      {{"", 13, "Cast", {x}, {}, [](auto& node) { set(node, "too", 1); }, {}},
       ErrorKind::unsupported,
       "attribute \"too\""},
      {{"", 21, "QuantizeLinear", {x, f32({2, 1}, {1, 2})}, {}, [](auto& node) { set(node, "block_size", 3); }, {}},
       ErrorKind::unsupported,
       "blocked"},
      {{"", 13, "QuantizeLinear", {x, f32({2}, {1, 2})}, {}, {}, {}}, ErrorKind::invalid, "needs 3 elements"},
      {{"", 13, "DequantizeLinear", {x, f32({}, {1})}, {}, {}, {}}, ErrorKind::invalid, "input 0 is f32[2,3]"},
      {{"", 20, "Gelu", {x}, {}, [](auto& node) { set(node, "approximate", std::string("no")); }, {}},
       ErrorKind::invalid,
       "\"no\""},
      {{"", 19, "Gelu", {x}, {}, {}, {}},
       ErrorKind::unsupported,
       "m.onnx: node \"n\" (#0): operator ai.onnx.Gelu (opset 19) is not supported"},
      {{"", 19, "Foo\n", {x}, {}, {}, {}}, ErrorKind::unsupported, "operator \"ai.onnx.Foo\\x0a\" (opset 19)"},
      {{"", 13, "Dropout", {x, f32({}, {0.5}), boolean({}, {1})}, {false, true, true}, {}, {}},
       ErrorKind::unsupported,
       "training"},
      {{"", 13, "Mod", {x, x}, {}, {}, {}}, ErrorKind::invalid, "fmod=0"},
      {{"", 13, "Gemm", {i32({1, 1}, {1}), i32({1, 1}, {1})}, {}, [](auto& node) { set_float(node, "alpha", 2); }, {}},
       ErrorKind::unsupported,
       "alpha"},
  };
  for (const Refusal& refusal : refusals) {
    const Error error = error_of(model_of(refusal.test, 1, nullptr));
    EXPECT_EQ(error.kind, refusal.kind) << error.message;
    EXPECT_THAT(error.message, testing::HasSubstr(refusal.message));
  }
}

// From opset 24 on nothing but infinity is cast to the FNUZ formats in another way.
TEST(Operators, EveryElementCastToFnuz) {
  const auto cast = [](const Tensor& x, DType to, int64_t opset) {
    onnx::ModelProto model = make_model(opset);
    onnx::GraphProto& graph = *model.mutable_graph();
    set_type(*graph.add_input(), "x", x.dtype(), {x.elements()});
    set(add_node(graph, "Cast", {"x"}, {"y"}), "to", dtype_to_onnx(to));
    add_output(graph, "y");
    return run(model, {x}).at(0);
  };
  for (const DType from : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2,
                           DType::f8e4m3fnuz, DType::f8e5m2fnuz}) {
    // All elements of the narrow formats; f32 and f64 with each pattern of their first 16 bits, and all of f16.
    const int64_t count = byte_size(from) == 1 ? 256 : 65536;
    const bool wide = byte_size(from) > 2;
    Tensor x(from, Shape{wide ? 2 * count : count});
    for (int64_t i = 0; i < count; ++i) {
      const auto bits = static_cast<uint64_t>(i);
      x.set_bits(i, wide ? bits << (8 * byte_size(from) - 16) : bits);
      if (wide) x.set_value(count + i, decode(DType::f16, bits));
    }
    for (const DType to : {DType::f8e4m3fnuz, DType::f8e5m2fnuz}) {
      const Tensor before = cast(x, to, 23);
      const Tensor since = cast(x, to, 24);
      int64_t infinities = 0;
      for (int64_t i = 0; i < x.elements(); ++i) {
        const double value = x.value(i);
        infinities += std::isinf(value) ? 1 : 0;
        const bool is_right = std::isinf(value) ? since.value(i) == std::copysign(max_finite(to), value)
                                                : since.bits(i) == before.bits(i);
        ASSERT_TRUE(is_right) << name(from) << " " << value << " to " << name(to) << " is " << since.value(i);
      }
      const bool has_infinity = !is_fp8(from) || from == DType::f8e5m2;
      EXPECT_EQ(infinities, wide ? 4 : has_infinity ? 2 : 0);
    }
  }
}

// Constants meet at import time: the graph holds the results alone.
TEST(Operators, ShapesAreFolded) {
  onnx::ModelProto model = make_model(13);
  onnx::GraphProto& graph = *model.mutable_graph();
  set_type(*graph.add_input(), "x", DType::f32, {2, 3, 5});
  add_initializer(graph, "mask", i64({3}, {1, 1, 0}));
  add_initializer(graph, "minus", i64({3}, {0, 0, -1}));
  add_node(graph, "Shape", {"x"}, {"s"});
  add_node(graph, "Mul", {"s", "mask"}, {"t"});
  add_node(graph, "Add", {"t", "minus"}, {"u"});  // [2, 3, -1]
  add_node(graph, "Reshape", {"x", "u"}, {"y"});
  add_output(graph, "y");
  const Result<Graph> imported = import_test(model);
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->op_count(), 2u) << print(*imported);  // the reshape changes nothing: input and output
}

}  // namespace
}  // namespace low
