// What tests of the whole pipeline share: results within a tolerance, finalists through every stage, packages on the
// host.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "compiler/interpret/interpret.h"
#include "compiler/package/package_writer.h"
#include "compiler/workload/workload.h"
#include "reference/reference.h"
#include "runtime/backends.h"
#include "runtime/session.h"

namespace low::test {

// Every output within `tolerance` of the expected output's largest magnitude.
inline void expect_close(const Result<std::vector<Tensor>>& actual, const std::vector<Tensor>& expected,
                         double tolerance, const std::string& what) {
  ASSERT_TRUE(actual.has_value()) << what << ": " << actual.error().message;
  ASSERT_EQ(actual->size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    double largest = 1;
    for (int64_t e = 0; e < expected[i].elements(); ++e)
      if (std::isfinite(expected[i].value(e))) largest = std::max(largest, std::abs(expected[i].value(e)));
    const auto comparison =
        reference::compare((*actual)[i], expected[i], {.absolute = tolerance * largest, .relative = 0});
    ASSERT_TRUE(comparison.has_value()) << what << ": " << comparison.error().message;
    ASSERT_TRUE(comparison->passed()) << what << ", output " << i << ": " << reference::to_string(*comparison);
  }
}

// A canonical model, as imported.
inline Result<Graph> workload_graph(const std::string& name, const WorkloadOptions& options = {}) {
  LOW_TRY(const std::string model, make_workload(name, options));
  return import_onnx(std::as_bytes(std::span(model)), name, {});
}

inline Machine machine_named(std::string_view name) {
  auto machine = find_machine(name);
  LOW_CHECK(machine.has_value());
  return *machine;
}

// The package of a compilation, its memory poisoned before the run.
inline Result<std::vector<Tensor>> run_package(const Compilation& compilation, Device& device,
                                               std::span<const Tensor> inputs) {
  LOW_TRY(std::shared_ptr<const Package> package, Package::from_bytes(write_package({&compilation, 1}, {}), "test"));
  LOW_TRY(std::shared_ptr<const LoadedProgram> program, LoadedProgram::load(device, std::move(package)));
  LOW_TRY(Session session, Session::create(std::move(program)));
  LOW_TRY_VOID(session.poison(std::byte{0xff}));
  return session.run(inputs);
}

// Compiled for the target that suits the device best.
inline Result<std::vector<Tensor>> run_package(const Graph& graph, Device& device, std::span<const Tensor> inputs,
                                               ThreadPool& pool, CompileOptions options = {}) {
  options.targets = {device.info().targets.front()};
  LOW_TRY(const Compilation compilation, compile_graph(graph, options, pool));
  return run_package(compilation, device, inputs);
}

// Compiled for this host.
inline Result<std::vector<Tensor>> run_package(const Graph& graph, std::span<const Tensor> inputs, ThreadPool& pool,
                                               const SearchOptions& search = {}) {
  LOW_TRY(const std::unique_ptr<Device> device, open_device("host", {}));
  CompileOptions options;
  options.search = search;
  return run_package(graph, *device, inputs, pool, std::move(options));
}

// A plan expanded, simplified, placed, scheduled and interpreted.
inline void plan_agrees(const Graph& graph, const Plan& plan, const Machine& machine, std::span<const Tensor> inputs,
                        const std::vector<Tensor>& expected, double tolerance) {
  const auto valid = verify(plan, graph, machine);
  ASSERT_TRUE(valid.has_value()) << valid.error().message;
  const auto expanded = expand(graph, plan, machine);
  ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
  const auto simplified = simplify_tile_graph(*expanded);
  ASSERT_TRUE(simplified.has_value()) << simplified.error().message;
  const auto placement = place(*simplified, machine);
  ASSERT_TRUE(placement.has_value()) << placement.error().message;
  const auto schedule = schedule_exchange(*simplified, *placement, machine);
  ASSERT_TRUE(schedule.has_value()) << schedule.error().message;
  ASSERT_NO_FATAL_FAILURE(
      expect_close(interpret(*simplified, *placement, *schedule, inputs), expected, tolerance, "scheduled"));
}

// Every finalist of the search.
inline void finalists_agree(const Graph& graph, const Machine& machine, const SearchOptions& options,
                            std::span<const Tensor> inputs, const std::vector<Tensor>& expected, double tolerance,
                            ThreadPool& pool) {
  const auto found = search(graph, machine, options, pool);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  for (const Finalist& finalist : found->finalists)
    ASSERT_NO_FATAL_FAILURE(plan_agrees(graph, finalist.plan, machine, inputs, expected, tolerance));
}

}  // namespace low::test
