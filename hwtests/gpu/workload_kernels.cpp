#include "hwtests/gpu/workload_kernels.h"

#include <string>

#include "compiler/codegen/merge_kernels.h"
#include "compiler/compile.h"
#include "compiler/workload/workload.h"

namespace low::hwtests {
namespace {

// For each machine the sets of one model.
Result<std::vector<std::vector<KernelSet>>> kernels_of(const std::string& name, std::span<const Machine> machines) {
  LOW_TRY(const std::string model, make_workload(name, {}));
  LOW_TRY(const Graph imported, import_onnx(std::as_bytes(std::span(model)), name, {}));
  ThreadPool alone(1);
  std::vector<std::vector<KernelSet>> sets(machines.size());
  for (size_t i = 0; i < machines.size(); ++i) {
    LOW_TRY(const Graph graph, graph_for(machines[i], imported, {}));
    std::vector<CompileOptions> ways(1);
    if (name.find("materialized") != std::string::npos)
      ways.emplace_back().search.attention = AttentionAlgorithm::materialized;
    for (const CompileOptions& way : ways) {
      LOW_TRY(const PlannedProgram planned, plan_program(graph, machines[i], way, alone));
      sets[i].push_back(collect_kernels(planned.graph, planned.schedule));
    }
  }
  return sets;
}

}  // namespace

Result<std::vector<KernelSet>> workload_kernels(std::span<const Machine> machines, ThreadPool& pool) {
  const std::vector<std::string> names = workload_names();
  std::vector<Result<std::vector<std::vector<KernelSet>>>> models(names.size());
  pool.parallel_for(static_cast<int64_t>(names.size()), [&](int64_t i) {
    models[static_cast<size_t>(i)] = kernels_of(names[static_cast<size_t>(i)], machines);
  });
  for (const auto& model : models) LOW_TRY_VOID(model);
  std::vector<KernelSet> result;
  for (size_t i = 0; i < machines.size(); ++i) {
    std::vector<const KernelSet*> sets;
    for (const auto& model : models)
      for (const KernelSet& set : (*model)[i]) sets.push_back(&set);
    result.push_back(merge_kernels(sets).kernels);
  }
  return result;
}

}  // namespace low::hwtests
