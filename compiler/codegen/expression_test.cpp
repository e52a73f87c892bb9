// Every scalar operation, compiled, against low::evaluate; transcendental ones against double precision too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

using testing::Code;
using testing::Memory;
using testing::Operand;

constexpr DType floats[] = {DType::f64,      DType::f32,    DType::f16,        DType::bf16,
                            DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz};
constexpr DType integers[] = {DType::i8, DType::i16, DType::i32, DType::i64,
                              DType::u8, DType::u16, DType::u32, DType::u64};

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < dtype_count; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

int width(DType type) { return 8 * static_cast<int>(byte_size(type)); }

// Corner cases, then values over the whole range; all 256 of 8-bit types.
std::vector<uint64_t> samples(DType type, size_t random_count, uint64_t seed) {
  std::vector<uint64_t> values;
  if (type == DType::boolean) return {0, 1};
  const uint64_t mask = width(type) == 64 ? ~uint64_t{0} : (uint64_t{1} << width(type)) - 1;
  if (width(type) == 8) {
    for (uint64_t bits = 0; bits < 256; ++bits) values.push_back(bits);
    return values;
  }
  std::mt19937_64 random(seed);
  if (is_float(type)) {
    for (const double value : {0.0,
                               1.0,
                               0.5,
                               1.5,
                               2.0,
                               2.5,
                               3.0,
                               4.0,
                               0.9499,
                               0.95,
                               3.95,
                               9.02,
                               88.72,
                               88.73,
                               87.4,
                               104.0,
                               127.5,
                               128.0,
                               255.5,
                               256.0,
                               448.0,
                               464.0,
                               465.0,
                               480.0,
                               57344.0,
                               61439.0,
                               61440.0,
                               65504.0,
                               65520.0,
                               240.0,
                               248.0,
                               3e4,
                               3e38,
                               1e-38,
                               1e-45,
                               1e-40,
                               1e-7,
                               1e-3,
                               2147483647.0,
                               2147483648.0,
                               4294967296.0,
                               9.2233720368547758e18,
                               1.8446744073709552e19,
                               0x1p26,
                               0x1p-9,
                               0x1p-10,
                               0x1p-17,
                               0x1p-18,
                               0x1.8p-10,
                               1e300,
                               1e-300,
                               5e-324,
                               709.78,
                               745.2,
                               0x1.921fb6p+0,
                               0x1.921fb54442d18p+0,
                               33.0,
                               1e5,
                               1e10,
                               1e22}) {
      for (const double sign : {1.0, -1.0}) {
        const uint64_t bits = encode(type, sign * value, Overflow::propagate);
        values.push_back(bits);
        // The neighbours, too: what a wrong comparison would catch.
        if (value != 0 && std::isfinite(decode(type, bits))) values.insert(values.end(), {bits + 1, bits - 1});
      }
    }
    for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")})
      values.push_back(encode(type, value, Overflow::propagate));
    for (size_t i = 0; i < random_count; ++i) {
      const double magnitude = std::exp(static_cast<double>(random() % 4000) / 200 - 10);
      values.push_back(encode(type, (random() & 1) != 0 ? magnitude : -magnitude, Overflow::propagate));
      values.push_back(random() & mask);
    }
    return values;
  }
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{7}, uint64_t{100}, uint64_t{127}, uint64_t{128},
        uint64_t{448}, uint64_t{465}, uint64_t{1} << 24, (uint64_t{1} << 24) + 1, (uint64_t{1} << 53) + 1,
        (uint64_t{1} << 31) - 1, (uint64_t{1} << 63) - 1, uint64_t{1} << 63, uint64_t{0x8000008000000001}}) {
    values.push_back(value & mask);
    values.push_back((0 - value) & mask);
  }
  values.push_back(mask >> 1);
  values.push_back((mask >> 1) + 1);
  for (size_t i = 0; i < random_count; ++i)
    values.push_back((random() & mask) >> (random() % static_cast<uint64_t>(width(type))));
  return values;
}

// The values of several inputs: all pairs of two lists, cycled for a third.
struct Inputs {
  std::vector<DType> types;
  std::vector<std::vector<uint64_t>> values;
};

Inputs unary_inputs(DType type) { return {{type}, {samples(type, 1500, 1)}}; }
Inputs binary_inputs(DType type) {
  std::vector<uint64_t> list = samples(type, 20, 2);
  if (list.size() > 140) {
    std::mt19937_64 random(3);
    std::shuffle(list.begin(), list.end(), random);
    list.resize(140);
  }
  Inputs inputs{{type, type}, {{}, {}}};
  for (const uint64_t a : list) {
    for (const uint64_t b : list) {
      inputs.values[0].push_back(a);
      inputs.values[1].push_back(b);
    }
  }
  return inputs;
}

struct Case {
  std::string what;
  Expr expr;
  Inputs inputs;
};

bool is_nan(DType type, uint64_t bits) { return is_float(type) && std::isnan(decode(type, bits)); }

// How far `got` is from `want`, in units in the last place of want in its format; 0 for equal bits and two NaN.
double distance(DType type, uint64_t got, uint64_t want) {
  if (got == want || (is_nan(type, got) && is_nan(type, want))) return 0;
  if (!is_float(type)) return HUGE_VAL;
  const double x = decode(type, got), y = decode(type, want);
  if (!(std::isfinite(x) && std::isfinite(y))) return HUGE_VAL;
  if (x == y) return HUGE_VAL;  // zeros of different sign
  const double unit = std::abs(decode(type, want ^ 1) - y);
  return std::isfinite(unit) ? std::abs(x - y) / unit : HUGE_VAL;
}

// Runs all cases on all targets; `judge(case, inputs, got)` says what is wrong with an element, or "".
template <typename Judge>
void run(const std::vector<Case>& cases, Judge judge) {
  KernelSet kernels;
  std::vector<uint32_t> numbers;
  const auto extents_of = [](const Case& c) { return Shape{static_cast<int64_t>(c.inputs.values[0].size())}; };
  for (const Case& c : cases) {
    KernelContract contract;
    for (const DType type : c.inputs.types) contract.operands.push_back({type, {Access::unit}});
    contract.operands.push_back({c.expr.result_type(), {Access::unit}});
    contract.expr = c.expr;
    numbers.push_back(testing::add_run(kernels, contract, extents_of(c)));
  }
  const std::vector<Code> codes = testing::compile_and_load(kernels);
  ASSERT_FALSE(codes.empty());
  std::vector<std::vector<uint64_t>> right(cases.size());  // results that were judged and found right
  for (const Code& code : codes) {
    for (size_t index = 0; index < cases.size(); ++index) {
      const Case& c = cases[index];
      Memory memory;
      std::vector<Operand> operands;
      for (size_t i = 0; i < c.inputs.types.size(); ++i) {
        operands.push_back(memory.add(c.inputs.types[i], extents_of(c)));
        memory.write(operands.back(), c.inputs.values[i]);
      }
      operands.push_back(memory.add(c.expr.result_type(), extents_of(c)));
      EXPECT_TRUE(memory.run(code, numbers[index], operands)) << c.what << " wrote outside of its result";
      const std::vector<uint64_t> got = memory.read(operands.back());
      if (got == right[index]) continue;
      size_t wrong = 0;
      for (size_t i = 0; i < got.size() && wrong < 3; ++i) {
        std::vector<uint64_t> inputs;
        for (const std::vector<uint64_t>& values : c.inputs.values) inputs.push_back(values[i]);
        const std::string error = judge(c, inputs, got[i]);
        if (error.empty()) continue;
        ++wrong;
        std::string text;
        for (size_t j = 0; j < inputs.size(); ++j) {
          const DType type = c.inputs.types[j];
          text += is_float(type) ? std::to_string(decode(type, inputs[j])) + " (" + std::to_string(inputs[j]) + ") "
                                 : std::to_string(inputs[j]) + " ";
        }
        ADD_FAILURE() << code.target << " " << c.what << " of " << text << ": " << error;
      }
      if (wrong == 0) right[index] = got;
    }
  }
}

std::string describe(DType type, uint64_t bits) {
  if (!is_float(type)) return std::to_string(bits);
  char text[64];
  std::snprintf(text, sizeof text, "%.17g (%#llx)", decode(type, bits), static_cast<unsigned long long>(bits));
  return text;
}

std::string judge_exact(const Case& c, const std::vector<uint64_t>& inputs, uint64_t got) {
  const uint64_t want = evaluate(c.expr, inputs);
  const DType type = c.expr.result_type();
  if (distance(type, got, want) == 0) return "";
  return "got " + describe(type, got) + ", expected " + describe(type, want);
}

Case unary_case(ExprOp op, DType type) {
  ExprBuilder builder(1);
  const uint16_t node = builder.unary(op, builder.input(0, type));
  return {std::string(info(op).name) + "." + std::string(name(type)), std::move(builder).finish(node),
          unary_inputs(type)};
}
Case binary_case(ExprOp op, DType type) {
  ExprBuilder builder(2);
  const uint16_t node = builder.binary(op, builder.input(0, type), builder.input(1, type));
  return {std::string(info(op).name) + "." + std::string(name(type)), std::move(builder).finish(node),
          binary_inputs(type)};
}

TEST(Expression, ExactUnary) {
  std::vector<Case> cases;
  for (const DType type : floats) {
    for (const ExprOp op : {ExprOp::neg, ExprOp::abs, ExprOp::sqrt, ExprOp::round_even, ExprOp::floor, ExprOp::ceil,
                            ExprOp::sign, ExprOp::reciprocal, ExprOp::is_nan}) {
      cases.push_back(unary_case(op, type));
    }
  }
  for (const DType type : integers) {
    for (const ExprOp op : {ExprOp::neg, ExprOp::abs, ExprOp::sign}) cases.push_back(unary_case(op, type));
  }
  cases.push_back(unary_case(ExprOp::logical_not, DType::boolean));
  run(cases, judge_exact);
}

TEST(Expression, ExactBinary) {
  std::vector<Case> cases;
  std::vector<ExprOp> comparisons = {ExprOp::equal,      ExprOp::not_equal, ExprOp::less,
                                     ExprOp::less_equal, ExprOp::greater,   ExprOp::greater_equal};
  std::vector<ExprOp> arithmetic = {ExprOp::add, ExprOp::sub, ExprOp::mul,   ExprOp::div,
                                    ExprOp::min, ExprOp::max, ExprOp::modulo};
  for (const DType type : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2fnuz}) {
    for (const ExprOp op : arithmetic) cases.push_back(binary_case(op, type));
  }
  for (const DType type : integers) {
    for (const ExprOp op : arithmetic) cases.push_back(binary_case(op, type));
    for (const ExprOp op :
         {ExprOp::pow, ExprOp::bit_and, ExprOp::bit_or, ExprOp::bit_xor, ExprOp::shift_left, ExprOp::shift_right}) {
      cases.push_back(binary_case(op, type));
    }
  }
  for (const DType type : {DType::f64, DType::f32, DType::f8e4m3fnuz, DType::i8, DType::u64, DType::boolean}) {
    for (const ExprOp op : comparisons) cases.push_back(binary_case(op, type));
  }
  for (const ExprOp op : {ExprOp::logical_and, ExprOp::logical_or, ExprOp::logical_xor})
    cases.push_back(binary_case(op, DType::boolean));
  run(cases, judge_exact);
}

TEST(Expression, Conversions) {
  // All pairs with f32, and all pairs of one type of each kind.
  const auto tried = [](DType from, DType to) {
    const auto kind = [](DType type) {
      for (const DType one : {DType::f64, DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2fnuz, DType::i8,
                              DType::i32, DType::i64, DType::u16, DType::u64, DType::boolean}) {
        if (one == type) return true;
      }
      return false;
    };
    return from != to && (from == DType::f32 || to == DType::f32 || (kind(from) && kind(to)));
  };
  std::vector<Case> cases;
  for (const DType from : all_types()) {
    for (const DType to : all_types()) {
      for (const Overflow overflow : {Overflow::saturate, Overflow::propagate}) {
        if (!tried(from, to) || (overflow == Overflow::saturate && !(is_fp8(to) && is_float(from)))) continue;
        ExprBuilder builder(1);
        const uint16_t node = builder.convert(builder.input(0, from), to, overflow);
        cases.push_back({std::string(name(from)) + " to " + std::string(name(to)), std::move(builder).finish(node),
                         unary_inputs(from)});
      }
    }
  }
  run(cases, judge_exact);
}

TEST(Expression, WhereAndConstants) {
  std::vector<Case> cases;
  for (const DType type : all_types()) {
    const std::vector<uint64_t> values = samples(type, 3, 5);
    for (const uint64_t constant : {values.back(), values[values.size() / 2]}) {
      ExprBuilder builder(2);
      const uint16_t node = builder.where(builder.input(0, DType::boolean), builder.constant_bits(type, constant),
                                          builder.input(1, type));
      Inputs inputs{{DType::boolean, type}, {{}, {}}};
      for (const uint64_t value : values) {
        for (const uint64_t condition : {uint64_t{0}, uint64_t{1}}) {
          inputs.values[0].push_back(condition);
          inputs.values[1].push_back(value);
        }
      }
      cases.push_back({"where." + std::string(name(type)), std::move(builder).finish(node), inputs});
    }
  }
  run(cases, judge_exact);
}

// The real function in double, of the operands as they are.
double real(ExprOp op, double x) {
  switch (op) {
    case ExprOp::exp:
      return std::exp(x);
    case ExprOp::log:
      return std::log(x);
    case ExprOp::erf:
      return std::erf(x);
    case ExprOp::tanh:
      return std::tanh(x);
    case ExprOp::sigmoid:
      return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    case ExprOp::sin:
      return std::sin(x);
    default:
      return std::cos(x);
  }
}

double limit(ExprOp op) {
  switch (op) {
    case ExprOp::tanh:
      return 3;
    case ExprOp::erf:
    case ExprOp::sigmoid:
      return 2;
    default:
      return 1;
  }
}

std::string judge_real(DType type, double want, double units, uint64_t got) {
  if (type == DType::f64) {
    const double value = decode(type, got);
    if (std::isnan(want) ? std::isnan(value) : value == want) return "";
    if (std::isfinite(want) && std::abs(value - want) <= std::max(2e-13 * std::abs(want), 1e-321)) return "";
    return "got " + describe(type, got) + ", expected " + std::to_string(want);
  }
  const uint64_t bits = encode(type, want, Overflow::propagate);
  // The exact value may lie between two numbers, and f32's error may tip the rounding to a narrow format.
  const double allowed = type == DType::f32 ? units : 1;
  if (distance(type, got, bits) <= allowed) return "";
  return "got " + describe(type, got) + ", expected " + describe(type, bits);
}

TEST(Expression, TranscendentalUnary) {
  std::vector<Case> cases;
  for (const ExprOp op :
       {ExprOp::exp, ExprOp::log, ExprOp::erf, ExprOp::tanh, ExprOp::sigmoid, ExprOp::sin, ExprOp::cos}) {
    for (const DType type : floats) {
      cases.push_back(unary_case(op, type));
      if (type == DType::f32) cases.back().inputs.values[0] = samples(type, 20000, 9);
    }
  }
  run(cases, [](const Case& c, const std::vector<uint64_t>& inputs, uint64_t got) {
    const DType type = c.expr.result_type();
    const ExprOp op = c.expr.nodes.back().op;
    const double want = real(op, decode(type, inputs[0]));
    // In the formats that have no infinity, an overflow is NaN: the neighbour of the largest number, if rounding is
    // tipped.
    return judge_real(type, want, limit(op), got);
  });
}

TEST(Expression, Power) {
  std::vector<Case> cases;
  for (const DType type : {DType::f64, DType::f32, DType::f16}) cases.push_back(binary_case(ExprOp::pow, type));
  // Constant exponents have forms of their own.
  for (const DType type : {DType::f64, DType::f32}) {
    for (const double exponent : {2.0, 3.0, 1.0, 0.5, -1.0, 0.0}) {
      ExprBuilder builder(1);
      const uint16_t node = builder.binary(ExprOp::pow, builder.input(0, type), builder.constant(type, exponent));
      cases.push_back({"pow " + std::to_string(exponent) + "." + std::string(name(type)),
                       std::move(builder).finish(node), unary_inputs(type)});
    }
  }
  run(cases, [](const Case& c, const std::vector<uint64_t>& inputs, uint64_t got) {
    const DType type = c.expr.result_type();
    if (type == DType::f64) {
      const double want = decode(type, evaluate(c.expr, inputs)), value = decode(type, got);
      if (std::isnan(want) ? std::isnan(value) : value == want) return std::string();
      // Two units in the last place: ours and the C library's, and a cube has two roundings.
      if (std::isfinite(want) && std::abs(value - want) <= std::max(4.5e-16 * std::abs(want), 1e-322))
        return std::string();
      return "got " + describe(type, got) + ", expected " + std::to_string(want);
    }
    const ExprNode& last = c.expr.nodes.back();
    const ExprNode& exponent = c.expr.nodes[last.operand[1]];
    const double y = decode(type, exponent.op == ExprOp::constant ? exponent.literal : inputs[1]);
    return judge_real(type, std::pow(decode(type, inputs[0]), y), 2, got);
  });
}

// What is computed for integers is truncated afterwards, so that 3^6 must not be a bit below 729.
TEST(Expression, PowerIsExactForWholeNumbers) {
  Case c = binary_case(ExprOp::pow, DType::f64);
  c.inputs.values = {{}, {}};
  const auto add = [&](double a, double b) {
    c.inputs.values[0].push_back(encode(DType::f64, a, Overflow::propagate));
    c.inputs.values[1].push_back(encode(DType::f64, b, Overflow::propagate));
  };
  for (int base = 2; base < 2000; base += base < 100 ? 1 : 37) {
    double power = base;
    for (int exponent = 1; power < 0x1p53; ++exponent, power *= base) {
      add(base, exponent);
      add(-base, exponent);
    }
    add(double{1} * base * base, 0.5);
  }
  for (int exponent = -1074; exponent < 1024; exponent += 13) add(2, exponent);
  run({c}, [](const Case&, const std::vector<uint64_t>& inputs, uint64_t got) {
    const double base = decode(DType::f64, inputs[0]), exponent = decode(DType::f64, inputs[1]);
    double want = 1;
    for (int i = 0; i < std::abs(exponent); ++i) want = exponent < 0 ? want / base : want * base;
    if (exponent == 0.5) want = std::sqrt(base);
    return decode(DType::f64, got) == want ? std::string() : "got " + describe(DType::f64, got);
  });
}

// The whole chain of an activation and a quantization, as the compiler emits it.
TEST(Expression, GeluQuantized) {
  ExprBuilder builder(1);
  const uint16_t x = builder.input(0, DType::f32);
  const auto constant = [&](double value) { return builder.constant(DType::f32, value); };
  uint16_t inner = builder.binary(ExprOp::mul, constant(0.044715), builder.binary(ExprOp::pow, x, constant(3)));
  inner = builder.binary(ExprOp::mul, constant(0.7978845608), builder.binary(ExprOp::add, x, inner));
  const uint16_t gate = builder.binary(ExprOp::add, constant(1), builder.unary(ExprOp::tanh, inner));
  const uint16_t y = builder.binary(ExprOp::mul, builder.binary(ExprOp::mul, constant(0.5), x), gate);
  const uint16_t q =
      builder.convert(builder.binary(ExprOp::div, y, constant(0.02)), DType::f8e4m3fn, Overflow::saturate);
  const Case c{"gelu", std::move(builder).finish(q), unary_inputs(DType::f32)};
  run({c}, [](const Case& k, const std::vector<uint64_t>& inputs, uint64_t got) {
    const uint64_t want = evaluate(k.expr, inputs);
    // Where y is about 0 the tanh is near -1, and a few units of its error are all that is left of 1 + tanh: compare as
    // values.
    const double step = std::abs(decode(DType::f8e4m3fn, want)) / 8 + 0x1p-9;
    if (is_nan(DType::f8e4m3fn, want)
            ? is_nan(DType::f8e4m3fn, got)
            : std::abs(decode(DType::f8e4m3fn, got) - decode(DType::f8e4m3fn, want)) <= step) {
      return std::string();
    }
    return "got " + describe(DType::f8e4m3fn, got) + ", expected " + describe(DType::f8e4m3fn, want);
  });
}

}  // namespace
}  // namespace low
