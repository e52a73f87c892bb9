// attention kernels against a softmax in double over the whole row, and against the interpreter: sizes, layouts, dtypes
// and options.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/codegen/test_kernels.h"
#include "compiler/interpret/kernels.h"
#include "compiler/kernels/contract.h"

namespace low {
namespace {

using testing::Code;
using testing::Memory;
using testing::Operand;

struct Case {
  std::string what;
  KernelContract contract;  // operands' access is filled in
  Shape extents;            // of the run
  std::vector<Strides> strides;
  double tolerance = 1e-5;  // relative to the largest value of the result
  int64_t diagonal = 0;
  int mask_style = 0;  // 0: half of the keys, 1: no key in some rows, 2: no key at all
  // What the elements of q, k and v are instead of random ones, of element 0.
  std::vector<double> first = {};
  double magnitude = 1;  // of q
};

Expr convert_expr(DType from, DType to) {
  ExprBuilder builder(1);
  const uint16_t input = builder.input(0, from);
  return std::move(builder).finish(builder.convert(input, to));
}

Access access_of(int64_t extent, int64_t stride) {
  return extent == 1 || stride == 0 ? Access::broadcast : stride == 1 ? Access::unit : Access::strided;
}

// Strides of operands as blocks of a larger row-major matrix; set_access() when all are known.
Case make(std::string what, const Shape& extents, const AttentionKernel& kind, DType qkv = DType::f32,
          DType mask = DType::boolean) {
  Case c;
  c.what = std::move(what) + " " + to_string(extents);
  c.extents = extents;
  AttentionKernel& kernel = c.contract.family.emplace<AttentionKernel>(kind);
  kernel.d = extents[2];
  kernel.dv = extents[3];
  c.contract.operands = {{qkv, {}}, {qkv, {}}, {qkv, {}}};
  if (kind.masked) c.contract.operands.push_back({mask, {}});
  if (kind.causal) c.contract.operands.push_back({DType::i32, {}});
  if (kind.continues) c.contract.operands.push_back({DType::f32, {}});
  c.contract.operands.push_back({DType::f32, {}});
  if (!kind.partial) c.contract.expr = convert_expr(DType::f32, DType::f32);
  for (size_t i = 0; i < c.contract.operands.size(); ++i) {
    const Shape shape = operand_extents(c.contract, c.extents, i);
    c.strides.push_back(shape.rank() == 1 ? Strides{1} : Strides{shape[1] + 3, 1});
  }
  return c;
}

void set_access(Case& c) {
  for (size_t i = 0; i < c.contract.operands.size(); ++i) {
    const Shape shape = operand_extents(c.contract, c.extents, i);
    std::vector<Access>& access = c.contract.operands[i].access;
    access.clear();
    for (int axis = 0; axis < shape.rank(); ++axis) access.push_back(access_of(shape[axis], c.strides[i][axis]));
  }
}

// Values of every element of an operand.
std::vector<double> decoded(DType type, const std::vector<uint64_t>& bits) {
  std::vector<double> values;
  for (const uint64_t b : bits) values.push_back(type == DType::boolean ? static_cast<double>(b) : decode(type, b));
  return values;
}

// softmax(score) v for whole rows, before the epilogue; no state.
std::vector<double> oracle(const Case& c, const std::vector<std::vector<uint64_t>>& operands) {
  const Shape& extents = c.extents;
  const AttentionKernel& kind = *c.contract.as<AttentionKernel>();
  const auto m = static_cast<size_t>(extents[0]), n = static_cast<size_t>(extents[1]),
             d = static_cast<size_t>(extents[2]), dv = static_cast<size_t>(extents[3]);
  const std::vector<double> q = decoded(c.contract.operands[0].dtype, operands[0]),
                            k = decoded(c.contract.operands[1].dtype, operands[1]),
                            v = decoded(c.contract.operands[2].dtype, operands[2]);
  std::vector<double> mask, result;
  if (kind.masked) mask = decoded(c.contract.operands[3].dtype, operands[3]);
  for (size_t i = 0; i < m; ++i) {
    std::vector<double> score(n);
    double largest = -HUGE_VAL, sum = 0;
    for (size_t j = 0; j < n; ++j) {
      for (size_t e = 0; e < d; ++e) score[j] += q[i * d + e] * k[j * d + e];
      score[j] *= kind.scale;
      if (kind.softcap > 0) score[j] = kind.softcap * std::tanh(score[j] / kind.softcap);
      if (kind.masked) {
        const bool boolean = c.contract.operands[3].dtype == DType::boolean;
        const bool absent = kind.empty_is_zero && mask[i * n + j] == -HUGE_VAL;
        score[j] = boolean  ? (mask[i * n + j] != 0 ? score[j] : kind.masked_score)
                   : absent ? -HUGE_VAL
                            : score[j] + mask[i * n + j];
      }
      if (kind.causal && static_cast<int64_t>(j) > static_cast<int64_t>(i) + c.diagonal) score[j] = -HUGE_VAL;
      largest = std::max(largest, score[j]);
    }
    for (size_t j = 0; j < n; ++j) sum += std::exp(score[j] - largest);
    for (size_t e = 0; e < dv; ++e) {
      double value = 0;
      for (size_t j = 0; j < n; ++j) value += std::exp(score[j] - largest) / sum * v[j * dv + e];
      const bool empty = std::ranges::all_of(score, [](double s) { return s == -HUGE_VAL; });
      result.push_back(empty && kind.empty_is_zero ? 0 : value);
    }
  }
  return result;
}

void compare(DType type, const std::vector<uint64_t>& got, const std::vector<uint64_t>& want, double tolerance) {
  double largest = 1e-6;
  for (const uint64_t bits : want) {
    if (const double value = decode(type, bits); std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double x = decode(type, got[i]), y = decode(type, want[i]);
    if (std::isnan(y)) {
      ASSERT_TRUE(std::isnan(x)) << "element " << i << " is " << x << ", expected NaN";
    } else if (std::isinf(y)) {
      ASSERT_EQ(x, y) << "element " << i;
    } else {
      ASSERT_LE(std::abs(x - y), tolerance * largest) << "element " << i << " is " << x << ", expected " << y;
    }
  }
}

std::vector<uint64_t> elements_of(const Case& c, size_t index, std::mt19937_64& random) {
  const AttentionOperands known = c.contract.as<AttentionKernel>()->named_operands();
  const DType type = c.contract.operands[index].dtype;
  const Shape extents = operand_extents(c.contract, c.extents, index);
  std::vector<uint64_t> elements;
  std::normal_distribution<double> normal(0, index == 0 ? c.magnitude : 1);
  for (int64_t i = 0; i < extents.elements(); ++i) {
    double value = normal(random);
    if (index < c.first.size() && i == 0) value = c.first[index];
    if (index == known.diagonal && index > 0) {
      elements.push_back(static_cast<uint32_t>(c.diagonal));
      continue;
    }
    if (index == known.mask && index > 0) {
      const int64_t row = i / extents[1];
      const bool out = c.mask_style == 2 || (c.mask_style == 1 && row % 3 == 1) || random() % 2 == 0;
      elements.push_back(type == DType::boolean ? (out ? 0 : 1)
                                                : encode(type, out ? -HUGE_VAL : value, Overflow::propagate));
      continue;
    }
    // A state: l of a row is positive.
    if (index == known.state && index > 0 && i % extents[1] == extents[1] - 1) value = 1 + std::abs(value);
    elements.push_back(encode(type, value, Overflow::saturate));
  }
  return elements;
}

// Runs all cases on all targets that this CPU has; they have to agree bit for bit.
void run_cases(std::vector<Case> all) {
  KernelSet kernels;
  std::vector<uint32_t> numbers;
  for (Case& c : all) {
    set_access(c);
    ASSERT_EQ(problem(c.contract), "") << c.what;
    numbers.push_back(testing::add_run(kernels, c.contract, c.extents));
  }
  std::map<size_t, std::vector<uint64_t>> first_results;
  for (const Code& code : testing::compile_and_load(kernels)) {
    for (size_t index = 0; index < all.size(); ++index) {
      const Case& c = all[index];
      SCOPED_TRACE(code.target + " " + c.what + ", seed " + std::to_string(index + 1));
      std::mt19937_64 random(index + 1);
      Memory memory;
      std::vector<Operand> operands;
      std::vector<std::vector<uint64_t>> values;
      for (size_t i = 0; i < c.contract.operands.size(); ++i) {
        operands.push_back(
            memory.add(c.contract.operands[i].dtype, operand_extents(c.contract, c.extents, i), c.strides[i]));
        if (i + 1 == c.contract.operands.size()) break;
        memory.write(operands[i], elements_of(c, i, random));
        values.push_back(memory.read(operands[i]));  // once more: strides of 0 make elements equal
      }
      EXPECT_TRUE(memory.run(code, numbers[index], operands)) << "wrote outside of the result";
      const std::vector<uint64_t> got = memory.read(operands.back());
      // The first target's results are judged, those of the others compared with them.
      if (const auto first = first_results.find(index); first != first_results.end()) {
        EXPECT_EQ(got, first->second) << "differs from another target's";
        continue;
      }
      first_results.emplace(index, got);
      const DType type = c.contract.operands.back().dtype;
      compare(type, got, run_kernel(c.contract, c.extents, values), c.tolerance);
      const AttentionKernel& kind = *c.contract.as<AttentionKernel>();
      if (!kind.continues && !kind.partial && c.contract.expr.inputs == 1) {
        std::vector<uint64_t> want;
        for (const double value : oracle(c, values)) {
          const uint64_t normalized[] = {encode(kind.accumulate, value, Overflow::propagate)};
          want.push_back(evaluate(c.contract.expr, normalized));
        }
        compare(type, got, want, c.tolerance);
      }
    }
  }
}

using Kind = AttentionKernel;

TEST(AttentionKernel, Sizes) {
  std::vector<Case> cases;
  for (const Shape& extents :
       {Shape{1, 1, 1, 1}, Shape{5, 13, 5, 1}, Shape{46, 729, 72, 72}, Shape{17, 97, 1, 5}, Shape{8, 96, 64, 64},
        Shape{100, 33, 7, 130}, Shape{3, 193, 16, 8}, Shape{531, 20, 9, 9}, Shape{49, 95, 33, 31}, Shape{0, 5, 3, 2}}) {
    cases.push_back(make("plain", extents, {.scale = 0.25}));
  }
  run_cases(std::move(cases));
}

TEST(AttentionKernel, Masks) {
  std::vector<Case> cases;
  for (const DType mask : {DType::boolean, DType::f32, DType::f16}) {
    for (const int style : {0, 1, 2}) {
      for (const bool zero : {false, true}) {
        if (mask == DType::f16 && (style != 0 || zero)) continue;
        Case c = make("mask of " + std::string(name(mask)) + ", style " + std::to_string(style), {19, 103, 6, 5},
                      {.masked = true, .empty_is_zero = zero, .scale = 0.5}, DType::f32, mask);
        c.mask_style = style;
        cases.push_back(c);
      }
    }
    for (const double score : {-1e9, -0.25}) {
      if (mask != DType::boolean) continue;
      Case c = make("masked score " + std::to_string(score), {19, 103, 6, 5},
                    {.masked = true, .scale = 0.5, .masked_score = score}, DType::f32, mask);
      cases.push_back(c);
    }
    // One row for all, one column for all, transposed, one element.
    for (const Strides& strides : {Strides{0, 1}, Strides{1, 0}, Strides{1, 23}, Strides{0, 0}, Strides{300, 2}}) {
      Case c = make("mask of " + std::string(name(mask)) + " with strides " + to_string(strides), {19, 103, 6, 5},
                    {.masked = true, .scale = 0.5}, DType::f32, mask);
      c.strides[3] = strides;
      cases.push_back(c);
    }
  }
  run_cases(std::move(cases));
}

TEST(AttentionKernel, Diagonals) {
  std::vector<Case> cases;
  for (const int64_t diagonal : {0, 1, 57, 250, -1, -30, 1000, 2147483647, -2147483647}) {
    for (const bool zero : {false, true}) {
      Case c = make("diagonal " + std::to_string(diagonal), {101, 203, 8, 6},
                    {.causal = true, .empty_is_zero = zero, .scale = 0.3});
      c.diagonal = diagonal;
      cases.push_back(c);
    }
  }
  Case c = make("diagonal and mask", {50, 203, 8, 6},
                {.masked = true, .causal = true, .empty_is_zero = true, .scale = 0.3}, DType::f32, DType::f32);
  c.diagonal = 90;
  cases.push_back(c);
  run_cases(std::move(cases));
}

TEST(AttentionKernel, Layouts) {
  std::vector<Case> cases;
  const Shape extents{37, 110, 24, 20};
  // Each operand column by column, with gaps, and the same row for all.
  for (size_t operand = 0; operand < 4; ++operand) {
    for (const Strides& strides : {Strides{1, 120}, Strides{60, 2}, Strides{-40, 1}, Strides{0, 1}}) {
      if (operand == 3 && strides[0] == 0) continue;
      Case c =
          make("operand " + std::to_string(operand) + " with strides " + to_string(strides), extents, {.scale = 0.2});
      c.strides[operand] = strides;
      cases.push_back(c);
    }
  }
  run_cases(std::move(cases));
}

TEST(AttentionKernel, TypesAndSoftcap) {
  std::vector<Case> cases;
  for (const DType type :
       {DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::f64}) {
    Case c = make(std::string(name(type)), {34, 99, 40, 17}, {.scale = 0.1}, type);
    c.contract.get<AttentionKernel>().math = type == DType::bf16 || is_fp8(type) ? DType::bf16 : DType::f32;
    // Matrix instructions take p rounded to f16 where v is E4M3, else to bf16 (7 and 10 bits behind the first).
    if (c.contract.get<AttentionKernel>().math == DType::bf16 && !gemm_configurations(testing::test_machine()).packs)
      c.tolerance = type == DType::f8e4m3fn || type == DType::f8e4m3fnuz ? 0x1p-11 : 0x1p-8;
    // Of f64, the rounding to f32 is not in the oracle.
    cases.push_back(c);
    c.contract.operands[1].dtype = DType::f32;
    c.contract.operands[3].dtype = DType::f16;
    c.contract.expr = convert_expr(DType::f32, DType::f16);
    c.contract.get<AttentionKernel>().math = DType::f32;
    c.tolerance = 1e-3;
    cases.push_back(c);
  }
  cases.push_back(make("softcap", {34, 99, 40, 17}, {.scale = 0.4, .softcap = 1.5}));
  Case sharp = make("sharp", {34, 199, 40, 17}, {.scale = 1});
  sharp.magnitude = 30;    // scores of some hundreds: most p are 0
  sharp.tolerance = 1e-4;  // an ulp of a score is 2^-16
  cases.push_back(sharp);
  run_cases(std::move(cases));
}

TEST(AttentionKernel, DoublePrecision) {
  std::vector<Case> cases;
  for (const bool extra : {false, true}) {
    Case c =
        make("f64", {7, 150, 5, 9},
             {.masked = extra, .causal = extra, .empty_is_zero = extra, .scale = 0.5, .softcap = extra ? 2.0 : 0.0},
             DType::f64);
    auto& kind = c.contract.get<AttentionKernel>();
    kind.math = kind.accumulate = c.contract.operands.back().dtype = DType::f64;
    c.contract.expr = convert_expr(DType::f64, DType::f64);
    c.tolerance = 1e-12;
    c.diagonal = 70;
    c.mask_style = 1;
    cases.push_back(c);
    kind.partial = true;
    kind.continues = extra;
    c.contract.operands.back().dtype = DType::f64;
    if (extra) c.contract.operands.insert(c.contract.operands.end() - 1, {DType::f64, {}});
    c.contract.expr = {};
    if (extra) c.strides.insert(c.strides.end() - 1, Strides{12, 1});
    c.strides.back() = Strides{13, 1};
    c.what += ", partial";
    cases.push_back(c);
  }
  run_cases(std::move(cases));
}

TEST(AttentionKernel, EpilogueWithExtras) {
  std::vector<Case> cases;
  for (const bool state : {false, true}) {
    Case c = make("extras", {70, 100, 12, 40}, {.continues = state, .scale = 0.3});
    ExprBuilder builder(3);
    const uint16_t product = builder.binary(ExprOp::mul, builder.input(0, DType::f32), builder.input(1, DType::f32));
    const uint16_t sum =
        builder.binary(ExprOp::add, product, builder.convert(builder.input(2, DType::f16), DType::f32));
    c.contract.expr = std::move(builder).finish(builder.convert(sum, DType::f16));
    c.contract.operands.back().dtype = DType::f16;
    c.contract.operands.insert(c.contract.operands.end() - 1, {{DType::f32, {}}, {DType::f16, {}}});
    c.strides.insert(c.strides.end() - 1, {Strides{0, 1}, Strides{50, 1}});
    c.tolerance = 1e-3;
    cases.push_back(c);
  }
  run_cases(std::move(cases));
}

TEST(AttentionKernel, States) {
  std::vector<Case> cases;
  for (const Strides& strides : {Strides{30, 1}, Strides{1, 80}, Strides{60, 2}}) {
    for (const bool continues : {false, true}) {
      for (const bool partial : {false, true}) {
        if (!continues && !partial) continue;
        Case c = make("state with strides " + to_string(strides), {67, 110, 24, 20},
                      {.causal = true, .continues = continues, .partial = partial, .scale = 0.2});
        c.diagonal = 10;
        if (continues) c.strides[4] = strides;
        if (partial) c.strides.back() = strides;
        cases.push_back(c);
      }
    }
  }
  run_cases(std::move(cases));
}

TEST(AttentionKernel, SpecialValues) {
  std::vector<Case> cases;
  const double infinity = HUGE_VAL, nan = std::nan("");
  // Element 0 of q, k or v. A score of infinity or NaN is the whole row's; v's element 0 only its column's.
  for (const std::vector<double>& first :
       {std::vector<double>{nan}, {infinity}, {1, nan}, {1, -infinity}, {1, 1, nan}, {1, 1, infinity}, {1, 1, 3e38}}) {
    Case c = make("special", {20, 100, 3, 4}, {.empty_is_zero = true, .scale = 1});
    c.what += " " + std::to_string(first.size());
    c.first = first;
    cases.push_back(c);
  }
  run_cases(std::move(cases));
}

// Two panels with a state between them, updated in place: one run over all keys, but for rounding.
TEST(AttentionKernel, PanelsAreOneRun) {
  const int64_t m = 45, n = 150, half = 70, d = 20, dv = 12;
  Case whole = make("whole", {m, n, d, dv}, {.causal = true, .scale = 0.2});
  Case left = make("left", {m, half, d, dv}, {.causal = true, .partial = true, .scale = 0.2});
  Case right = make("right", {m, n - half, d, dv}, {.causal = true, .continues = true, .scale = 0.2});
  Case update =
      make("update", {m, n - half, d, dv}, {.causal = true, .continues = true, .partial = true, .scale = 0.2});
  KernelSet kernels;
  std::vector<uint32_t> numbers;
  for (Case* c : {&whole, &left, &right, &update}) {
    set_access(*c);
    numbers.push_back(testing::add_run(kernels, c->contract, c->extents));
  }
  for (const Code& code : testing::compile_and_load(kernels)) {
    std::mt19937_64 random(5);
    Memory memory;
    const Operand q = memory.add(DType::f32, {m, d}), k = memory.add(DType::f32, {n, d}, {d + 3, 1}),
                  v = memory.add(DType::f32, {n, dv}, {dv + 3, 1}), diagonal = memory.add(DType::i32, {1}),
                  shifted = memory.add(DType::i32, {1}), state = memory.add(DType::f32, {m, dv + 2}, {dv + 5, 1}),
                  one = memory.add(DType::f32, {m, dv}, {dv + 3, 1}),
                  two = memory.add(DType::f32, {m, dv}, {dv + 3, 1});
    for (const Operand* operand : {&q, &k, &v})
      memory.write(*operand, testing::small_values(DType::f32, operand->extents.elements(), random));
    memory.write(diagonal, {40});
    memory.write(shifted, {static_cast<uint32_t>(40 - half)});  // key j of the second panel is key j + half
    Operand k_left = k, v_left = v, k_right = k, v_right = v;
    k_left.extents = Shape{half, d}, v_left.extents = Shape{half, dv};
    k_right.extents = Shape{n - half, d}, v_right.extents = Shape{n - half, dv};
    k_right.offset += static_cast<uint64_t>(half * (d + 3)) * 4;
    v_right.offset += static_cast<uint64_t>(half * (dv + 3)) * 4;
    EXPECT_TRUE(memory.run(code, numbers[0], {q, k, v, diagonal, one}));
    EXPECT_TRUE(memory.run(code, numbers[1], {q, k_left, v_left, diagonal, state}));
    EXPECT_TRUE(memory.run(code, numbers[2], {q, k_right, v_right, shifted, state, two}));
    compare(DType::f32, memory.read(two), memory.read(one), 2e-6);
    // The state in place, then its o / l.
    EXPECT_TRUE(memory.run(code, numbers[3], {q, k_right, v_right, shifted, state, state}));
    const std::vector<uint64_t> elements = memory.read(state);
    std::vector<uint64_t> divided;
    for (int64_t i = 0; i < m; ++i) {
      const auto at = [&](int64_t c) { return decode(DType::f32, elements[static_cast<size_t>(i * (dv + 2) + c)]); };
      for (int64_t c = 0; c < dv; ++c) divided.push_back(encode(DType::f32, at(c) / at(dv + 1), Overflow::propagate));
    }
    compare(DType::f32, divided, memory.read(one), 2e-6);
  }
}

// A row's bits do not depend on which other rows a run has.
TEST(AttentionKernel, RowsAreIndependent) {
  const int64_t n = 200, d = 17, dv = 11;
  const std::vector<int64_t> starts = {0, 1, 8, 30, 61, 100};
  KernelSet kernels;
  std::vector<uint32_t> numbers;
  std::vector<Case> cases = {make("all", {100, n, d, dv}, {.causal = true, .scale = 0.2})};
  for (size_t i = 0; i + 1 < starts.size(); ++i)
    cases.push_back(make("part", {starts[i + 1] - starts[i], n, d, dv}, {.causal = true, .scale = 0.2}));
  for (Case& c : cases) {
    set_access(c);
    numbers.push_back(testing::add_run(kernels, c.contract, c.extents));
  }
  for (const Code& code : testing::compile_and_load(kernels)) {
    std::mt19937_64 random(6);
    Memory memory;
    const Operand q = memory.add(DType::f32, {100, d}, {d + 3, 1}), k = memory.add(DType::f32, {n, d}, {d + 3, 1}),
                  v = memory.add(DType::f32, {n, dv}, {dv + 3, 1}), diagonal = memory.add(DType::i32, {1}),
                  all = memory.add(DType::f32, {100, dv}, {dv + 3, 1}),
                  parts = memory.add(DType::f32, {100, dv}, {dv + 3, 1});
    std::normal_distribution<double> normal;
    for (const Operand* operand : {&q, &k, &v}) {
      std::vector<uint64_t> values;
      for (int64_t i = 0; i < operand->extents.elements(); ++i)
        values.push_back(encode(DType::f32, normal(random), Overflow::propagate));
      memory.write(*operand, values);
    }
    memory.write(diagonal, {90});
    EXPECT_TRUE(memory.run(code, numbers[0], {q, k, v, diagonal, all}));
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      Operand q_part = q, part = parts;
      q_part.extents = Shape{starts[i + 1] - starts[i], d};
      part.extents = Shape{starts[i + 1] - starts[i], dv};
      q_part.offset += static_cast<uint64_t>(starts[i] * (d + 3)) * 4;
      part.offset += static_cast<uint64_t>(starts[i] * (dv + 3)) * 4;
      memory.write(diagonal, {static_cast<uint64_t>(90 + starts[i])});
      EXPECT_TRUE(memory.run(code, numbers[i + 1], {q_part, k, v, diagonal, part}));
    }
    EXPECT_EQ(memory.read(parts), memory.read(all));
  }
}

// Random values: scores of narrow q and k are the same on every target, bit for bit, however these lie and whether d is
// even or odd.
TEST(AttentionKernel, ResultsDoNotDependOnTheTarget) {
  const int64_t m = 50, n = 110, dv = 12;
  for (const DType type :
       {DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz}) {
    for (const int64_t d : {1, 17, 40}) {
      const DType math = type == DType::f32 || type == DType::f16 ? DType::f32 : DType::bf16;
      std::vector<Case> cases;
      for (const bool transposed : {false, true}) {
        cases.push_back(make("", {m, n, d, dv}, {.math = math, .scale = 0.2}, type));
        cases.back().contract.operands[2].dtype = DType::f32;
        if (transposed) cases.back().strides[0] = Strides{1, m}, cases.back().strides[1] = Strides{1, n + 5};
      }
      KernelSet kernels;
      std::vector<uint32_t> numbers;
      Memory memory;
      std::vector<std::vector<Operand>> operands;
      for (Case& c : cases) {
        set_access(c);
        numbers.push_back(testing::add_run(kernels, c.contract, c.extents));
        std::mt19937_64 random(9);
        std::normal_distribution<double> normal;
        operands.emplace_back();
        for (size_t i = 0; i < 4; ++i) {
          const DType dtype = c.contract.operands[i].dtype;
          operands.back().push_back(memory.add(dtype, operand_extents(c.contract, c.extents, i), c.strides[i]));
          std::vector<uint64_t> values;
          for (int64_t left = operands.back().back().extents.elements(); left > 0; --left)
            values.push_back(encode(dtype, normal(random), Overflow::saturate));
          if (i < 3) memory.write(operands.back().back(), values);
        }
      }
      std::vector<uint64_t> expected;
      for (const Code& code : testing::compile_and_load(kernels)) {
        for (size_t i = 0; i < cases.size(); ++i) {
          ASSERT_TRUE(memory.run(code, numbers[i], operands[i]));
          const std::vector<uint64_t> got = memory.read(operands[i].back());
          if (expected.empty()) expected = got;
          EXPECT_EQ(got, expected) << code.target << ", " << name(type) << ", d " << d << ", case " << i;
        }
      }
    }
  }
}

TEST(AttentionKernel, RefusesWhatItDoesNotImplement) {
  KernelSet kernels;
  Case c = make("large", {2, 3, 1 << 17, 4}, {});
  set_access(c);
  kernels.contracts = {c.contract};
  const auto large = scratch_bytes(kernels, "host-x86-64-v3");
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().message,
            "kernel attention_0 has a head size of 131072, above 65536, which no kernel of target host-x86-64-v3 "
            "implements");
  c = make("wrong", {2, 3, 4, 4}, {});
  set_access(c);
  c.contract.get<AttentionKernel>().softcap = -1;
  kernels.contracts = {c.contract};
  EXPECT_FALSE(scratch_bytes(kernels, "host-x86-64-v4"));
}

}  // namespace
}  // namespace low
