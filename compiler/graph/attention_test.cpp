// Attention: text, verification and folding.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/graph/fold.h"
#include "compiler/graph/graph.h"

namespace low {
namespace {

constexpr DType f32 = DType::f32;
constexpr DType boolean = DType::boolean;

Expr add_one_extra(DType to = f32) {
  ExprBuilder builder(2);
  const uint16_t sum = builder.binary(ExprOp::add, builder.input(0, f32), builder.input(1, f32));
  return std::move(builder).finish(builder.convert(sum, to));
}

TEST(AttentionGraph, TextRoundTrip) {
  GraphBuilder builder;
  const ValueId q = builder.input("q", {f32, {2, 5, 12}});
  const ValueId k = builder.input("k", {DType::f16, {1, 7, 6}});
  const ValueId v = builder.input("v", {DType::f8e4m3fn, {1, 7, 10}});
  const ValueId mask = builder.input("mask", {boolean, {4, 1, 1, 7}});
  const ValueId extra = builder.input("extra", {f32, {20}});
  const ValueId plain[] = {q, k, v};
  builder.output("plain", builder.attention({.q_heads = 4, .kv_heads = 2}, plain, f32));
  Attention all{.q_heads = 4,
                .kv_heads = 2,
                .mask_heads = 2,
                .masked = true,
                .scale = 0.1,
                .softcap = 1.5,
                .diagonal = -3,
                .empty_is_zero = true,
                .masked_score = -1e9};
  all.epilogue = add_one_extra(DType::i8);
  const ValueId operands[] = {q, k, v, mask, extra};
  builder.output("all", builder.attention(all, operands, DType::i8));
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::string text = print(*graph);
  const Result<Graph> parsed = parse_graph(text, {});
  ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
  EXPECT_EQ(*parsed, *graph) << text;
  EXPECT_EQ(print(*parsed), text);
  EXPECT_NE(text.find("%5 = attention %0 %1 %2 : f32[2,5,20] {q_heads=4 kv_heads=2}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("{q_heads=4 kv_heads=2 masked mask_heads=2 scale=0.1 softcap=1.5 diagonal=-3 empty_is_zero "
                      "masked_score=-1e+09 epilogue=\""),
            std::string::npos)
      << text;
}

TEST(AttentionGraph, ParserRefuses) {
  const std::string head = "low-graph 2\n%0 = input : f32[2,3,4]\n%1 = attention %0 %0 %0 : f32[2,3,4] ";
  ASSERT_TRUE(parse_graph(head + "{q_heads=2 kv_heads=2 scale=1}\n", {}));
  for (const std::string_view attributes :
       {"{kv_heads=2 scale=1}", "{q_heads=-2 kv_heads=2 scale=1}", "{q_heads=0 kv_heads=0 scale=1}",
        "{q_heads=2 kv_heads=2 scale=x}", "{q_heads=2 kv_heads=2 scale=inf}",
        "{q_heads=2 kv_heads=2 scale=1 softcap=-1}", "{q_heads=2 kv_heads=2 scale=1 diagonal=a}",
        "{q_heads=2 kv_heads=2 scale=1 mask_heads=2}", "{q_heads=2 kv_heads=2 scale=1 masked}",
        "{q_heads=2 kv_heads=2 scale=1 masked_score=-1}", "{q_heads=9223372036854775807 kv_heads=1 scale=1}",
        "{q_heads=9223372036854775808 kv_heads=1 scale=1}"}) {
    const Result<Graph> parsed = parse_graph(head + std::string(attributes) + "\n", {});
    ASSERT_FALSE(parsed) << attributes;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid) << attributes;
  }
}

void refuses(const Attention& attributes, const std::vector<Type>& operands, const Type& result,
             std::string_view part) {
  GraphBuilder builder;
  std::vector<ValueId> ids;
  for (const Type& operand : operands) ids.push_back(builder.input("x", operand));
  builder.add(attributes, ids, {&result, 1});
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_FALSE(graph) << part;
  EXPECT_NE(graph.error().message.find(part), std::string::npos) << graph.error().message;
}

TEST(AttentionGraph, VerifyRefuses) {
  const Type q{f32, {2, 5, 12}};
  const Type k{f32, {2, 7, 6}};
  const Type v{f32, {2, 7, 10}};
  const Type y{f32, {2, 5, 20}};
  const Attention good{.q_heads = 4, .kv_heads = 2};
  const std::string fit = "do not fit";
  refuses(good, {q, k}, y, "2 operands; 3 are needed");
  refuses(good, {q, k, v, v}, y, "4 operands; 3 are needed");
  refuses(good, {{DType::i8, {2, 5, 12}}, k, v}, y, "of i8");
  refuses({.q_heads = 4, .kv_heads = 3}, {q, k, v}, y, fit);
  refuses({.q_heads = 5, .kv_heads = 5}, {q, k, v}, y, fit);
  refuses({.q_heads = 2, .kv_heads = 2}, {q, k, v}, y, fit);  // 6 and 3 elements
  refuses({.q_heads = 0, .kv_heads = 2}, {q, k, v}, y, fit);
  refuses({.q_heads = 4, .kv_heads = -2}, {q, k, v}, y, fit);
  refuses(good, {{f32, {3, 5, 12}}, k, v}, y, fit);
  refuses(good, {q, {f32, {0, 7, 6}}, {f32, {0, 7, 10}}}, y, fit);
  refuses(good, {q, k, {f32, {2, 8, 10}}}, y, fit);
  refuses(good, {q, k, {f32, {1, 7, 10}}}, y, fit);
  refuses(good, {q, {f32, {2, 0, 6}}, {f32, {2, 0, 10}}}, y, fit);
  refuses(good, {q, k, {f32, {2, 7, 0}}}, {f32, {2, 5, 0}}, fit);
  refuses(good, {{f32, {2, 5, 0}}, {f32, {2, 7, 0}}, v}, y, fit);
  refuses(good, {{f32, {10, 12}}, k, v}, y, fit);
  refuses(good, {q, k, v}, {f32, {2, 5, 10}}, "f32[2,5,20] was expected");
  refuses(good, {q, k, v}, {DType::i8, {2, 5, 20}}, "to i8");
  refuses({.q_heads = 4, .kv_heads = 2, .scale = NAN}, {q, k, v}, y, "scale nan");
  refuses({.q_heads = 4, .kv_heads = 2, .softcap = -1}, {q, k, v}, y, "softcap -1");
  refuses({.q_heads = 4, .kv_heads = 2, .mask_heads = 2}, {q, k, v}, y, "2 heads of no mask");
  const Attention masked{.q_heads = 4, .kv_heads = 2, .mask_heads = 4, .masked = true};
  refuses(masked, {q, k, v}, y, "3 operands; 4 are needed");
  refuses(masked, {q, k, v, {DType::i8, {1, 1, 5, 7}}}, y, "masked by i8");
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 1, 5, 7}, Shape{1, 2, 5, 7}, Shape{1, 4, 4, 7}, Shape{1, 1, 5, 6}}) {
    refuses(masked, {q, k, v, {boolean, shape}}, y, "a mask bool");
  }
  refuses({.q_heads = 4, .kv_heads = 2, .mask_heads = 3, .masked = true}, {q, k, v, {boolean, {1, 1, 5, 7}}}, y,
          "a mask of 3 heads for 8");
  Attention scaled = good;
  scaled.epilogue = add_one_extra();
  refuses(scaled, {q, k, v, {f32, {5}}}, y, "does not broadcast");
  refuses(scaled, {q, k, v}, y, "2 inputs; 1 are given");
  refuses(scaled, {{DType::f64, {2, 5, 12}}, k, v, {f32, {20}}}, y, "input 0 as f32; it is f64");
}

}  // namespace
}  // namespace low
