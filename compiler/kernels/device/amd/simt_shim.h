// What a program that runs kernels of a SIMT target gives them, lane by lane on the CPU. Freestanding plain data, as
// abi.h: the kernels and whoever runs them compile it.
#pragma once

#ifndef LOW_FREESTANDING
#include <cstdint>
#endif

#include "compiler/kernels/data/matrix.h"

namespace low::simt {

enum class Access : uint32_t { read, write };

// Computes what all lanes of a wave get from what all of them gave; in[i] and out[i] are lane i's.
using WaveFunction = void (*)(const void* const* in, void* const* out);

// A lane's items of the operands of a matrix instruction.
struct MatrixItems {
  const void *a, *b, *c;
};

// `site` numbers the place in the source: lanes that meet have to meet at the same one.
struct Shim {
  uint32_t (*workgroup)();
  uint32_t (*lane)();
  uint64_t (*ticks)();
  // Where to read or write: `p` itself, or if that is an error, which is kept, somewhere else.
  void* (*global)(const void* p, uint32_t bytes, Access access, uint32_t site);
  void (*lds_size)(uint32_t bytes);
  void* (*lds)(uint32_t offset, uint32_t bytes, Access access, uint32_t site);
  void (*barrier)(uint32_t site);
  // Returns when all lanes of the wave have called it, with `out` filled.
  void (*meet)(const void* in, void* out, WaveFunction function, uint32_t site);
  // The same of a matrix instruction, whose sums go to `out`.
  void (*multiply)(const MatrixItems& in, void* out, const device::MatrixInstruction& row, uint32_t site);
};

}  // namespace low::simt
