#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

using testing::Code;
using testing::Memory;
using testing::Operand;

// One matrix product to be tried: a contract and how its operands lie.
struct Case {
  std::string what;
  KernelContract contract;
  Shape extents;  // of the run
  std::vector<Strides> strides;
};

// Row-major over two axes.
OperandContract rows(DType type) { return {type, {Access::strided, Access::unit}}; }
OperandContract columns(DType type) { return {type, {Access::unit, Access::strided}}; }

Expr convert_sum(DType sum, DType result, Overflow overflow = Overflow::propagate) {
  ExprBuilder builder(1);
  const uint16_t node = builder.convert(builder.input(0, sum), result, overflow);
  return std::move(builder).finish(node);
}

Case plain(int64_t m, int64_t n, int64_t k, DType a, DType b, DType result) {
  Case c;
  c.what = std::string(name(a)) + " " + std::string(name(b)) + " " + std::string(name(result)) + " " +
           to_string(Shape{m, n, k});
  c.extents = {m, n, k};
  // As the machine has it where it multiplies such floats.
  MathRate math = gemm_math(testing::test_machine(), DType::f32, a, b);
  if (!is_float(math.a) || math.a == DType::f64) math = {DType::f32, DType::f32};
  const GemmKernel kernel = gemm_kernel(testing::test_machine(), math, DType::f32, 0);
  c.contract = {
      .family = kernel, .operands = {rows(a), rows(b), rows(result)}, .expr = convert_sum(DType::f32, result)};
  // Leading strides beyond the row, as in a block of a larger matrix.
  c.strides = {Strides{k + 3, 1}, Strides{n + 5, 1}, Strides{n + 1, 1}};
  return c;
}

// b as panels of columns, with a gap between them.
Case in_panels(Case c) {
  c.what += " in panels";
  c.contract.get<GemmKernel>().panels = true;
  c.contract.operands[1].access = {Access::strided, Access::strided, Access::unit};
  c.strides[1] = Strides{(c.extents[2] + 1) * 16, 16, 1};
  return c;
}

bool has_panels() { return gemm_configurations(testing::test_machine()).packs; }

// Of panels the matrix [k, n].
std::vector<uint64_t> matrix_b(const KernelContract& contract, const Shape& extents, std::vector<uint64_t> values) {
  if (!contract.as<GemmKernel>()->panels) return values;
  std::vector<uint64_t> matrix;
  for (int64_t p = 0; p < extents[2]; ++p)
    for (int64_t j = 0; j < extents[1]; ++j)
      matrix.push_back(values[static_cast<size_t>((j / 16 * extents[2] + p) * 16 + j % 16)]);
  return matrix;
}

uint32_t add_run(KernelSet& kernels, const Case& c) { return testing::add_run(kernels, c.contract, c.extents); }

// The product in double; exact for small_values.
std::vector<double> sums_of(const KernelContract& contract, const Shape& extents, const std::vector<uint64_t>& a,
                            const std::vector<uint64_t>& b) {
  const int64_t m = extents[0], n = extents[1], k = extents[2];
  const auto value = [](DType type, uint64_t bits) {
    const auto wide = testing::identity(type);
    ExprBuilder builder(1);
    const uint16_t node = builder.convert(builder.input(0, type), DType::f64);
    const uint64_t inputs[] = {bits};
    return decode(DType::f64, evaluate(std::move(builder).finish(node), inputs));
  };
  std::vector<double> av, bv;
  for (const uint64_t bits : a) av.push_back(value(contract.operands[0].dtype, bits));
  for (const uint64_t bits : b) bv.push_back(value(contract.operands[1].dtype, bits));
  std::vector<double> sums(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < n; ++j) {
        sums[static_cast<size_t>(i * n + j)] += av[static_cast<size_t>(i * k + l)] * bv[static_cast<size_t>(l * n + j)];
      }
    }
  }
  return sums;
}

uint64_t sum_bits(DType type, double sum) {
  if (is_float(type)) return encode(type, sum, Overflow::propagate);
  const auto integer = static_cast<uint64_t>(static_cast<int64_t>(sum));
  return byte_size(type) == 8 ? integer : integer & 0xffffffffu;
}

void check(const std::vector<Case>& cases) {
  KernelSet kernels;
  std::vector<uint32_t> numbers;
  for (const Case& c : cases) numbers.push_back(testing::add_run(kernels, c.contract, c.extents));
  const std::vector<Code> codes = testing::compile_and_load(kernels);
  ASSERT_FALSE(codes.empty());
  constexpr uint64_t seed = 20;
  for (size_t index = 0; index < cases.size(); ++index) {
    const KernelContract& contract = cases[index].contract;
    std::mt19937_64 random(seed + index);
    Memory memory;
    std::vector<Operand> operands;
    std::vector<std::vector<uint64_t>> values;
    for (size_t i = 0; i < contract.operands.size(); ++i) {
      const DType type = contract.operands[i].dtype;
      operands.push_back(memory.add(type, operand_extents(contract, cases[index].extents, i), cases[index].strides[i]));
      if (i + 1 == contract.operands.size()) break;
      memory.write(operands[i], testing::small_values(type, operands[i].extents.elements(), random));
      values.push_back(memory.read(operands[i]));  // once more: strides of 0 make elements equal
    }
    const std::vector<double> sums =
        sums_of(contract, cases[index].extents, values[0], matrix_b(contract, cases[index].extents, values[1]));
    for (const Code& code : codes) {
      SCOPED_TRACE(cases[index].what + " for " + code.target);
      const std::vector<uint64_t> poison(static_cast<size_t>(operands.back().extents.elements()), 0);
      EXPECT_TRUE(memory.run(code, numbers[index], operands)) << "wrote outside of the result";
      const std::vector<uint64_t> got = memory.read(operands.back());
      size_t wrong = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        std::vector<uint64_t> inputs = {sum_bits(contract.as<GemmKernel>()->accumulate, sums[i])};
        for (size_t extra = 2; extra < values.size(); ++extra) inputs.push_back(values[extra][i]);
        const uint64_t want = evaluate(contract.expr, inputs);
        if (got[i] != want && ++wrong < 4) {
          ADD_FAILURE() << "element " << i << ": " << got[i] << " instead of " << want << ", sum " << sums[i];
        }
      }
      EXPECT_EQ(wrong, 0u);
      memory.write(operands.back(), poison);
    }
  }
}

TEST(Gemm, Sizes) {
  std::vector<Case> cases;
  for (const Shape& s : std::initializer_list<Shape>{{1, 1, 1},
                                                     {0, 5, 7},
                                                     {5, 0, 7},
                                                     {5, 7, 0},
                                                     {1, 32, 16},
                                                     {13, 31, 17},
                                                     {14, 32, 288},
                                                     {15, 33, 289},
                                                     {6, 16, 287},
                                                     {7, 17, 577},
                                                     {29, 67, 5},
                                                     {97, 101, 103},
                                                     {449, 33, 3},
                                                     {385, 16, 2},
                                                     {3, 2049, 2}}) {
    cases.push_back(plain(s[0], s[1], s[2], DType::f32, DType::f32, DType::f32));
  }
  check(cases);
}

// Panels that are multiplied where they lie, and such that are decoded: a part of a panel, an odd number of them, slices
// and rests of the depth; the columns beyond n hold anything.
TEST(Gemm, Panels) {
  if (!has_panels()) GTEST_SKIP() << "kernels of this machine read no panels";
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f8e4m3fn, DType::f8e5m2fnuz, DType::bf16, DType::f16, DType::i8}) {
    for (const Shape& s : std::initializer_list<Shape>{{1, 16, 16},
                                                       {1, 17, 1},
                                                       {2, 40, 3},
                                                       {6, 100, 5},
                                                       {3, 333, 290},
                                                       {7, 5, 2},
                                                       {15, 33, 289},
                                                       {30, 80, 3},
                                                       {29, 47, 34},
                                                       {5, 0, 7},
                                                       {0, 16, 7},
                                                       {20, 16, 0}}) {
      cases.push_back(in_panels(plain(s[0], s[1], s[2], type, type, DType::f32)));
    }
    cases.push_back(in_panels(plain(9, 2049, 2, DType::f32, type, DType::f32)));
    cases.push_back(in_panels(plain(2, 2049, 2, DType::f32, type, DType::f32)));
  }
  check(cases);
}

// Few rows: b goes from where it lies to registers. One column less and more than a vector, chunks of several vectors,
// a second block of columns, a second slice of the depth; each with all storage types of b that have a path of their
// own.
TEST(Gemm, FewRows) {
  if (!has_panels()) GTEST_SKIP() << "no kernel of this machine unrolls rows";
  std::vector<Case> cases;
  for (const int64_t n : {7, 8, 9, 15, 16, 33, 100})
    cases.push_back(plain(1, n, 5, DType::f32, DType::f32, DType::f32));
  for (const int64_t m : {1, 2, 3, 4, 6, 7}) {
    cases.push_back(plain(m, 17, 5, DType::f32, DType::f32, DType::f32));
    cases.push_back(plain(m, 269, 289, DType::f32, DType::f8e4m3fn, DType::f32));
  }
  cases.push_back(plain(1, 721, 11, DType::bf16, DType::f32, DType::f32));
  cases.push_back(plain(2, 2049, 2, DType::f32, DType::f8e4m3fn, DType::f32));
  for (const DType type : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2,
                           DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::i8, DType::boolean}) {
    cases.push_back(plain(3, 77, 300, type, type, DType::f32));
    Case rounded = plain(2, 49, 3, type, type, DType::f32);
    rounded.contract.family = GemmKernel{.math_a = DType::f8e4m3fn, .math_b = DType::f8e4m3fn};
    cases.push_back(rounded);
    Case transposed = plain(2, 49, 37, type, type, DType::f32);
    transposed.contract.operands[1] = columns(type);
    transposed.strides[1] = Strides{1, 40};
    cases.push_back(transposed);
  }
  check(cases);
}

// Random values: the rows of a small product are those of a larger one, on every target, bit for bit.
TEST(Gemm, SumsDependOnNeitherRowsNorTarget) {
  const int64_t n = 77, k = 701, most = 31;
  for (const auto& [a_type, type] : {std::pair{DType::f32, DType::f32},
                                     {DType::f32, DType::f8e4m3fn},
                                     {DType::f8e4m3fn, DType::f8e4m3fn},
                                     {DType::f8e5m2, DType::f8e4m3fnuz},
                                     {DType::f8e5m2fnuz, DType::f8e5m2},
                                     {DType::bf16, DType::bf16},
                                     {DType::bf16, DType::f8e4m3fn}}) {
    KernelSet kernels;
    const int64_t sizes[] = {most, 1, 2, 3, 5, 9};
    std::mt19937_64 random(11);
    std::normal_distribution<double> normal;
    Memory memory;
    Operand a = memory.add(a_type, {most, k}), b = memory.add(type, {k, n});
    Operand b_columns = memory.add(type, {k, n}, Strides{1, k}), result = memory.add(DType::f32, {most, n});
    const Operand b_panels = memory.add(type, {(n + 15) / 16, k, 16});
    struct Run {
      uint32_t kernel;
      int64_t m;
      const Operand* b;
    };
    std::vector<Run> runs;
    for (const int64_t m : sizes) {
      const Case c = plain(m, n, k, a_type, type, DType::f32);
      runs.push_back({add_run(kernels, c), m, &b});
      if (has_panels()) runs.push_back({add_run(kernels, in_panels(c)), m, &b_panels});
    }
    Case transposed = plain(1, n, k, a_type, type, DType::f32);
    transposed.contract.operands[1] = columns(type);
    runs.push_back({add_run(kernels, transposed), 1, &b_columns});
    std::vector<uint64_t> a_values, b_values;
    for (int64_t i = 0; i < most * k; ++i) a_values.push_back(encode(a_type, normal(random), Overflow::saturate));
    for (int64_t i = 0; i < k * n; ++i) b_values.push_back(encode(type, normal(random), Overflow::saturate));
    memory.write(a, a_values);
    memory.write(b, b_values);
    memory.write(b_columns, b_values);
    for (int64_t i = 0; i < k * n; ++i)
      memory.set_bits(b_panels, (i % n / 16 * k + i / n) * 16 + i % n % 16, b_values[static_cast<size_t>(i)]);
    std::vector<uint64_t> expected;
    for (const Code& code : testing::compile_and_load(kernels)) {
      for (const auto& [kernel, m, matrix] : runs) {
        a.extents = {m, k};
        result.extents = {m, n};
        ASSERT_TRUE(memory.run(code, kernel, {a, *matrix, result}));
        std::vector<uint64_t> got = memory.read(result);
        if (expected.empty()) expected = got;
        EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin()))
            << code.target << ", " << m << " rows of " << name(type);
      }
    }
  }
}

// All codes of the FP8 formats, NaN included, through every way in which b is decoded: 1 * code.
TEST(Gemm, DecodesEveryCode) {
  using enum DType;
  for (const auto& [a_type, type] : {std::pair{f32, f8e4m3fn},
                                     {f32, f8e5m2},
                                     {f32, f8e4m3fnuz},
                                     {f32, f8e5m2fnuz},
                                     {bf16, f8e4m3fn},
                                     {bf16, f8e5m2},
                                     {bf16, f8e4m3fnuz},
                                     {bf16, f8e5m2fnuz}}) {
    KernelSet kernels;
    const uint32_t one_row = add_run(kernels, plain(1, 256, 1, a_type, type, DType::f32)),
                   rows_20 = add_run(kernels, plain(20, 256, 1, a_type, type, DType::f32));
    Case deep = plain(1, 16, 16, a_type, type, DType::f32);  // transposed in registers; other codes times 0
    deep.contract.operands[1] = columns(type);
    const uint32_t deep_kernel = add_run(kernels, deep);
    for (const Code& code : testing::compile_and_load(kernels)) {
      Memory memory;
      const Operand a = memory.add(a_type, {20, 1}), b = memory.add(type, {1, 256}),
                    one_hot = memory.add(a_type, {1, 16}), square = memory.add(type, {16, 16}, Strides{1, 16}),
                    result = memory.add(DType::f32, {20, 256});
      memory.write(a, std::vector<uint64_t>(20, encode(a_type, 1, Overflow::propagate)));
      const auto same = [&](uint64_t bits, uint64_t code_bits) {
        const double value = decode(DType::f32, bits), want = decode(type, code_bits);
        return std::isnan(want) ? std::isnan(value) : value == want;
      };
      for (uint64_t i = 0; i < 256; ++i) memory.set_bits(b, static_cast<int64_t>(i), i);
      for (const auto& [kernel, m] : {std::pair{one_row, int64_t{1}}, {rows_20, int64_t{20}}}) {
        Operand ones = a, out = result;
        ones.extents = {m, 1};
        out.extents = {m, 256};
        ASSERT_TRUE(memory.run(code, kernel, {ones, b, out}));
        for (uint64_t i = 0; i < 256; ++i) {
          EXPECT_TRUE(same(memory.bits(out, static_cast<int64_t>(i)), i))
              << code.target << " " << name(type) << " " << i;
        }
      }
      for (uint64_t first = 0; first < 256; first += 16) {
        std::vector<uint64_t> depth(16, 0);
        depth[first / 16] = encode(a_type, 1, Overflow::propagate);
        memory.write(one_hot, depth);
        std::vector<uint64_t> codes(256, 0);
        for (uint64_t j = 0; j < 16; ++j) codes[first + j] = first + j;
        memory.write(square, codes);
        Operand out = result;
        out.extents = {1, 16};
        ASSERT_TRUE(memory.run(code, deep_kernel, {one_hot, square, out}));
        for (uint64_t j = 0; j < 16; ++j) {
          EXPECT_TRUE(same(memory.bits(out, static_cast<int64_t>(j)), first + j))
              << code.target << " " << name(type) << " " << first + j;
        }
      }
    }
  }
}

TEST(Gemm, StorageTypes) {
  const DType types[] = {DType::f32,    DType::f16,        DType::bf16,      DType::f8e4m3fn,
                         DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz};
  std::vector<Case> cases;
  for (const DType a : types) {
    for (const DType b : types) cases.push_back(plain(19, 37, 23, a, b, DType::f32));
    cases.push_back(plain(19, 37, 3, a, a, a));  // and as results: few bits, so few products
  }
  cases.push_back(plain(5, 7, 11, DType::f64, DType::u8, DType::f32));
  for (const DType math : {DType::f16, DType::bf16, DType::f8e4m3fn}) {
    cases.push_back(plain(5, 37, 11, DType::f8e5m2, DType::f32, DType::f32));
    cases.back().contract.family = GemmKernel{.math_a = math, .math_b = math};
  }
  // Each operand has its own.
  for (const int64_t m : {2, 19}) {
    cases.push_back(plain(m, 37, 23, DType::f32, DType::f32, DType::f32));
    cases.back().contract.family = GemmKernel{.math_a = DType::f8e5m2, .math_b = DType::f8e4m3fn};
  }
  check(cases);
}

TEST(Gemm, Orders) {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f8e4m3fn, DType::bf16}) {
    const int64_t m = 21, n = 39, k = 33;
    Case transposed_a = plain(m, n, k, type, type, DType::f32);
    transposed_a.contract.operands[0] = columns(type);
    transposed_a.strides[0] = Strides{1, m + 2};
    cases.push_back(transposed_a);
    Case transposed_b = plain(m, n, k, type, type, DType::f32);
    transposed_b.contract.operands[1] = columns(type);
    transposed_b.strides[1] = Strides{1, k + 7};
    cases.push_back(transposed_b);
    Case transposed_result = plain(m, n, k, type, type, DType::f32);
    transposed_result.contract.operands[2] = columns(DType::f32);
    transposed_result.strides[2] = Strides{1, m};
    cases.push_back(transposed_result);
    Case strided = plain(m, n, k, type, type, DType::f32);
    for (OperandContract& operand : strided.contract.operands) operand.access = {Access::strided, Access::strided};
    strided.strides = {Strides{2 * k, 2}, Strides{-3 * n, -3}, Strides{4 * n + 3, 4}};
    cases.push_back(strided);
    Case broadcast = plain(m, n, k, type, type, DType::f32);
    broadcast.contract.operands[0].access = {Access::broadcast, Access::unit};
    broadcast.contract.operands[1].access = {Access::strided, Access::broadcast};
    broadcast.strides[0] = Strides{0, 1};
    broadcast.strides[1] = Strides{2, 0};
    cases.push_back(broadcast);
  }
  for (Case& c : cases) c.what += " order " + std::to_string(&c - cases.data());
  check(cases);
}

// sum * scale + bias + other -> FP8, with extras of every access.
TEST(Gemm, Epilogues) {
  std::vector<Case> cases;
  for (const DType result : {DType::f32, DType::f8e4m3fn, DType::f8e5m2fnuz, DType::i8, DType::boolean}) {
    const int64_t m = 17, n = 45, k = 7;
    Case c = plain(m, n, k, DType::f8e4m3fn, DType::f32, result);
    ExprBuilder builder(5);
    uint16_t node = builder.binary(ExprOp::mul, builder.input(0, DType::f32), builder.input(1, DType::f32));
    node = builder.binary(ExprOp::add, node, builder.convert(builder.input(2, DType::f16), DType::f32));
    node = builder.binary(ExprOp::add, node, builder.input(3, DType::f32));
    node = builder.where(builder.input(4, DType::boolean), node, builder.unary(ExprOp::neg, node));
    c.contract.expr = std::move(builder).finish(builder.convert(node, result, Overflow::saturate));
    c.contract.operands = {rows(DType::f8e4m3fn),
                           rows(DType::f32),
                           {DType::f32, {Access::broadcast, Access::broadcast}},
                           {DType::f16, {Access::broadcast, Access::unit}},
                           {DType::f32, {Access::strided, Access::broadcast}},
                           {DType::boolean, {Access::strided, Access::strided}},
                           rows(result)};
    c.strides = {Strides{k, 1}, Strides{n, 1},      Strides{0, 0}, Strides{0, 1},
                 Strides{3, 0}, Strides{2 * n, -2}, Strides{n, 1}};
    cases.push_back(c);
  }
  check(cases);
}

TEST(Gemm, IntegersAndDoubles) {
  std::vector<Case> cases;
  const auto add = [&](DType a, DType b, DType math, DType sum, DType result) {
    Case c = plain(11, 71, 13, a, b, result);
    c.contract.family = GemmKernel{.math_a = math, .math_b = math, .accumulate = sum};
    c.contract.expr = convert_sum(sum, result);
    cases.push_back(c);
  };
  add(DType::f64, DType::f64, DType::f64, DType::f64, DType::f64);
  add(DType::f32, DType::f64, DType::f64, DType::f64, DType::f32);
  add(DType::i8, DType::u8, DType::i32, DType::i32, DType::i32);
  add(DType::i32, DType::i32, DType::i32, DType::i32, DType::i32);
  add(DType::i64, DType::i64, DType::i64, DType::i64, DType::i64);
  add(DType::u32, DType::u32, DType::u32, DType::u32, DType::u32);
  add(DType::u64, DType::u8, DType::u64, DType::u64, DType::f32);
  Case empty = cases[0];
  empty.extents = {11, 71, 0};
  cases.push_back(empty);
  check(cases);
}

// All values of 8 bits, in every order and through every way in which b is read: rests of the depth, where a word has
// fewer elements than it could, and of columns; sums of 32 bits that wrap around.
TEST(Gemm, IntegersOf8Bits) {
  KernelSet kernels;
  std::vector<Case> cases;
  std::vector<uint32_t> numbers;
  const auto add = [&](const Case& c) {
    cases.push_back(c);
    numbers.push_back(add_run(kernels, c));
  };
  const bool small = !has_panels();  // blocks of GPUs are
  for (const auto& [sum, m, n, k] :
       std::initializer_list<std::tuple<DType, int64_t, int64_t, int64_t>>{{DType::i32, 1, 16, 1},
                                                                           {DType::i32, 1, 100, 66},
                                                                           {DType::i32, 1, 2049, 3},
                                                                           {DType::i32, 1, 17, 40000},
                                                                           {DType::u32, 3, 33, 291},
                                                                           {DType::u32, 5, 7, 9},
                                                                           {DType::i32, 29, 47, 34},
                                                                           {DType::i32, 450, 33, 5},
                                                                           {DType::i32, 20, 16, 0}}) {
    if (small && m * n * k > 50000) continue;
    for (const DType a : {DType::i8, DType::u8}) {
      for (const DType b : {DType::i8, DType::u8}) {
        Case c = plain(m, n, k, a, b, sum);
        c.contract.family = GemmKernel{.math_a = sum, .math_b = sum, .accumulate = sum};
        c.contract.expr = testing::identity(sum);
        add(c);
        if (has_panels()) add(in_panels(c));
        c.contract.operands[0] = columns(a);
        c.contract.operands[1] = columns(b);
        c.strides[0] = Strides{1, m + 2};
        c.strides[1] = Strides{1, k + 7};
        add(c);
      }
    }
  }
  const std::vector<Code> codes = testing::compile_and_load(kernels);
  std::mt19937_64 random(5);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const DType sum = c.contract.operands[2].dtype;
    Memory memory;
    std::vector<Operand> operands;
    for (size_t j = 0; j < 3; ++j) {
      operands.push_back(
          memory.add(c.contract.operands[j].dtype, operand_extents(c.contract, c.extents, j), c.strides[j]));
      if (j == 2) break;
      std::vector<uint64_t> values;
      for (int64_t left = operands[j].extents.elements(); left > 0; --left)
        values.push_back(c.extents[2] > 33025 ? 0xff : random() & 0xff);
      memory.write(operands[j], values);
    }
    const std::vector<double> want = sums_of(c.contract, c.extents, memory.read(operands[0]),
                                             matrix_b(c.contract, c.extents, memory.read(operands[1])));
    for (const Code& code : codes) {
      SCOPED_TRACE(c.what + " for " + code.target + ", case " + std::to_string(i));
      ASSERT_TRUE(memory.run(code, numbers[i], operands)) << "wrote outside of the result";
      const std::vector<uint64_t> got = memory.read(operands[2]);
      for (size_t j = 0; j < got.size(); ++j) ASSERT_EQ(got[j], sum_bits(sum, want[j])) << "element " << j;
    }
  }
}

// Infinities and NaNs of FP8 take part alike on all targets, NaN's sign apart, whatever lies beside them in a pair.
TEST(Gemm, SpecialValuesOfNarrowFormats) {
  const int64_t m = 23, n = 41, k = 37;
  for (const DType type : {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::bf16}) {
    KernelSet kernels;
    const Case c = plain(m, n, k, type, type, DType::f32);
    add_run(kernels, c);
    std::mt19937_64 random(3);
    Memory memory;
    const Operand a = memory.add(type, {m, k}), b = memory.add(type, {k, n}), r = memory.add(DType::f32, {m, n});
    memory.write(a, testing::small_values(type, m * k, random));
    memory.write(b, testing::small_values(type, k * n, random));
    memory.set_bits(a, 3 * k + 5, encode(type, std::nan(""), Overflow::propagate));
    memory.set_bits(a, 4 * k + 6, encode(type, INFINITY, Overflow::propagate));
    memory.set_bits(b, 36 * n + 7, encode(type, -INFINITY, Overflow::propagate));
    const std::vector<double> want = sums_of(c.contract, c.extents, memory.read(a), memory.read(b));
    for (const Code& code : testing::compile_and_load(kernels)) {
      SCOPED_TRACE(std::string(name(type)) + " for " + code.target);
      ASSERT_TRUE(memory.run(code, 0, {a, b, r}));
      const std::vector<uint64_t> got = memory.read(r);
      for (size_t i = 0; i < got.size(); ++i) {
        const double value = decode(DType::f32, got[i]);
        EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(value) : value == want[i])
            << i << ": " << value << ", " << want[i];
      }
    }
  }
}

// Random values: the error stays near that of f32 sums; infinities and NaN come through.
TEST(Gemm, RoundingAndSpecialValues) {
  const int64_t m = 23, n = 41, k = 700;
  Case c = plain(m, n, k, DType::f32, DType::f32, DType::f32);
  KernelSet kernels;
  add_run(kernels, c);
  for (const Code& code : testing::compile_and_load(kernels)) {
    SCOPED_TRACE(code.target);
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    Memory memory;
    const Operand a = memory.add(DType::f32, {m, k}), b = memory.add(DType::f32, {k, n}),
                  r = memory.add(DType::f32, {m, n});
    for (const Operand* operand : {&a, &b}) {
      Memory::each(*operand, [&](int64_t element, int64_t) {
        memory.set_bits(*operand, element, encode(DType::f32, normal(random), Overflow::propagate));
      });
    }
    memory.set_bits(a, 3 * k + 5, encode(DType::f32, std::nan(""), Overflow::propagate));
    memory.set_bits(a, 4 * k + 6, encode(DType::f32, INFINITY, Overflow::propagate));
    ASSERT_TRUE(memory.run(code, 0, {a, b, r}));
    const std::vector<double> want = sums_of(c.contract, c.extents, memory.read(a), memory.read(b));
    const std::vector<uint64_t> got = memory.read(r);
    for (int64_t i = 0; i < m * n; ++i) {
      const double value = decode(DType::f32, got[static_cast<size_t>(i)]), expected = want[static_cast<size_t>(i)];
      if (std::isfinite(expected)) {
        EXPECT_NEAR(value, expected,
                    1e-4);  // sums of 700 products of variance 1: about 26, each step off by 1e-6 at most
      } else if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, expected);
      }
    }
  }
}

// Operands that end where the next page must not be touched.
TEST(Gemm, ReadsNothingBeyondItsOperands) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const int64_t m = 15, n = 37, k = 19;
  for (const DType type : {DType::f32, DType::f8e4m3fn, DType::bf16}) {
    Case c = plain(m, n, k, type, type, DType::f32);
    c.contract.operands.insert(c.contract.operands.begin() + 2, rows(type));
    ExprBuilder builder(2);
    const uint16_t extra = builder.convert(builder.input(1, type), DType::f32);
    c.contract.expr = std::move(builder).finish(builder.binary(ExprOp::add, builder.input(0, DType::f32), extra));
    Case transposed = c;
    transposed.contract.operands[0] = transposed.contract.operands[1] = columns(type);
    KernelSet kernels;
    add_run(kernels, c);
    add_run(kernels, transposed);
    for (const Code& code : testing::compile_and_load(kernels)) {
      if (code.target.starts_with(simt_prefix)) continue;  // which know where operands end
      for (uint32_t kernel = 0; kernel < 2; ++kernel) {
        Memory memory;
        const Operand result = memory.add(DType::f32, {m, n});
        std::vector<Operand> operands;
        std::vector<void*> pages;
        for (const Shape& shape : {Shape{m, k}, Shape{k, n}, Shape{m, n}}) {
          void* const begin = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          ASSERT_NE(begin, MAP_FAILED);
          ASSERT_EQ(mprotect(static_cast<char*>(begin) + page, page, PROT_NONE), 0);
          pages.push_back(begin);
          const auto bytes = static_cast<size_t>(shape.elements()) * byte_size(type);
          ASSERT_LE(bytes, page);
          // Relative to the arena, which wraps around to any address.
          const uint64_t offset =
              reinterpret_cast<uint64_t>(begin) + page - bytes - reinterpret_cast<uint64_t>(memory.base());
          const bool rows_first = kernel == 0 || pages.size() == 3;
          operands.push_back({type, shape, rows_first ? Strides{shape[1], 1} : Strides{1, shape[0]}, offset, {}});
        }
        operands.push_back(result);
        EXPECT_TRUE(memory.run(code, kernel, operands));
        for (const uint64_t bits : memory.read(result)) EXPECT_EQ(bits, 0u);
        for (void* const begin : pages) munmap(begin, 2 * page);
      }
    }
  }
}

TEST(Gemm, TermsOfRepeats) {
  KernelSet kernels;
  add_run(kernels, plain(2, 3, 4, DType::f32, DType::f32, DType::f32));
  const Code code = testing::compile_and_load(kernels).front();
  Memory memory;
  std::mt19937_64 random(3);
  Operand a = memory.add(DType::f32, {5, 2, 4}), b = memory.add(DType::f32, {4, 3}),
          r = memory.add(DType::f32, {2, 2, 3});
  memory.write(a, testing::small_values(DType::f32, 40, random));
  memory.write(b, testing::small_values(DType::f32, 12, random));
  const std::vector<uint64_t> all = memory.read(a);
  a.extents = {2, 4}, a.strides = {4, 1}, a.terms = {{2 * 4 * 4, 1, 5}};  // one matrix an iteration of the inner loop
  r.extents = {2, 3}, r.strides = {3, 1}, r.terms = {{0, 0, 3}, {2 * 3 * 4, 1, 2}};  // ping-pong
  std::vector<uint64_t> iterations(abi::max_levels, 0);
  iterations[0] = 9;
  iterations[1] = 3;
  ASSERT_TRUE(memory.run(code, 0, {a, b, r}, {}, iterations));
  const std::vector<uint64_t> third(all.begin() + 3 * 8, all.begin() + 4 * 8);
  const std::vector<double> want = sums_of(kernels.contracts[0], {2, 3, 4}, third, memory.read(b));
  r.offset += 2 * 3 * 4;  // iteration 3 modulo 2
  const std::vector<uint64_t> got = memory.read(r);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(decode(DType::f32, got[i]), want[i]);
}

}  // namespace
}  // namespace low
