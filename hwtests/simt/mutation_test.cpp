// Tests of the tests: whether the checks of SIMT targets, and the comparison of results, see each barrier, bound and first
// write to LDS that is taken out of the kernels of products and of attention.
#include <gtest/gtest.h>

#include <map>

#include "hwtests/gpu/kernel_check.h"

namespace low {
namespace {

// A kernel, and runs of it: some change shows in all of them, some in one.
struct Subject {
  std::string what;
  KernelContract contract;
  struct Run {
    Shape extents;
    hwtests::KernelSetup setup = {};
  };
  std::vector<Run> runs;
};

OperandContract matrix_operand(DType type, Access row, Access column) { return {type, {row, column}}; }

Subject product(std::string what, DType type, bool b_by_columns, const Shape& extents) {
  const OperandContract rows = matrix_operand(type, Access::strided, Access::unit);
  const OperandContract columns = matrix_operand(type, Access::unit, Access::strided);
  Subject subject{.what = std::move(what),
                  .contract = {.family = GemmKernel{.math_a = type, .math_b = type, .configuration = 0},
                               .operands = {rows, b_by_columns ? columns : rows,
                                            matrix_operand(DType::f32, Access::strided, Access::unit)},
                               .expr = testing::identity(DType::f32)},
                  .runs = {{extents}}};
  configure(subject.contract, extents);
  return subject;
}

Subject attention(std::string what, const AttentionKernel& kernel, DType type, std::vector<Subject::Run> runs) {
  const OperandContract rows = matrix_operand(type, Access::strided, Access::unit);
  KernelContract contract{.family = kernel, .operands = {rows, rows, rows}, .expr = {}};
  const DType sum = kernel.accumulate;
  if (kernel.masked) contract.operands.push_back(matrix_operand(DType::boolean, Access::strided, Access::unit));
  if (kernel.causal) contract.operands.push_back({DType::i32, {Access::unit}});
  if (kernel.continues) contract.operands.push_back(matrix_operand(sum, Access::strided, Access::unit));
  contract.operands.push_back(matrix_operand(sum, Access::strided, Access::unit));
  if (!kernel.partial) contract.expr = testing::identity(sum);
  for (OperandContract& operand : contract.operands)
    if (operand.dtype == DType::i32) operand.access = {Access::broadcast};
  return {.what = std::move(what), .contract = std::move(contract), .runs = std::move(runs)};
}

// In the function that begins with `within`, each place of `from` in turn becomes `to`; `within` empty: anywhere.
struct Mutation {
  std::string kind;
  std::string within, from, to;
};

std::vector<std::string> mutants(const std::string& source, const Mutation& mutation) {
  size_t begin = 0, end = source.size();
  if (!mutation.within.empty()) {
    begin = source.find(mutation.within);
    if (begin == std::string::npos) return {};
    end = source.find("\n}\n", begin);
  }
  std::vector<std::string> all;
  for (size_t at = source.find(mutation.from, begin); at < end; at = source.find(mutation.from, at + 1))
    all.push_back(std::string(source).replace(at, mutation.from.size(), mutation.to));
  return all;
}

// What is wrong in any of the runs; empty: nothing.
std::string problem(const Subject& subject, const KernelSet& kernels, const std::string& source) {
  ThreadPool pool(1);
  const std::vector<std::string> targets = testing::test_targets();
  const auto objects = compile_kernels(kernels, source, targets, {}, pool);
  EXPECT_TRUE(objects) << objects.error().message;
  if (!objects) return "";
  testing::Code code = testing::load(objects->front());
  code.contracts = kernels.contracts;
  for (const Subject::Run& run : subject.runs) {
    hwtests::KernelSetup setup = run.setup;
    setup.prints = false;
    std::string found = hwtests::kernel_problem(code, subject.contract, 0, run.extents, setup);
    if (!found.empty()) return found;
  }
  return "";
}

void expect_all_reported(const Subject& subject, const std::vector<Mutation>& mutations) {
  SCOPED_TRACE(subject.what);
  KernelSet kernels;
  kernels.contracts = {subject.contract};
  for (const Subject::Run& run : subject.runs) kernels.runs.push_back({0, run.extents});
  kernels.entries = {{0}};
  const std::string source = emit_source(kernels, testing::test_targets().front());
  ASSERT_EQ(problem(subject, kernels, source), "");
  std::map<std::string, std::pair<int, int>> counts;  // reported, all
  for (const Mutation& mutation : mutations) {
    const std::vector<std::string> all = mutants(source, mutation);
    EXPECT_FALSE(all.empty()) << "there is no \"" << mutation.from << "\" in " << mutation.within;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool reported = !problem(subject, kernels, all[i]).empty();
      EXPECT_TRUE(reported) << mutation.kind << " " << i + 1 << " of " << all.size() << ": \"" << mutation.from
                            << "\" in " << mutation.within << " is not missed";
      counts[mutation.kind].first += reported ? 1 : 0;
      ++counts[mutation.kind].second;
    }
  }
  for (const auto& [kind, count] : counts)
    std::printf("%s: %d of %d %s reported\n", subject.what.c_str(), count.first, count.second, kind.c_str());
}

const std::string in_gemm = "LOW_INLINE void gemm_blocks(", in_fill = "LOW_INLINE void fill(",
                  in_attention = "LOW_INLINE void attention_blocks(",
                  in_rows = "LOW_INLINE void attention_rows_in_turn(";
const std::vector<Mutation> of_any_kernel = {
    {"divergent barriers", "LOW_INLINE void run_tile(", "barrier();", "if (lane() != 7) barrier();"}};

TEST(Mutations, ProductsInChunks) {
  std::vector<Mutation> mutations = of_any_kernel;
  mutations.insert(mutations.end(),
                   {{"barriers", in_gemm, "barrier();", ""},
                    {"divergent barriers", in_gemm, "barrier();", "if (lane() != 7) barrier();"},
                    {"bounds", in_gemm, "row < rows", "true"},
                    {"bounds", in_gemm, "column < columns", "true"},
                    {"bounds", in_fill, "wide && row < row_limit", "wide"},
                    {"bounds", in_fill, "k + chunk_items <= k_limit", "true"},
                    {"first writes to LDS", in_gemm, "stage_a.template fill", "if (false) stage_a.template fill"},
                    {"first writes to LDS", in_gemm, "stage_b.template fill", "if (false) stage_b.template fill"},
                    {"writes beyond LDS", in_fill, "store_lds(base + (", "store_lds(base + (65536 + "}});
  const DType own = testing::test_targets().front() == "simt-gfx950" ? DType::f8e4m3fn : DType::f8e4m3fnuz;
  expect_all_reported(product("product in chunks", own, true, {70, 75, 296}), mutations);
}

TEST(Mutations, ProductsByElements) {
  expect_all_reported(product("product by elements", DType::f16, false, {70, 75, 150}),
                      {{"barriers", in_gemm, "barrier();", ""},
                       {"bounds", in_fill, "if (row < row_limit && k + i", "if (k + i"},
                       {"bounds", in_fill, "&& k + i < k_limit)", ")"}});
}

// A stage of fewer chunks than lanes.
TEST(Mutations, ProductsOfFewRows) {
  expect_all_reported(product("product of few rows", DType::f16, true, {10, 100, 150}),
                      {{"bounds", in_fill, "number >= chunks", "false"}});
}

TEST(Mutations, Attention) {
  AttentionKernel kernel{.d = 40, .dv = 24, .math = DType::f16, .masked = true, .causal = true};
  const Subject subject = attention("attention", kernel, DType::f16,
                                    {{{70, 150, 40, 24}, {.diagonal = 1}}, {{70, 150, 40, 24}, {.diagonal = 200}}});
  expect_all_reported(
      subject, {{"barriers", in_attention, "barrier();", ""},
                {"divergent barriers", in_attention, "barrier();", "if (lane() != 7) barrier();"},
                {"bounds", in_attention, "row < m && c < Kernel::d", "c < Kernel::d"},
                {"bounds", in_attention, "row < m && c < Kernel::d", "row < m"},
                {"bounds", in_attention, "row < m && at < n ?", "at < n ?"},
                {"bounds", in_attention, "row < m && at < n ?", "row < m ?"},
                {"bounds", in_attention, "if (row >= m) continue;\n      const Operands last", "const Operands last"},
                {"bounds", in_attention, "if (c * values.n + column >= Kernel::dv) continue;", ""},
                {"bounds", "LOW_INLINE F finished(", "Kernel::diagonal > 0 && key > row + diagonal", "false"},
                {"first writes to LDS", in_attention, "stage_k.template fill", "if (false) stage_k.template fill"},
                {"first writes to LDS", in_attention, "stage_v.template fill", "if (false) stage_v.template fill"},
                {"first writes to LDS", in_attention, "store_lds(stage_p.base", "if (false) store_lds(stage_p.base"}});
}

// Its state: read, and written in place.
TEST(Mutations, AttentionInParts) {
  AttentionKernel kernel{.d = 8, .dv = 8, .math = DType::f16, .causal = true, .continues = true, .partial = true};
  expect_all_reported(
      attention("attention in parts", kernel, DType::f16, {{{70, 150, 8, 8}, {.diagonal = 1, .in_place = 4}}}),
      {{"bounds", "LOW_INLINE i64 needed(", "rows + diagonal)", "rows + diagonal - 1)"},
       {"bounds", in_attention, "if (row >= m) continue;\n        largest", "largest"},
       {"bounds", in_attention, "if (c * values.n + column < Kernel::dv) sums", "sums"},
       {"bounds", in_attention, "if (row >= m) continue;\n      const Operands last", "const Operands last"},
       {"bounds", in_attention, "if (c * values.n + column < Kernel::dv) store", "store"}});
}

TEST(Mutations, AttentionByRows) {
  AttentionKernel kernel{.d = 130,  // rows of k are further apart than all that follows is long
                         .dv = 6,
                         .math = DType::f64,
                         .accumulate = DType::f64,
                         .causal = true,
                         .continues = true,
                         .partial = true};
  expect_all_reported(
      attention(
          "attention by rows", kernel, DType::f64,
          {{{3, 270, 130, 6}, {.diagonal = 268, .in_place = 4}}, {{3, 270, 130, 6}, {.diagonal = -5, .in_place = 4}}}),
      {{"barriers", in_rows, "barrier();", ""},
       {"divergent barriers", in_rows, "barrier();", "if (lane() != 7) barrier();"},
       {"bounds", in_rows, "if (at < needed)", ""},
       {"bounds", in_rows, "if (column(i) < Kernel::dv) sums[i] =", "sums[i] ="},
       {"bounds", in_rows, "if (column(i) < Kernel::dv) store", "store"},
       {"first writes to LDS", in_rows, "store_lds(lds + lane()", "if (false) store_lds(lds + lane()"}});
}

}  // namespace
}  // namespace low
