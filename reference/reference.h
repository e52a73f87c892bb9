// The reference: slow, obvious operators in double, quantizing exactly where the model does. A judge; never part of a
// compiled program, and shares no arithmetic with what it judges.
//
// Float values are held in double; the result of each operation is rounded to its dtype (so an f32 model is computed in
// double inside one operation and rounded between operations). Inside an expression, values of f32 stay in double up to
// a `convert`; those of narrower floats are rounded after each node. A matmul accumulates in double. Integers are exact
// in 64 bits.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "runtime/base/thread_pool.h"

namespace low::reference {

// Runs the graph, which is verified (as every Graph of a builder is). `inputs` in the order of Graph::inputs(), with
// just their types (ErrorKind::usage otherwise; ErrorKind::unsupported when the memory does not suffice); the results
// are in the order of Graph::outputs(). They do not depend on `pool`, which may be null.
Result<std::vector<Tensor>> run(const Graph& graph, std::span<const Tensor> inputs, ThreadPool* pool = nullptr);

// |a - b| <= absolute + relative * |b| for each element; NaN equals only NaN, an infinity only itself. b is the
// reference. And the RMS of a - b is at most `rms` times that of b: a few wrong weights may leave each element within
// its tolerance.
struct Tolerance {
  double absolute = 0.2;
  double relative = 0.05;
  double rms = std::numeric_limits<double>::infinity();
};
struct Comparison {
  Tolerance tolerance;
  int64_t elements = 0;
  int64_t mismatches = 0;
  // Row-major index of the element for which |a - b| exceeds its tolerance most, or falls short of it least. An element
  // where one side is not finite is beyond all others when it does not match, and is left out when it does. -1 if no
  // element is left.
  int64_t worst_index = -1;
  double worst_actual = 0, worst_expected = 0;
  // Of the mismatches, those where a side is NaN or infinite, and the first of them.
  int64_t nonfinite_mismatches = 0;
  int64_t nonfinite_index = -1;
  double nonfinite_actual = 0, nonfinite_expected = 0;
  double max_absolute_error = 0;  // over elements where both are finite, as all that follow
  double max_relative_error = 0;  // |a - b| / |b| where b != 0
  double max_share = 0;           // |a - b| over what is allowed there
  double rms_error = 0;
  double rms_reference = 0;  // below ten times the absolute tolerance, single elements prove little
  // rms_error over rms_reference; 0 where there is no error.
  double rms_ratio() const;
  bool rms_passed() const { return rms_ratio() <= tolerance.rms; }
  bool passed() const { return mismatches == 0 && rms_passed(); }
};
// Types must be equal (ErrorKind::mismatch otherwise). Integers and booleans compare as doubles under the same rule.
Result<Comparison> compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance);
// For people, several lines without a newline at the end: counts, worst errors, RMS of error and reference, PASS or
// FAIL.
std::string to_string(const Comparison& comparison);
// "0.2 absolute, 0.05 relative, RMS 0.3%"
std::string to_string(const Tolerance& tolerance);

}  // namespace low::reference
