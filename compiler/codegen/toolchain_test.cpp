#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "compiler/codegen/subprocess.h"
#include "compiler/codegen/test_kernels.h"

namespace low {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

KernelSet small_kernels() {
  KernelSet kernels;
  KernelContract gemm{.family = GemmKernel{.rows = 5}};
  const OperandContract rows{DType::f32, {Access::strided, Access::unit}};
  gemm.operands = {rows, rows, rows};
  gemm.expr = testing::identity(DType::f32);
  KernelContract copy;
  copy.operands = {{DType::f16, {Access::unit}}, {DType::f16, {Access::unit}}};
  copy.expr = testing::identity(DType::f16);
  kernels.contracts = {gemm, copy};
  kernels.copies = {{DType::f32, DType::f32, Overflow::propagate}};
  kernels.runs = {{0, {5, 16, 7}}, {1, {9}}};
  kernels.entries = {{0, 2}, {1}, {}};
  kernels.superstep_entry = {0, 1, 0, 2};
  return kernels;
}

std::vector<std::string> host_targets() {
  std::vector<std::string> targets;
  for (const std::string_view target : codegen_targets())
    if (target.starts_with("host-")) targets.emplace_back(target);
  return targets;
}

TEST(Emit, SourceIsReadableAndHasNoPath) {
  const std::string source = emit_source(small_kernels(), "host-x86-64-v3");
  EXPECT_EQ(source, emit_source(small_kernels(), "host-x86-64-v3"));
  EXPECT_THAT(source, HasSubstr("struct gemm_0\n    : Factors<OperandOf<f32, Access::strided, Access::unit>"));
  EXPECT_THAT(source, HasSubstr("case 2: copy<copy_2>(launch, command, scratch); break;"));
  EXPECT_THAT(source, HasSubstr("low_entry_2"));
  EXPECT_THAT(source, Not(HasSubstr(LOW_SOURCE_DIR)));
  EXPECT_THAT(source, Not(HasSubstr("#include \"")));
}

TEST(Emit, Names) {
  const KernelSet kernels = small_kernels();
  EXPECT_EQ(kernel_name(kernels, 0), "gemm_0");
  EXPECT_EQ(kernel_name(kernels, 1), "pointwise_1");
  EXPECT_EQ(kernel_name(kernels, 2), "copy_2");
}

TEST(Toolchain, SameBytesFromAnyFolderAndThreads) {
  const KernelSet kernels = small_kernels();
  const std::string source = emit_source(kernels, "host-x86-64-v3");
  ThreadPool one(1), two(2);
  const auto first = compile_kernels(kernels, source, host_targets(), {}, one);
  ASSERT_TRUE(first) << first.error().message;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path("/");
  ASSERT_EQ(setenv("CPATH", "/nowhere", 1), 0);
  ASSERT_EQ(setenv("LC_ALL", "tr_TR.UTF-8", 1), 0);
  const auto second = compile_kernels(kernels, source, host_targets(), {}, two);
  std::filesystem::current_path(before);
  unsetenv("CPATH");
  unsetenv("LC_ALL");
  ASSERT_TRUE(second) << second.error().message;
  ASSERT_EQ(first->size(), host_targets().size() - 1);  // no pairs
  for (size_t i = 0; i < first->size(); ++i) {
    EXPECT_EQ((*first)[i].target, host_targets()[i]);
    EXPECT_EQ((*first)[i].clang_version.substr(0, 14), "clang version ");
    EXPECT_EQ((*first)[i].clang_version, toolchain_version({}).value());
    EXPECT_EQ((*first)[i].bytes, (*second)[i].bytes);
    EXPECT_THAT((*first)[i].bytes, Not(HasSubstr("/tmp")));
    EXPECT_THAT((*first)[i].bytes, Not(HasSubstr("stdin")));
    EXPECT_THAT((*first)[i].bytes, HasSubstr("low_entry_2"));
  }
}

// A target with a base has the entry points that multiply pairs, and no object where there are none.
TEST(Toolchain, ATargetWithABase) {
  KernelSet kernels = small_kernels();
  const std::string targets[] = {"host-x86-64-v4", "host-x86-64-v4-bf16"};
  ThreadPool pool(1);
  const auto compile = [&] {
    auto objects = compile_kernels(kernels, emit_source(kernels, targets[0]), targets, {}, pool);
    EXPECT_TRUE(objects) << objects.error().message;
    return std::move(*objects);
  };
  EXPECT_EQ(compile().size(), 1u);
  kernels.contracts[0].family = GemmKernel{.math_a = DType::bf16, .math_b = DType::bf16, .rows = 5};
  kernels.contracts[0].operands[0].dtype = kernels.contracts[0].operands[1].dtype = DType::f8e5m2;
  const std::vector<CodeObject> objects = compile();
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0].base, "");
  EXPECT_EQ(objects[1].base, "host-x86-64-v4");
  EXPECT_THAT(objects[0].bytes, HasSubstr("low_entry_1"));
  EXPECT_THAT(objects[1].bytes, HasSubstr("low_entry_0"));
  EXPECT_THAT(objects[1].bytes, Not(HasSubstr("low_entry_1")));
  kernels.entries = {{0, 2}};
  EXPECT_EQ(compile()[1].base, "");
}

// Routines of the compiler's version are linked. Those of a target with a base make its object of the base's code where
// all that it gains by are routines; otherwise it is compiled by itself.
TEST(Toolchain, Routines) {
  ThreadPool pool(1);
  const std::string targets[] = {"host-x86-64-v4", "host-x86-64-v4-bf16"};
  std::vector<CodeObject> routines;
  for (const std::string& target : targets) {
    auto made = compile_routines(target, {});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->bytes, compile_routines(target, {})->bytes);
    EXPECT_THAT(made->bytes, Not(HasSubstr("/tmp")));
    routines.push_back(std::move(*made));
  }
  const OperandContract rows{DType::f8e5m2, {Access::strided, Access::unit}};
  KernelContract gemm{.family = GemmKernel{.math_a = DType::bf16, .math_b = DType::bf16, .panels = true}};
  gemm.operands = {rows, rows, {DType::f32, rows.access}};
  gemm.operands[1].access = {Access::strided, Access::strided, Access::unit};
  gemm.expr = testing::identity(DType::f32);
  KernelSet kernels = small_kernels();
  kernels.contracts[0] = gemm;
  kernels.runs[0] = {0, {20, 16, 7}};
  const auto compile = [&](std::span<const CodeObject> linked) {
    return compile_kernels(kernels, emit_source(kernels, targets[0]), targets, {.routines = linked}, pool);
  };
  const auto object = compile(routines);
  ASSERT_TRUE(object) << object.error().message;
  ASSERT_EQ(object->size(), 2u);
  EXPECT_EQ((*object)[1].target, targets[1]);
  EXPECT_EQ((*object)[1].base, "");
  EXPECT_THAT((*object)[1].bytes, HasSubstr("low_entry_1"));
  EXPECT_NE((*object)[0].bytes, (*object)[1].bytes);
  // Others are not looked at.
  std::vector<CodeObject> broken = routines;
  for (CodeObject& one : broken) one.bytes = "nothing that can be linked";
  const auto refused = compile(broken);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  for (CodeObject& one : broken) one.clang_version = "clang version 3.4";
  const auto whole = compile(broken);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ((*whole)[1].base, targets[0]);
  // Transposed rows are no routine's.
  kernels.contracts[0].operands[0].access = {Access::unit, Access::strided};
  const auto apart = compile(routines);
  ASSERT_TRUE(apart) << apart.error().message;
  EXPECT_EQ((*apart)[1].base, targets[0]);
}

TEST(Toolchain, MissingOrWrongClang) {
  ThreadPool pool(1);
  const KernelSet kernels = small_kernels();
  const std::string source = emit_source(kernels, "host-x86-64-v3");
  for (const char* program : {"/nowhere/clang++", "no-such-program-of-this-name", "/bin/false", "/bin/echo", "/"}) {
    const auto objects = compile_kernels(kernels, source, host_targets(), {.clang = program}, pool);
    ASSERT_FALSE(objects) << program;
    EXPECT_EQ(objects.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(objects.error().message, HasSubstr(program));
  }
}

TEST(Toolchain, UnknownTarget) {
  ThreadPool pool(1);
  const std::string targets[] = {"host-x86-64-v9"};
  const auto objects =
      compile_kernels(small_kernels(), emit_source(small_kernels(), "host-x86-64-v3"), targets, {}, pool);
  ASSERT_FALSE(objects);
  EXPECT_EQ(objects.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(objects.error().message, HasSubstr("host-x86-64-v9"));
  EXPECT_THAT(objects.error().message, HasSubstr("host-x86-64-v4"));
}

TEST(Toolchain, FirstDiagnostic) {
  ThreadPool pool(1);
  const std::string source = "int a;\nint b = missing;\nint c = gone;\n";
  const auto objects = compile_kernels(small_kernels(), source, host_targets(), {}, pool);
  ASSERT_FALSE(objects);
  EXPECT_EQ(objects.error().kind, ErrorKind::internal);
  EXPECT_THAT(objects.error().message, HasSubstr("2:9: error: use of undeclared identifier 'missing'"));
  EXPECT_THAT(objects.error().message, Not(HasSubstr("gone")));
}

TEST(Toolchain, NothingIsLeftBehind) {
  std::string path;
  {
    const auto folder = TemporaryFolder::create();
    ASSERT_TRUE(folder);
    path = folder->path();
    const std::string arguments[] = {"/bin/sh", "-c", "cat; echo more >&2; mkdir \"$TMPDIR/x\"; exit 3"};
    const auto result = run_process(arguments, "text ", *folder);
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->started);
    EXPECT_EQ(result->status, 3);
    EXPECT_EQ(result->output, "text more\n");
    EXPECT_TRUE(std::filesystem::exists(path + "/x"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Contracts, RefusedByName) {
  const auto refused = [](auto change) {
    KernelSet kernels = small_kernels();
    change(kernels);
    const auto bytes = scratch_bytes(kernels, "host-x86-64-v4");
    if (bytes) return std::string();
    EXPECT_EQ(bytes.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(bytes.error().message, HasSubstr("host-x86-64-v4"));
    return bytes.error().message;
  };
  EXPECT_EQ(refused([](KernelSet&) {}), "");
  EXPECT_THAT(refused([](KernelSet& k) { k.contracts[0].get<GemmKernel>().accumulate = DType::f16; }),
              HasSubstr("gemm_0"));
  EXPECT_THAT(refused([](KernelSet& k) { k.contracts[0].get<GemmKernel>().math_a = DType::i8; }),
              HasSubstr("cannot multiply in i8 and accumulate in f32"));
  EXPECT_THAT(refused([](KernelSet& k) { k.contracts[0].operands.pop_back(); }), HasSubstr("2 operands"));
  EXPECT_THAT(refused([](KernelSet& k) { k.contracts[1].operands[0].dtype = DType::f32; }), HasSubstr("pointwise_1"));
  EXPECT_THAT(refused([](KernelSet& k) { k.contracts[1].operands[0].access = {}; }),
              HasSubstr("pointwise has no axes"));
  EXPECT_THAT(refused([](KernelSet& k) { k.contracts[1].operands[1].access = {}; }),
              HasSubstr("operand 1 has 0 axes, expected 1"));
  EXPECT_THAT(refused([](KernelSet& k) { k.contracts[1].expr.nodes.clear(); }),
              HasSubstr("its expression has no nodes"));
}

}  // namespace
}  // namespace low
