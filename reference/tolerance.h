// How far a right result may be from the reference: from the dtypes and sums that a graph computes with, and from the
// size of what the reference computed.
//
// Both sides round where the graph says; between, they add in another order and evaluate functions otherwise. The
// difference is followed through the graph as e, its RMS over that of the value. With the unit roundoff u of the format
// computed in:
//  - an operation takes the largest e of its operands and adds its own error squared, as independent errors add: the
//    longest chain counts. A repeat's body is followed as often as it runs.
//  - a sum of K terms (contraction, reduction, normalization) adds u sqrt(K): rounding errors walk at random, where the
//    worst case is u K. Arithmetic adds u, exp, tanh and their like 8 u. (Higham, Accuracy and Stability of Numerical
//    Algorithms, 2nd ed., 2.8 and 4.2; Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM
//    J. Sci. Comput. 41(5), 2019.)
//  - rounding to f16, bf16, FP8 or an integer, with steps of h = 2u: values that differ by d are rounded apart, by a
//    step, with probability d / h. So e^2 grows by h e; by h^2 / 4 at most, where the two are rounded independently. Of
//    n elements, three more than that may be: (sqrt(min(h e, h^2 / 4)) + h sqrt(3 / n))^2.
//  - a softmax makes an error of a score, e times its size, one of the weight: 2 e, for scores whose RMS is 2, where it
//    is neither flat nor one-hot.
// The allowances are 4 e for the RMS, and 16 e + h for an element, h being the widest step on the way. This takes
// operations for well conditioned: that e does not grow where a difference cancels, or in other exponentials of
// large numbers, is an assumption.
//
// Models that quantize what they compute to FP8 have fixed ones: 0.2 + 0.05 |b| for an element, and 0.3% for the RMS. A
// wrong weight can hide in 0.3% of a small model, where hardly an element is rounded apart: n e / h are expected to be
// at each rounding, e being what came since the last one, which made all others equal. If these are fewer than 1/50 in
// all, the RMS has 1/625 of a step, 0.02% for E4M3: 2,100 right runs of tiny workloads had at most 0.014%, all but one
// at most 0.001%, by numbers near zero, whose steps are small.
#pragma once

#include <string>
#include <vector>

#include "reference/reference.h"

namespace low::reference {

struct ErrorBound {
  double error = 0;           // e; 0: nothing is rounded otherwise on the way, so the result is exact
  double steady_error = 0;    // e if nothing is rounded apart
  double flips = 0;           // elements expected to be rounded apart
  double step = 0;            // the widest h
  int64_t terms = 0;          // of the longest sum
  int64_t depth = 0;          // sums and normalizations one after another
  DType format = DType::f64;  // the coarsest on the way
  bool from_input = false;
  bool fp8 = false;  // something that depends on an input was rounded to FP8
  bool operator==(const ErrorBound&) const = default;
};

// For each output of the graph as the frontend made it.
std::vector<ErrorBound> error_bounds(const Graph& graph);
// For an output of which the reference computed `expected`.
Tolerance tolerance_of(const ErrorBound& bound, const Tensor& expected);
// Why: "FP8 operands", "f32, sums of up to 1152 terms, depth 4".
std::string reason(const ErrorBound& bound);

}  // namespace low::reference
