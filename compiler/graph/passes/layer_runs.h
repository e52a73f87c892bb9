// Where a graph repeats itself: candidates for roll_layers.
#pragma once

#include <vector>

#include "compiler/graph/graph.h"

namespace low {

// The operations of a graph in the order in which layers are looked for: the graph's own, but for an operation of
// constants alone (a weight's dequantize) with one reader, which comes right before that reader wherever the graph has
// it.
struct OpSequence {
  std::vector<OpId> all;
  std::vector<OpId> ops;         // `all` without inputs, constants and outputs
  std::vector<size_t> position;  // of each operation in `ops`; `none` for the others
  static constexpr size_t none = SIZE_MAX;
};
OpSequence op_sequence(const Graph& graph);

// `count` layers of `period` operations each, from position `begin` of the sequence.
struct LayerRun {
  size_t begin = 0;
  size_t period = 0;
  size_t count = 0;
  size_t saved() const { return (count - 1) * period; }
};

// Runs that are worth a closer look, those that save most operations first. In each, operation i of all layers has the
// same attributes, operand types and result types, and its operands look alike: the same value, constants of one type,
// or values made as many operations earlier; in the first layer, any value instead of one of the layer before.
// Near-linear in the number of operations; at most 256 runs.
std::vector<LayerRun> find_layer_runs(const Graph& graph, const OpSequence& sequence);

}  // namespace low
