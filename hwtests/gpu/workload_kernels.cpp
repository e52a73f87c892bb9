#include "hwtests/gpu/workload_kernels.h"

#include <map>

#include "compiler/codegen/merge_kernels.h"
#include "compiler/compile.h"
#include "compiler/workload/workload.h"

namespace low::hwtests {

Result<KernelSet> workload_kernels(const Machine& machine, ThreadPool& pool) {
  std::vector<KernelSet> sets;
  for (const std::string& name : workload_names()) {
    LOW_TRY(const std::string model, make_workload(name, {}));
    LOW_TRY(const Graph imported, import_onnx(std::as_bytes(std::span(model)), name, {}));
    LOW_TRY(const Graph graph, graph_for(machine, imported, {}));
    CompileOptions options;
    LOW_TRY(const PlannedProgram planned, plan_program(graph, machine, options, pool));
    sets.push_back(collect_kernels(planned.graph, planned.schedule));
    if (name.find("materialized") == std::string::npos) continue;
    options.search.attention = AttentionAlgorithm::materialized;
    LOW_TRY(const PlannedProgram written_out, plan_program(graph, machine, options, pool));
    sets.push_back(collect_kernels(written_out.graph, written_out.schedule));
  }
  std::vector<const KernelSet*> pointers;
  for (const KernelSet& set : sets) pointers.push_back(&set);
  return merge_kernels(pointers).kernels;
}

}  // namespace low::hwtests
