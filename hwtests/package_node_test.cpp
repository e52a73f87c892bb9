// Runs ONNX's node tests through the whole compiler: each model becomes a package for the host, which runs.
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/compile.h"
#include "hwtests/node_tests.h"
#include "runtime/session.h"

namespace low::node_tests {
namespace {

TEST(OnnxNodes, CompiledPackage) {
  const std::string folder = LOW_SOURCE_DIR "/build/onnx/node";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << folder << " is missing: './dev test' makes ONNX's test data";
  }
  const auto opened = open_device("host", {.threads = 2});
  ASSERT_TRUE(opened) << opened.error().message;
  Device& device = **opened;
  const auto compile_and_run = [&device](const Graph& graph,
                                         std::span<const Tensor> inputs) -> Result<std::vector<Tensor>> {
    ThreadPool alone(1);
    CompileOptions options;
    options.targets = {device.info().targets.front()};
    LOW_TRY(const Compilation compilation, compile_graph(graph, options, alone));
    LOW_TRY(std::string bytes, write_package(compilation, {}));
    LOW_TRY(std::shared_ptr<const Package> package, Package::from_bytes(std::move(bytes), "node test"));
    LOW_TRY(std::shared_ptr<const LoadedProgram> program, LoadedProgram::load(device, std::move(package)));
    LOW_TRY(Session session, Session::create(std::move(program)));
    LOW_TRY_VOID(session.poison(std::byte{0xff}));
    return session.run(inputs);
  };
  ThreadPool pool(0);
  const auto differences =
      judge(folder, LOW_SOURCE_DIR "/hwtests/testdata/onnx_node_tests.txt",
            LOW_BINARY_DIR "/onnx_node_tests_package.txt", "compiled host package", compile_and_run, pool);
  ASSERT_TRUE(differences) << differences.error().message;
  for (const std::string& difference : *differences) ADD_FAILURE() << difference;
}

}  // namespace
}  // namespace low::node_tests
