// Loops of pointwise and copy kernels: every access, order, broadcast and size; the arithmetic is expression_test's.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

using testing::Code;
using testing::Memory;
using testing::Operand;

struct Case {
  std::string what;
  Shape extents;
  std::vector<Strides> strides;  // inputs, result
  std::vector<std::vector<Access>> access;
};

// The access classes that fit the strides.
std::vector<Access> access_of(const Shape& extents, const Strides& strides) {
  std::vector<Access> access;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    access.push_back(extents[axis] == 1 || strides[axis] == 0 ? Access::broadcast
                     : strides[axis] == 1                     ? Access::unit
                                                              : Access::strided);
  }
  return access;
}

// a * b + c, with a: f32, b: f16, c: i16 -> f32 or FP8.
Expr body(DType result) {
  ExprBuilder builder(3);
  const uint16_t product = builder.binary(ExprOp::mul, builder.input(0, DType::f32),
                                          builder.convert(builder.input(1, DType::f16), DType::f32));
  const uint16_t sum = builder.binary(ExprOp::add, product, builder.convert(builder.input(2, DType::i16), DType::f32));
  return std::move(builder).finish(builder.convert(sum, result));
}

TEST(Pointwise, Loops) {
  std::vector<Case> cases;
  const auto add = [&](std::string what, const Shape& extents, std::vector<Strides> strides) {
    Case c{std::move(what), extents, std::move(strides), {}};
    for (const Strides& s : c.strides) c.access.push_back(access_of(extents, s));
    cases.push_back(c);
  };
  for (const int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 97, 1000}) {
    add("vector " + std::to_string(n), {n}, {Strides{1}, Strides{1}, Strides{1}, Strides{1}});
  }
  add("empty", {0}, {Strides{1}, Strides{1}, Strides{1}, Strides{1}});
  add("empty outer", {3, 0, 5}, {Strides{5, 5, 1}, Strides{5, 5, 1}, Strides{5, 5, 1}, Strides{5, 5, 1}});
  add("dense", {3, 5, 7}, {Strides{35, 7, 1}, Strides{35, 7, 1}, Strides{35, 7, 1}, Strides{35, 7, 1}});
  add("all extents 1", {1, 1, 1}, {Strides{1, 1, 1}, Strides{0, 0, 0}, Strides{9, 9, 9}, Strides{3, 2, 1}});
  add("trailing 1", {37, 1}, {Strides{1, 1}, Strides{3, 0}, Strides{0, 7}, Strides{2, 1}});
  add("row and column", {19, 23}, {Strides{23, 1}, Strides{0, 1}, Strides{1, 0}, Strides{23, 1}});
  add("scalars", {19, 23}, {Strides{0, 0}, Strides{0, 0}, Strides{0, 0}, Strides{23, 1}});
  add("padded rows", {19, 33}, {Strides{40, 1}, Strides{33, 1}, Strides{50, 1}, Strides{64, 1}});
  add("transposed", {19, 33}, {Strides{1, 19}, Strides{33, 1}, Strides{1, 20}, Strides{1, 19}});
  add("negative", {5, 7}, {Strides{-7, -1}, Strides{7, -1}, Strides{-8, 1}, Strides{-7, -1}});
  add("steps", {5, 37}, {Strides{100, 2}, Strides{111, 3}, Strides{-200, -5}, Strides{150, 4}});
  add("partly mergeable", {2, 3, 4, 5},
      {Strides{60, 20, 5, 1}, Strides{60, 20, 5, 1}, Strides{0, 20, 5, 1}, Strides{60, 20, 5, 1}});
  add("rank 8", {2, 1, 3, 2, 1, 2, 3, 5},
      {Strides{180, 180, 60, 30, 30, 15, 5, 1}, Strides{0, 0, 60, 30, 0, 15, 0, 1}, Strides{1, 0, 2, 6, 0, 12, 24, 72},
       Strides{180, 180, 60, 30, 30, 15, 5, 1}});
  for (const DType result : {DType::f32, DType::f8e4m3fn}) {
    KernelSet kernels;
    std::vector<uint32_t> numbers;
    for (const Case& c : cases) {
      KernelContract contract;
      const DType types[] = {DType::f32, DType::f16, DType::i16, result};
      for (size_t i = 0; i < 4; ++i) contract.operands.push_back({types[i], c.access[i]});
      contract.expr = body(result);
      numbers.push_back(testing::add_run(kernels, contract, c.extents));
    }
    for (const Code& code : testing::compile_and_load(kernels)) {
      for (size_t index = 0; index < cases.size(); ++index) {
        const Case& c = cases[index];
        SCOPED_TRACE(code.target + " " + c.what);
        std::mt19937_64 random(index);
        Memory memory;
        std::vector<Operand> operands;
        std::vector<std::vector<uint64_t>> values;
        for (size_t i = 0; i < 4; ++i) {
          const DType type = kernels.contracts[numbers[index]].operands[i].dtype;
          operands.push_back(memory.add(type, c.extents, c.strides[i]));
          if (i == 3) break;
          memory.write(operands[i], testing::small_values(type, c.extents.elements(), random));
          values.push_back(memory.read(operands[i]));
        }
        EXPECT_TRUE(memory.run(code, numbers[index], operands)) << "wrote outside of the result";
        const std::vector<uint64_t> got = memory.read(operands[3]);
        std::vector<uint64_t> want;
        for (size_t i = 0; i < got.size(); ++i) {
          const uint64_t inputs[] = {values[0][i], values[1][i], values[2][i]};
          want.push_back(evaluate(kernels.contracts[numbers[index]].expr, inputs));
        }
        EXPECT_EQ(got, want);
      }
    }
  }
}

// The result lies where an input lies.
TEST(Pointwise, InPlace) {
  KernelSet kernels;
  KernelContract contract;
  const Shape extents{5, 71};
  const OperandContract rows{DType::f32, {Access::strided, Access::unit}};
  contract.operands = {rows, rows, rows};
  ExprBuilder builder(2);
  contract.expr = std::move(builder).finish(
      builder.binary(ExprOp::sub, builder.input(0, DType::f32), builder.input(1, DType::f32)));
  testing::add_run(kernels, contract, extents);
  for (const Code& code : testing::compile_and_load(kernels)) {
    Memory memory;
    const Operand a = memory.add(DType::f32, extents), b = memory.add(DType::f32, extents);
    std::mt19937_64 random(4);
    memory.write(a, testing::small_values(DType::f32, 5 * 71, random));
    memory.write(b, testing::small_values(DType::f32, 5 * 71, random));
    const std::vector<uint64_t> before = memory.read(a), other = memory.read(b);
    ASSERT_TRUE(memory.run(code, 0, {a, b, a}));
    const std::vector<uint64_t> after = memory.read(a);
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(decode(DType::f32, after[i]), decode(DType::f32, before[i]) - decode(DType::f32, other[i]));
    }
  }
}

TEST(Pointwise, WithoutInputs) {
  KernelSet kernels;
  KernelContract contract;
  contract.operands = {{DType::i64, {Access::unit}}};
  ExprBuilder builder(0);
  contract.expr = std::move(builder).finish(builder.constant(DType::i64, -7));
  testing::add_run(kernels, contract, {41});
  for (const Code& code : testing::compile_and_load(kernels)) {
    Memory memory;
    const Operand r = memory.add(DType::i64, {41});
    ASSERT_TRUE(memory.run(code, 0, {r}));
    EXPECT_EQ(memory.read(r), std::vector<uint64_t>(41, static_cast<uint64_t>(int64_t{-7})));
  }
}

struct Copy {
  std::string what;
  uint32_t kernel;
  Shape counts;
  Strides source, destination;
  int64_t chunk;
};

TEST(Copy, LoopsAndConversions) {
  KernelSet kernels;
  kernels.copies = {
      {DType::f32, DType::f32, Overflow::propagate},         {DType::f32, DType::f8e4m3fn, Overflow::saturate},
      {DType::f32, DType::f8e4m3fn, Overflow::propagate},    {DType::f8e5m2, DType::f32, Overflow::propagate},
      {DType::boolean, DType::boolean, Overflow::propagate}, {DType::i64, DType::u8, Overflow::propagate},
      {DType::boolean, DType::f16, Overflow::propagate},     {DType::u8, DType::u8, Overflow::propagate}};
  const std::vector<Copy> copies = {
      {"one chunk", 0, {}, {}, {}, 1000},
      {"one element", 0, {}, {}, {}, 1},
      {"nothing", 0, {}, {}, {}, 0},
      {"no rows", 0, {0}, {5}, {5}, 5},
      {"rows", 0, {7}, {19}, {13}, 13},
      {"long rows", 0, {3}, {400}, {300}, 300},
      {"transpose", 0, {11, 7}, {1, 11}, {7, 1}, 1},
      {"transpose of blocks", 0, {67, 71}, {1, 70}, {73, 1}, 1},
      {"transpose of blocks, backwards", 0, {67, 33}, {-1, 70}, {40, -1}, 1},
      {"transpose between", 0, {37, 3, 35}, {1, 40, 120}, {105, 35, 1}, 1},
      {"transpose of bytes", 7, {67, 71}, {1, 70}, {73, 1}, 1},
      {"transpose of one row", 0, {1, 71}, {1, 70}, {73, 1}, 1},
      {"to FP8, blocks", 1, {45, 39}, {1, 45}, {39, 1}, 1},
      {"reverse", 0, {9}, {-3}, {3}, 3},
      {"reverse elements", 0, {9}, {-1}, {1}, 1},
      {"broadcast", 0, {4, 5}, {0, 8}, {40, 8}, 8},
      {"rank 8", 0, {2, 1, 2, 3, 1, 2, 2, 2}, {192, 0, 96, 32, 0, 16, 8, 4}, {192, 0, 96, 32, 0, 16, 8, 4}, 3},
      {"to FP8", 1, {5}, {70}, {67}, 67},
      {"to FP8, transposed", 1, {5, 9}, {1, 5}, {9, 1}, 1},
      {"to FP8, unsaturated", 2, {5}, {70}, {67}, 67},
      {"from FP8", 3, {3}, {50}, {60}, 41},
      {"booleans", 4, {3}, {50}, {60}, 41},
      {"integers", 5, {3}, {50}, {60}, 41},
      {"boolean to f16", 6, {3}, {50}, {60}, 41},
      {"bytes", 7, {3}, {5000}, {6000}, 4099},
  };
  for (const Code& code : testing::compile_and_load(kernels)) {
    for (const Copy& c : copies) {
      SCOPED_TRACE(code.target + " " + c.what);
      const CopyKernel kernel = kernels.copies[c.kernel];
      const auto with_chunk = [&](const Shape& shape, int64_t last) {
        Shape all = shape;
        if (shape.rank() < max_rank) {
          all.append(last);
        }
        return all;
      };
      // The box as a view with one axis more: the chunk's (rank 8 has no room; its chunk counts as one element then).
      const bool whole = c.counts.rank() < max_rank;
      std::mt19937_64 random(11);
      Memory memory;
      Operand source = memory.add(kernel.source, with_chunk(c.counts, c.chunk), with_chunk(c.source, 1));
      Operand destination = memory.add(kernel.destination, with_chunk(c.counts, c.chunk), with_chunk(c.destination, 1));
      const int64_t chunk = whole ? c.chunk : 1;
      std::vector<uint64_t> values;
      for (int64_t i = 0; i < source.extents.elements(); ++i) {
        // Beyond the range of FP8, too.
        values.push_back(kernel.source == DType::f32
                             ? encode(DType::f32, static_cast<double>(random() % 2000) - 1000, Overflow::propagate)
                             : testing::small_value(kernel.source, random));
      }
      memory.write(source, values);
      const std::vector<uint64_t> from = memory.read(source);
      std::vector<int64_t> data;
      data.insert(data.end(), c.counts.begin(), c.counts.end());
      data.push_back(chunk);
      // The kernel reads one stride for each count.
      Operand bound_source = source, bound_destination = destination;
      bound_source.strides = source.strides;
      EXPECT_TRUE(memory.run(code, c.kernel, {bound_source, bound_destination}, data));
      const std::vector<uint64_t> got = memory.read(destination);
      ExprBuilder builder(1);
      const uint16_t node = builder.convert(builder.input(0, kernel.source), kernel.destination, kernel.overflow);
      const Expr expr = std::move(builder).finish(node);
      std::vector<uint64_t> want;
      for (const uint64_t bits : from) {
        const uint64_t inputs[] = {bits};
        want.push_back(evaluate(expr, inputs));
      }
      EXPECT_EQ(got, want);
    }
  }
}

}  // namespace
}  // namespace low
