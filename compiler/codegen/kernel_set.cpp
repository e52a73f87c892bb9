#include <algorithm>

#include <fmt/format.h>

#include "compiler/base/index_of.h"
#include "compiler/codegen/codegen.h"
#include "compiler/codegen/targets.h"

namespace low {
namespace {

uint32_t copy_kernel(KernelSet& kernels, const CopyDescriptor& descriptor) {
  const CopyKernel copy{descriptor.source, descriptor.destination, descriptor.overflow};
  return static_cast<uint32_t>(kernels.contracts.size()) + index_of(kernels.copies, copy);
}

uint32_t kernel_of(KernelSet& kernels, const TileGraph& graph, const Schedule& schedule,
                   const ScheduledCommand& command) {
  switch (command.kind) {
    case ScheduledCommand::Kind::run:
      return graph.runs()[command.index].contract.index;
    case ScheduledCommand::Kind::copy:
      return copy_kernel(kernels, graph.descriptor(graph.copies()[command.index]));
    case ScheduledCommand::Kind::pull:
      return copy_kernel(kernels, schedule.descriptors[schedule.pulls[command.index].descriptor.index]);
  }
  LOW_CHECK(false);
}

}  // namespace

KernelSet collect_kernels(const TileGraph& graph, const Schedule& schedule) {
  KernelSet kernels;
  kernels.contracts.assign(graph.contracts().begin(), graph.contracts().end());
  for (const KernelRun& run : graph.runs()) index_of(kernels.runs, {run.contract.index, graph.extents(run)});
  for (const ScheduledSuperstep& superstep : schedule.supersteps) {
    std::vector<uint32_t> used;
    if (!superstep.tile_begin.empty()) {
      for (uint32_t i = superstep.tile_begin.front(); i < superstep.tile_begin.back(); ++i) {
        const uint32_t kernel = kernel_of(kernels, graph, schedule, schedule.commands[i]);
        // Few kernels share a superstep: a sorted vector.
        const auto place = std::lower_bound(used.begin(), used.end(), kernel);
        if (place == used.end() || *place != kernel) used.insert(place, kernel);
      }
    }
    kernels.superstep_entry.push_back(index_of(kernels.entries, used));
  }
  return kernels;
}

bool gains_by_dots(const KernelSet& kernels, size_t entry) {
  return std::ranges::any_of(kernels.entries[entry], [&](uint32_t kernel) {
    return kernel < kernels.contracts.size() && gains_by_dots(kernels.contracts[kernel]);
  });
}

std::string kernel_name(const KernelSet& kernels, uint32_t kernel) {
  if (kernel >= kernels.contracts.size()) return fmt::format("copy_{}", kernel);
  return fmt::format("{}_{}", family_name(kernels.contracts[kernel]), kernel);
}

}  // namespace low
