// reduce, rowwise, cumulative, top_k, gather and scatter kernels against the interpreter's, which computes in double:
// every dtype, layout and size.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "compiler/codegen/test_kernels.h"
#include "compiler/interpret/kernels.h"
#include "compiler/kernels/data/rows.h"

namespace low {
namespace {

using testing::Code;
using testing::Memory;
using testing::Operand;

std::vector<Access> access_of(const Shape& extents, const Strides& strides) {
  std::vector<Access> access;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    access.push_back(extents[axis] == 1 || strides[axis] == 0 ? Access::broadcast
                     : strides[axis] == 1                     ? Access::unit
                                                              : Access::strided);
  }
  return access;
}

struct Case {
  std::string what;
  KernelContract contract;  // operands' access is filled in
  Shape extents;            // of the run
  std::vector<Strides> strides;
  double tolerance = 0;  // relative to the result's magnitude; 0: the same bits
  bool special = false;  // infinities and NaNs among the elements
};

Strides row_major(const Shape& shape) { return shape.row_major_strides(); }

// Elements of a dense tensor whose axes lie in the opposite order.
Strides column_major(const Shape& shape) {
  Strides strides = shape;
  int64_t stride = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

Expr convert_expr(DType from, DType to) {
  ExprBuilder builder(1);
  const uint16_t input = builder.input(0, from);
  return std::move(builder).finish(builder.convert(input, to));
}

// accumulator * x1 + x2, with x1, x2 of `dtype`.
Expr scale_and_shift(DType accumulator, DType dtype, DType result) {
  ExprBuilder builder(3);
  const uint16_t product =
      builder.binary(ExprOp::mul, builder.input(0, accumulator), builder.convert(builder.input(1, dtype), accumulator));
  const uint16_t sum = builder.binary(ExprOp::add, product, builder.convert(builder.input(2, dtype), accumulator));
  return std::move(builder).finish(builder.convert(sum, result));
}

uint64_t special_value(DType type, std::mt19937_64& random) {
  const uint64_t choice = random() % 12;
  const double infinity = HUGE_VAL;
  if (choice == 0) return encode(type, infinity, Overflow::propagate);
  if (choice == 1) return encode(type, -infinity, Overflow::propagate);
  if (choice == 2) return encode(type, std::nan(""), Overflow::propagate);
  return testing::small_value(type, random);
}

// Runs all cases on all targets that this CPU has; they have to agree bit for bit.
void run_cases(const std::vector<Case>& all) {
  KernelSet kernels;
  std::vector<uint32_t> numbers;
  for (const Case& c : all) {
    KernelContract contract = c.contract;
    for (size_t i = 0; i < contract.operands.size(); ++i) {
      // Of gather's data, the access says which axes there are.
      const bool data = contract.is<GatherKernel>() && i == 0;
      contract.operands[i].access = access_of(data ? c.extents : operand_extents(contract, c.extents, i), c.strides[i]);
    }
    numbers.push_back(testing::add_run(kernels, contract, c.extents));
  }
  std::map<size_t, std::vector<uint64_t>> first_results;
  for (const Code& code : testing::compile_and_load(kernels)) {
    for (size_t index = 0; index < all.size(); ++index) {
      const Case& c = all[index];
      const KernelContract& contract = kernels.contracts[numbers[index]];
      SCOPED_TRACE(code.target + " " + c.what);
      std::mt19937_64 random(index + 1);
      Memory memory;
      std::vector<Operand> operands;
      std::vector<std::vector<uint64_t>> values;
      const bool gather = contract.is<GatherKernel>();
      for (size_t i = 0; i < contract.operands.size(); ++i) {
        const DType type = contract.operands[i].dtype;
        const Shape extents = operand_extents(contract, c.extents, i);
        operands.push_back(memory.add(type, extents, c.strides[i]));
        if (i + 1 == contract.operands.size()) break;
        std::vector<uint64_t> elements = testing::small_values(type, extents.elements(), random);
        if (c.special && i == 0) {
          for (uint64_t& element : elements) element = special_value(type, random);
        }
        if ((gather && i == 1) || (contract.is<ScatterKernel>() && i == 0)) {
          // In range, counted from either end, and beyond.
          for (uint64_t& element : elements) {
            const auto value = static_cast<int64_t>(random() % 23) - 11;
            element = type == DType::i32 ? static_cast<uint32_t>(value) : static_cast<uint64_t>(value);
          }
        }
        memory.write(operands[i], elements);
        values.push_back(memory.read(operands[i]));
      }
      EXPECT_TRUE(memory.run(code, numbers[index], operands)) << "wrote outside of the result";
      const std::vector<uint64_t> got = memory.read(operands.back());
      // The first target's results are judged, those of the others compared with them.
      if (const auto first = first_results.find(index); first != first_results.end()) {
        EXPECT_EQ(got, first->second) << "differs from another target's";
        continue;
      }
      first_results.emplace(index, got);
      std::vector<uint64_t> want;
      if (gather) {
        const Geometry data{operands[0].extents, operands[0].strides};
        for (int64_t i = 0; i < operands.back().extents.elements(); ++i)
          want.push_back(memory.bits(operands[0], gathered_element(contract, c.extents, data, i, values[1])));
      } else {
        want = run_kernel(contract, c.extents, values);
      }
      ASSERT_EQ(got.size(), want.size());
      const DType type = contract.operands.back().dtype;
      if (c.tolerance == 0 && !is_float(type)) {
        EXPECT_EQ(got, want);
      } else {
        double largest = 1e-6;
        for (const uint64_t bits : want) {
          if (const double value = decode(type, bits); std::isfinite(value))
            largest = std::max(largest, std::abs(value));
        }
        for (size_t i = 0; i < got.size(); ++i) {
          const double x = decode(type, got[i]), y = decode(type, want[i]);
          if (std::isnan(y)) {
            ASSERT_TRUE(std::isnan(x)) << "element " << i << " is " << x << ", expected NaN";
          } else if (std::isinf(y) || c.tolerance == 0) {
            ASSERT_EQ(x, y) << "element " << i;
          } else {
            ASSERT_LE(std::abs(x - y), c.tolerance * largest) << "element " << i << " is " << x << ", expected " << y;
          }
        }
      }
    }
  }
}

// Layouts of x over (outer axes, inner axes).
struct Layout {
  std::string what;
  Shape extents;
  int inner;
  Strides x;
};

std::vector<Layout> layouts() {
  std::vector<Layout> result;
  const auto add = [&](std::string what, const Shape& extents, int inner, const Strides& x) {
    result.push_back({std::move(what), extents, inner, x});
  };
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 255, 256, 257, 1000})
    add("rows of " + std::to_string(n), {3, n}, 1, row_major({3, n}));
  for (const int64_t n : {7, 8, 16, 17, 33, 64, 65, 130})
    add("columns of " + std::to_string(n), {n, 67}, 1, Strides{1, n});
  add("columns between axes", {3, 19, 5}, 1, Strides{95, 1, 19});
  add("nothing", {0, 5}, 1, Strides{5, 1});
  add("one group", {1, 71}, 1, Strides{0, 1});
  add("groups of one", {71, 1}, 1, Strides{1, 0});
  add("several axes", {2, 3, 4, 5}, 2, row_major({2, 3, 4, 5}));
  add("axes that do not join", {5, 3, 7}, 2, Strides{50, 13, 2});
  add("outer axes that do not join", {5, 3, 7}, 1, Strides{50, 13, 1});
  add("columns of several axes", {17, 3, 4}, 2, Strides{1, 100, 20});
  add("backwards", {5, 37}, 1, Strides{-37, -1});
  add("every other", {5, 37}, 1, Strides{90, 2});
  add("the same element", {5, 37}, 1, Strides{1, 0});
  add("the same group", {5, 37}, 1, Strides{0, 1});
  add("rank 8", {2, 1, 3, 2, 2, 1, 3, 5}, 3, row_major({2, 1, 3, 2, 2, 1, 3, 5}));
  return result;
}

KernelContract reduce_contract(const Layout& layout, Reduce::Kind kind, DType x, DType sum, DType result) {
  KernelContract contract;
  contract.family = ReduceKernel{.inner = layout.inner, .kind = kind, .accumulate = sum};
  contract.operands = {{x, {}}, {result, {}}};
  contract.expr = convert_expr(leading_type(contract), result);
  return contract;
}

constexpr Reduce::Kind all_kinds[] = {Reduce::Kind::sum, Reduce::Kind::product,   Reduce::Kind::max,
                                      Reduce::Kind::min, Reduce::Kind::index_max, Reduce::Kind::index_min};
bool is_index(Reduce::Kind kind) { return kind == Reduce::Kind::index_max || kind == Reduce::Kind::index_min; }

TEST(ReduceKernel, LayoutsAndKinds) {
  std::vector<Case> cases;
  size_t number = 0;
  for (const Layout& layout : layouts()) {
    ++number;
    for (const Reduce::Kind kind : all_kinds) {
      // A kernel takes long to compile: sums of each layout, and two others in turns.
      if (is_index(kind) && layout.inner != 1) continue;
      if (kind != Reduce::Kind::sum && static_cast<size_t>(kind) % 3 != number % 3) continue;
      Case c;
      c.what = layout.what + ", kind " + std::to_string(static_cast<int>(kind));
      c.extents = layout.extents;
      c.contract = reduce_contract(layout, kind, DType::f32, DType::f32, is_index(kind) ? DType::i64 : DType::f32);
      const Shape outer = outer_extents(c.contract, layout.extents);
      c.strides = {layout.x, row_major(outer)};
      c.tolerance = kind == Reduce::Kind::product ? 1e-5 : 0;  // sums of quarters are exact
      c.contract.get<ReduceKernel>().last = cases.size() % 2 == 0;
      cases.push_back(c);
    }
  }
  run_cases(cases);
}

TEST(ReduceKernel, TypesAndSpecialValues) {
  std::vector<Case> cases;
  const Layout rows{"rows", {7, 61}, 1, Strides{61, 1}}, columns{"columns", {37, 61}, 1, Strides{1, 40}},
      empty{"empty", {5, 0}, 1, Strides{1, 1}};
  struct Types {
    DType x, sum, result;
  };
  const Types types[] = {{DType::f16, DType::f32, DType::f16},      {DType::bf16, DType::f32, DType::f32},
                         {DType::f8e4m3fn, DType::f32, DType::f16}, {DType::f8e5m2fnuz, DType::f32, DType::f32},
                         {DType::f64, DType::f64, DType::f64},      {DType::i8, DType::i8, DType::i8},
                         {DType::u8, DType::u8, DType::i32},        {DType::i16, DType::i16, DType::i16},
                         {DType::u32, DType::u32, DType::u32},      {DType::i64, DType::i64, DType::i64},
                         {DType::u64, DType::u64, DType::u64},      {DType::boolean, DType::i32, DType::boolean}};
  for (const Layout* layout : {&rows, &columns, &empty}) {
    for (const Types& t : types) {
      for (const Reduce::Kind kind : all_kinds) {
        if (is_index(kind) && layout == &empty) continue;
        if ((static_cast<size_t>(kind) + static_cast<size_t>(t.x)) % 2 != (layout == &columns ? 1 : 0)) continue;
        Case c;
        c.what = layout->what + " of " + std::string(name(t.x)) + ", kind " + std::to_string(static_cast<int>(kind));
        c.extents = layout->extents;
        c.contract = reduce_contract(*layout, kind, t.x, t.sum, is_index(kind) ? DType::i64 : t.result);
        c.strides = {layout->x, Strides{1}};
        // Products of many elements round in between.
        c.tolerance = kind == Reduce::Kind::product && is_float(t.sum) ? (t.result == DType::f16 ? 2e-3 : 1e-5) : 0;
        c.special = is_float(t.x) && kind != Reduce::Kind::sum && kind != Reduce::Kind::product;
        c.contract.get<ReduceKernel>().last = is_index(kind) && cases.size() % 2 == 0;
        cases.push_back(c);
      }
    }
  }
  run_cases(cases);
}

TEST(ReduceKernel, MapAndEpilogue) {
  // The root of a mean of squares, scaled and shifted by extras.
  std::vector<Case> cases;
  for (const bool columns : {false, true}) {
    Case c;
    c.what = columns ? "columns" : "rows";
    const Layout layout{"", {5, 35, 21}, 1, columns ? Strides{21 * 35, 1, 35} : Strides{21 * 35, 21, 1}};
    c.extents = layout.extents;
    c.contract = reduce_contract(layout, Reduce::Kind::sum, DType::f16, DType::f32, DType::f32);
    ExprBuilder map(1);
    const uint16_t x = map.convert(map.input(0, DType::f16), DType::f32);
    c.contract.get<ReduceKernel>().map = std::move(map).finish(map.binary(ExprOp::mul, x, x));
    ExprBuilder epilogue(3);
    const uint16_t mean =
        epilogue.binary(ExprOp::div, epilogue.input(0, DType::f32), epilogue.constant(DType::f32, 21));
    const uint16_t root = epilogue.unary(ExprOp::sqrt, mean);
    const uint16_t scaled = epilogue.binary(ExprOp::mul, root, epilogue.input(1, DType::f32));
    c.contract.expr = std::move(epilogue).finish(
        epilogue.binary(ExprOp::add, scaled, epilogue.convert(epilogue.input(2, DType::bf16), DType::f32)));
    c.contract.operands = {{DType::f16, {}}, {DType::f32, {}}, {DType::bf16, {}}, {DType::f32, {}}};
    c.strides = {layout.x, Strides{0, 1}, Strides{1, 0}, Strides{1, 5}};
    c.tolerance = 1e-6;
    cases.push_back(c);
  }
  run_cases(cases);
}

TEST(RowwiseKernel, LayoutsKindsAndTypes) {
  std::vector<Case> cases;
  std::vector<Layout> all = layouts();
  all.push_back({"long rows", {2, 5000}, 1, Strides{5000, 1}});
  size_t number = 0;
  for (const Layout& layout : all) {
    ++number;
    for (const Rowwise::Kind kind : {Rowwise::Kind::softmax, Rowwise::Kind::log_softmax, Rowwise::Kind::layer_norm,
                                     Rowwise::Kind::rms_norm, Rowwise::Kind::masked_softmax}) {
      if (static_cast<size_t>(kind) % 2 != number % 2) continue;
      Case c;
      c.what = layout.what + ", kind " + std::to_string(static_cast<int>(kind));
      c.extents = layout.extents;
      const double epsilon = kind == Rowwise::Kind::layer_norm || kind == Rowwise::Kind::rms_norm ? 1e-5 : 0;
      constexpr DType types[] = {DType::f32, DType::f16, DType::f32, DType::bf16, DType::f64};
      const DType type = types[cases.size() % 5];
      const DType accumulate = type == DType::f64 ? DType::f64 : DType::f32;
      c.contract.family =
          RowwiseKernel{.inner = layout.inner, .kind = kind, .accumulate = accumulate, .epsilon = epsilon};
      const bool extras = cases.size() % 3 == 0;
      const DType result = extras ? DType::f32 : type;
      c.contract.operands = {{type, {}}};
      c.strides = {layout.x};
      if (extras) {
        c.contract.operands.resize(3, {DType::f32, {}});
        Strides scale = row_major(layout.extents), shift = scale;
        for (int axis = 0; axis < layout.extents.rank(); ++axis) {
          (axis < layout.extents.rank() - layout.inner ? scale : shift)[axis] = 0;
        }
        c.strides.push_back(scale);
        c.strides.push_back(shift);
      }
      c.contract.operands.push_back({result, {}});
      c.strides.push_back(cases.size() % 2 == 0 ? row_major(layout.extents) : column_major(layout.extents));
      c.contract.expr = extras ? scale_and_shift(accumulate, DType::f32, result) : convert_expr(accumulate, result);
      c.tolerance = result == DType::bf16 ? 1e-2 : result == DType::f16 ? 2e-3 : 3e-6;
      cases.push_back(c);
    }
  }
  run_cases(cases);
}

TEST(RowwiseKernel, SpecialValues) {
  std::vector<Case> cases;
  for (const Rowwise::Kind kind :
       {Rowwise::Kind::softmax, Rowwise::Kind::log_softmax, Rowwise::Kind::layer_norm, Rowwise::Kind::masked_softmax}) {
    for (const bool columns : {false, true}) {
      Case c;
      c.what = std::string(columns ? "columns" : "rows") + ", kind " + std::to_string(static_cast<int>(kind));
      c.contract.family = RowwiseKernel{.kind = kind, .epsilon = kind == Rowwise::Kind::layer_norm ? 1e-3 : 0};
      // Small groups, so that some hold -infinities alone.
      const bool small = kind == Rowwise::Kind::masked_softmax;
      c.extents = small ? Shape{2000, 2} : Shape{40, 5};
      const int64_t rows = c.extents[0], elements = c.extents[1];
      c.contract.operands = {{DType::f32, {}}, {DType::f32, {}}};
      c.strides = {columns ? Strides{1, rows} : Strides{elements, 1}, Strides{elements, 1}};
      c.contract.expr = convert_expr(DType::f32, DType::f32);
      c.tolerance = 1e-5;
      c.special = true;
      cases.push_back(c);
    }
  }
  run_cases(cases);
}

// A group that does not fit into scratch is read in pieces, as often as it takes.
TEST(RowwiseKernel, GroupsBeyondScratch) {
  std::vector<Case> cases;
  for (const Rowwise::Kind kind : {Rowwise::Kind::masked_softmax, Rowwise::Kind::layer_norm}) {
    Case c;
    c.what = "kind " + std::to_string(static_cast<int>(kind));
    c.contract.family = RowwiseKernel{.inner = 2, .kind = kind};
    c.extents = {1, 2, device::max_kept_row / 2 + 13};
    c.contract.operands = {{DType::f8e4m3fn, {}}, {DType::f32, {}}};
    c.strides = {row_major(c.extents), row_major(c.extents)};
    c.contract.expr = convert_expr(DType::f32, DType::f32);
    c.tolerance = 1e-5;
    cases.push_back(c);
  }
  run_cases(cases);
}

TEST(RowwiseKernel, InPlace) {
  KernelSet kernels;
  for (const bool columns : {false, true}) {
    KernelContract contract;
    contract.family = RowwiseKernel();
    const OperandContract lines{
        DType::f32, columns ? std::vector{Access::unit, Access::strided} : std::vector{Access::strided, Access::unit}};
    contract.operands = {lines, lines};
    contract.expr = convert_expr(DType::f32, DType::f32);
    testing::add_run(kernels, contract, {33, 7});
  }
  for (const Code& code : testing::compile_and_load(kernels)) {
    for (uint32_t kernel = 0; kernel < 2; ++kernel) {
      Memory memory;
      const Operand x = memory.add(DType::f32, {33, 7}, kernel == 1 ? Strides{1, 33} : Strides{7, 1});
      std::mt19937_64 random(5);
      memory.write(x, testing::small_values(DType::f32, 33 * 7, random));
      const std::vector<std::vector<uint64_t>> before = {memory.read(x)};
      ASSERT_TRUE(memory.run(code, kernel, {x, x}));
      const std::vector<uint64_t> got = memory.read(x), want = run_kernel(kernels.contracts[kernel], {33, 7}, before);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(decode(DType::f32, got[i]), decode(DType::f32, want[i]), 1e-6) << i;
    }
  }
}

TEST(CumulativeKernel, LayoutsAndTypes) {
  std::vector<Case> cases;
  constexpr DType types[] = {DType::f32, DType::i32, DType::f64, DType::i8, DType::f16, DType::u64, DType::bf16};
  for (const Layout& layout : layouts()) {
    if (layout.inner != 1) continue;
    for (int mode = static_cast<int>(cases.size() / 2 % 2); mode < 4; mode += 2) {
      Case c;
      const DType type = types[cases.size() % 7];
      c.what = layout.what + " of " + std::string(name(type)) + ", mode " + std::to_string(mode);
      c.contract.family = CumulativeKernel{.accumulate = !is_float(type) || type == DType::f64 ? type : DType::f32,
                                           .exclusive = mode % 2 == 1,
                                           .reverse = mode >= 2};
      c.extents = layout.extents;
      c.contract.operands = {{type, {}}, {type, {}}};
      c.strides = {layout.x, cases.size() % 3 == 0 ? column_major(layout.extents) : row_major(layout.extents)};
      cases.push_back(c);  // sums of quarters are exact, and round alike where they are written
    }
  }
  run_cases(cases);
}

TEST(GatherKernel, LayoutsAndTypes) {
  std::vector<Case> cases;
  const auto add = [&](std::string what, DType type, DType index, const Shape& extents, int inner,
                       std::vector<Strides> strides) {
    Case c;
    c.what = std::move(what);
    c.contract.family = GatherKernel{.inner = inner};
    c.extents = extents;
    c.contract.operands = {{type, {}}, {index, {}}, {type, {}}};
    c.strides = std::move(strides);
    cases.push_back(c);
  };
  // extents: (outer…, indexed…); strides: data over all of them, indices over (outer…, list), result over outer.
  for (const DType type : {DType::f32, DType::f16, DType::u8, DType::i64, DType::boolean, DType::f8e5m2}) {
    add("rows of " + std::string(name(type)), type, DType::i64, {13, 37, 9}, 1,
        {Strides{0, 1, 37}, Strides{1, 0, 0}, Strides{37, 1}});
    add("elements of " + std::string(name(type)), type, DType::i32, {41, 7}, 1,
        {Strides{0, 3}, Strides{1, 0}, Strides{1}});
  }
  add("between axes", DType::f32, DType::i64, {3, 5, 7, 11}, 1,
      {Strides{77, 0, 1, 7}, Strides{0, 1, 0, 0}, Strides{35, 7, 1}});
  add("one index for each element", DType::f32, DType::i32, {5, 7, 11}, 1,
      {Strides{77, 1, 7}, Strides{7, 1, 0}, Strides{7, 1}});
  add("two indices", DType::f32, DType::i64, {6, 5, 4, 3}, 2, {Strides{0, 1, 15, 5}, Strides{2, 0, 1}, Strides{5, 1}});
  add("three indices for each element", DType::i16, DType::i64, {29, 4, 3, 2}, 3,
      {Strides{0, 6, 2, 1}, Strides{3, 1}, Strides{2}});
  add("batches", DType::f32, DType::i64, {2, 6, 5, 4, 3}, 2,
      {Strides{60, 0, 1, 15, 5}, Strides{12, 2, 0, 1}, Strides{30, 5, 1}});
  add("backwards", DType::f32, DType::i64, {6, 5, 4}, 1, {Strides{0, -1, -5}, Strides{-1, 0, 0}, Strides{1, 6}});
  add("nothing", DType::f32, DType::i64, {0, 5, 4}, 1, {Strides{0, 1, 5}, Strides{1, 0, 0}, Strides{5, 1}});
  add("one", DType::f32, DType::i64, {1, 1, 4}, 1, {Strides{0, 0, 1}, Strides{0, 0, 0}, Strides{0, 0}});
  add("no index", DType::f32, DType::i64, {5, 7}, 0, {Strides{7, 1}, Strides{0, 0, 1}, Strides{1, 5}});
  add("an axis of one", DType::f32, DType::i64, {7, 3, 1}, 1, {Strides{0, 1, 0}, Strides{1, 0, 0}, Strides{3, 1}});
  run_cases(cases);
}

TEST(TopKKernel, LayoutsAndTypes) {
  std::vector<Case> cases;
  constexpr DType types[] = {DType::f32, DType::i32,  DType::f64,      DType::u8,
                             DType::f16, DType::bf16, DType::f8e4m3fn, DType::u64};
  for (const Layout& layout : layouts()) {
    if (layout.inner != 1) continue;
    const int64_t count = layout.extents[layout.extents.rank() - 1];
    for (const int64_t k : {int64_t{1}, std::min<int64_t>(count, 5), count}) {
      Case c;
      const DType type = types[cases.size() % std::size(types)];
      c.what = "top " + std::to_string(k) + ", " + layout.what + " of " + std::string(name(type));
      c.contract.family = TopKKernel{.smallest = cases.size() % 2 == 1};
      c.contract.operands = {{type, {}}, {DType::i64, {}}};
      c.extents = layout.extents;
      c.extents.append(k);
      Shape result = layout.extents;
      result[result.rank() - 1] = k;
      c.strides = {layout.x, cases.size() % 3 == 0 ? column_major(result) : row_major(result)};
      c.special = is_float(type);
      cases.push_back(c);
    }
  }
  run_cases(cases);
}

TEST(ScatterKernel, KindsLayoutsAndTypes) {
  std::vector<Case> cases;
  constexpr DType types[] = {DType::f32,  DType::i64, DType::f16,     DType::u8,
                             DType::bf16, DType::f64, DType::boolean, DType::f8e5m2fnuz};
  // (updates, rows, columns)
  for (const Shape& extents : {Shape{37, 13, 9}, Shape{1500, 7, 1}, Shape{40, 11, 64}, Shape{0, 5, 3}, Shape{9, 0, 3},
                               Shape{1, 1, 1}, Shape{600, 20, 3}, Shape{12, 5, 300}}) {
    for (size_t kind = 0; kind < scatter_kinds.size(); ++kind) {
      const DType type = types[(cases.size() * 3 + kind) % std::size(types)];
      if (type == DType::boolean && kind > 0) continue;
      Case c;
      c.what = fmt::format("{} of {}, {}", scatter_kinds[kind], name(type), to_string(extents));
      c.contract.family = ScatterKernel{.kind = static_cast<Scatter::Kind>(kind)};
      c.contract.operands = {
          {kind % 2 == 0 ? DType::i64 : DType::i32, {}}, {type, {}}, {DType::i64, {}}, {type, {}}, {type, {}}};
      c.extents = extents;
      const int64_t m = extents[0], n = extents[1], w = extents[2];
      const Strides updates = cases.size() % 3 == 0 ? column_major({m, w}) : Strides{w + 1, 1};
      const Strides data = cases.size() % 4 == 1 ? column_major({n, w}) : Strides{w, 1};
      const Strides result = cases.size() % 5 == 2 ? column_major({n, w}) : Strides{2 * w, 1};
      c.strides = {Strides{cases.size() % 2 == 0 ? 1 : -2}, updates, Strides{1}, data, result};
      cases.push_back(c);  // few combinations of quarters: each is rounded alike
    }
  }
  run_cases(cases);
}

TEST(ScatterKernel, InPlaceTheLastUpdateWins) {
  KernelSet kernels;
  KernelContract contract{.family = ScatterKernel()};
  const OperandContract matrix{DType::f32, {Access::strided, Access::unit}};
  contract.operands = {{DType::i64, {Access::unit}}, matrix, {DType::i64, {Access::broadcast}}, matrix, matrix};
  testing::add_run(kernels, contract, {5, 3, 2});
  for (const Code& code : testing::compile_and_load(kernels)) {
    Memory memory;
    const Operand indices = memory.add(DType::i64, {5}), first = memory.add(DType::i64, {1});
    const Operand updates = memory.add(DType::f32, {5, 2}), data = memory.add(DType::f32, {3, 2});
    const auto bits = [](std::initializer_list<double> values) {
      std::vector<uint64_t> result;
      for (const double value : values) result.push_back(encode(DType::f32, value, Overflow::propagate));
      return result;
    };
    memory.write(indices, {11, 99, 12, static_cast<uint64_t>(-1), 11});
    memory.write(first, {10});
    memory.write(updates, bits({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    memory.write(data, bits({-1, -2, -3, -4, -5, -6}));
    ASSERT_TRUE(memory.run(code, 0, {indices, updates, first, data, data}));
    EXPECT_EQ(memory.read(data), bits({-1, -2, 9, 10, 5, 6}));
  }
}

TEST(GroupKernels, WhatNoKernelImplements) {
  const auto refused = [](const KernelContract& contract) {
    KernelSet kernels;
    kernels.contracts = {contract};
    return !scratch_bytes(kernels, "host-x86-64-v3").has_value();
  };
  const Layout layout{"", {5, 7}, 1, Strides{7, 1}};
  KernelContract good = reduce_contract(layout, Reduce::Kind::sum, DType::f16, DType::f32, DType::f32);
  good.operands[0].access = {Access::strided, Access::unit};
  good.operands[1].access = {Access::unit};
  EXPECT_FALSE(refused(good));
  KernelContract contract = good;
  contract.get<ReduceKernel>().inner = 2;
  EXPECT_TRUE(refused(contract));
  contract = good;
  contract.get<ReduceKernel>().accumulate = DType::f16;
  EXPECT_TRUE(refused(contract));
  contract = good;
  contract.get<ReduceKernel>().columns = 0;  // along which x is not contiguous
  EXPECT_TRUE(refused(contract));
  contract = good;
  contract.get<ReduceKernel>().kind = static_cast<Reduce::Kind>(9);
  EXPECT_TRUE(refused(contract));
  contract = good;
  contract.get<ReduceKernel>().map = convert_expr(DType::f16, DType::f64);
  EXPECT_TRUE(refused(contract));
  contract = good;
  contract.get<ReduceKernel>().kind = Reduce::Kind::index_max;  // the expression reads f32, not an index
  EXPECT_TRUE(refused(contract));
}

}  // namespace
}  // namespace low
