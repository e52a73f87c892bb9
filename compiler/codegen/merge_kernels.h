// Kernels of several programs as one set, so that they are compiled together: one source, one object for each target.
//
// A kernel that several programs have is there once. A program says by number which kernels and which entry points it
// runs; after the merge its numbers are others:
//
//   program A: kernels [add, copy], entries [{0}, {1}]
//   program B: kernels [mul, add], entries [{0, 1}]
//   merged: kernels [add, mul, copy], entries [{0}, {2}, {0, 1}]
//   A: kernels 0 -> 0, 1 -> 2, entries 0 -> 0, 1 -> 1; B: kernels 0 -> 1, 1 -> 0, entries 0 -> 2
//
// Merging the kernels of one program changes nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/codegen/codegen.h"

namespace low {

// What a program's kernels and entries became.
struct KernelNumbers {
  std::vector<uint32_t> kernels;
  std::vector<uint32_t> entries;
};

struct MergedKernels {
  KernelSet kernels;                   // without superstep_entry, which is of one program
  std::vector<KernelNumbers> numbers;  // for each of the merged sets
};
MergedKernels merge_kernels(std::span<const KernelSet* const> sets);

// `entries`: how many the merged set has.
void renumber_kernels(Program& program, const KernelNumbers& numbers, size_t entries);

}  // namespace low
