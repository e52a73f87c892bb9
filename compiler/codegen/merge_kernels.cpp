#include "compiler/codegen/merge_kernels.h"

#include <algorithm>

#include "compiler/base/index_of.h"
#include "runtime/format/commands.h"

namespace low {

MergedKernels merge_kernels(std::span<const KernelSet* const> sets) {
  MergedKernels merged;
  KernelSet& all = merged.kernels;
  merged.numbers.resize(sets.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const KernelContract& contract : sets[i]->contracts)
      merged.numbers[i].kernels.push_back(index_of(all.contracts, contract));
    for (const auto& [contract, extents] : sets[i]->runs)
      index_of(all.runs, {merged.numbers[i].kernels[contract], extents});
  }
  // Copies come behind all contracts.
  const auto contracts = static_cast<uint32_t>(all.contracts.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    KernelNumbers& numbers = merged.numbers[i];
    for (const CopyKernel& copy : sets[i]->copies) numbers.kernels.push_back(contracts + index_of(all.copies, copy));
    for (const std::vector<uint32_t>& entry : sets[i]->entries) {
      std::vector<uint32_t> used;
      for (const uint32_t kernel : entry) used.push_back(numbers.kernels[kernel]);
      std::ranges::sort(used);
      numbers.entries.push_back(index_of(all.entries, used));
    }
  }
  return merged;
}

void renumber_kernels(Program& program, const KernelNumbers& numbers, size_t entries) {
  renumber_commands(program.commands, numbers.kernels);
  for (ProgramSuperstep& superstep : program.supersteps) superstep.entry = numbers.entries[superstep.entry];
  program.entries = static_cast<uint32_t>(entries);
}

}  // namespace low
