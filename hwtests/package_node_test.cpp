// Runs ONNX's node tests through the whole compiler: each model becomes a package for the host, which runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "compiler/test_support.h"
#include "hwtests/node_tests.h"

namespace low::node_tests {
namespace {

// Kernels of all at once. Where they cannot be compiled, those of each half: an error ends with the program that it is
// about.
std::vector<Result<void>> compile_kernels_of(std::span<Compilation> compilations, const CompileOptions& options,
                                             ThreadPool& pool) {
  Result<void> compiled = compile_together(compilations, options, pool);
  if (compiled || compilations.size() == 1) return std::vector<Result<void>>(compilations.size(), compiled);
  const size_t half = compilations.size() / 2;
  std::vector<Result<void>> results = compile_kernels_of(compilations.first(half), options, pool);
  std::ranges::move(compile_kernels_of(compilations.subspan(half), options, pool), std::back_inserter(results));
  return results;
}

std::vector<RunResult> compile_and_run(Device& device, std::span<const GraphRun> runs) {
  ThreadPool alone(1);
  CompileOptions options;
  options.targets = {device.info().targets.front()};
  std::vector<RunResult> results;
  std::vector<Compilation> compilations;
  std::vector<size_t> run_of;
  for (const GraphRun& run : runs) {
    Result<Compilation> lowered = lower_graph(run.graph, options, alone);
    if (!lowered) {
      results.emplace_back(std::unexpected(lowered.error()));
      continue;
    }
    run_of.push_back(results.size());
    compilations.push_back(std::move(*lowered));
    results.emplace_back();
  }
  const std::vector<Result<void>> compiled = compile_kernels_of(compilations, options, alone);
  for (size_t i = 0; i < compilations.size(); ++i) {
    const size_t run = run_of[i];
    results[run] = compiled[i] ? test::run_package(compilations[i], device, runs[run].inputs)
                               : RunResult(std::unexpected(compiled[i].error()));
  }
  return results;
}

TEST(OnnxNodes, CompiledPackage) {
  const std::string folder = LOW_SOURCE_DIR "/build/onnx/node";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << folder << " is missing: './dev test' makes ONNX's test data";
  }
  const auto opened = open_device("host", {.threads = 2});
  ASSERT_TRUE(opened) << opened.error().message;
  const Backend backend = [&device = **opened](std::span<const GraphRun> runs) {
    return compile_and_run(device, runs);
  };
  ThreadPool pool(0);
  const auto differences = judge(folder, LOW_SOURCE_DIR "/hwtests/testdata/onnx_node_tests.txt",
                                 LOW_BINARY_DIR "/onnx_node_tests_package.txt", "compiled host package", backend, pool);
  ASSERT_TRUE(differences) << differences.error().message;
  for (const std::string& difference : *differences) ADD_FAILURE() << difference;
}

}  // namespace
}  // namespace low::node_tests
