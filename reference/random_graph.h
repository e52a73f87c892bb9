// Random graphs for tests that compare two ways of computing the same thing.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"

namespace low::reference {

struct RandomGraphOptions {
  uint64_t seed = 1;
  int operations = 8;
  bool narrow_floats = false;  // casts and quantizations to f16, bf16 and FP8
  bool repeats = true;
  bool attention = false;
};

struct RandomGraph {
  Graph graph;
  std::vector<Tensor> inputs;
  double tolerance = 0;  // allowed error, relative to an output's largest magnitude
};

// One to three outputs, odd extents, broadcasting, now and then an extent of 0, every movement, and Repeats of 0, 1, 3
// or 27 iterations with carried, invariant, iterated and collected values. Values stay within about [-4, 4], so that
// errors do too.
RandomGraph random_graph(const RandomGraphOptions& options);

}  // namespace low::reference
