// The reference: slow, obvious operators in double, quantizing exactly where the model does. A judge; never part of a compiled
// program, and shares no arithmetic with what it judges.
//
// Float values are held in double; the result of each operation is rounded to its dtype (so an f32 model is computed in double
// inside one operation and rounded between operations). A matmul accumulates in double. Integers are exact in 64 bits.
#pragma once

#include <span>
#include <vector>

#include "compiler/graph/graph.h"

namespace low::reference {

// Runs the graph. `inputs` in the order of Graph::inputs(), with just their types (ErrorKind::usage otherwise); the results are
// in the order of Graph::outputs().
Result<std::vector<Tensor>> run(const Graph& graph, std::span<const Tensor> inputs);

// |a - b| <= absolute + relative * |b| for each element; NaN equals only NaN, an infinity only itself. b is the reference.
struct Tolerance {
  double absolute = 0.2;
  double relative = 0.05;
};
struct Comparison {
  int64_t elements = 0;
  int64_t mismatches = 0;
  int64_t worst_index = -1;        // row-major index of the element with the largest excess over its tolerance; -1 if none
  double worst_actual = 0, worst_expected = 0;
  double max_absolute_error = 0;   // over elements where both are finite
  double max_relative_error = 0;   // |a - b| / |b| where b != 0
  double rms_error = 0;
  double rms_reference = 0;        // below ten times the absolute tolerance, the comparison proves little
  bool passed() const { return mismatches == 0; }
};
// Types must be equal (ErrorKind::mismatch otherwise). Integers and booleans compare as doubles under the same rule.
Result<Comparison> compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance);

}  // namespace low::reference
