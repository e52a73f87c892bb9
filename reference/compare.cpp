#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/reference.h"

namespace low::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// By how much the difference exceeds what is allowed; negative within it.
double excess(double actual, double expected, const Tolerance& tolerance) {
  if (std::isnan(expected)) return std::isnan(actual) ? -infinity : infinity;
  if (std::isinf(expected) || !std::isfinite(actual)) return actual == expected ? -infinity : infinity;
  return std::fabs(actual - expected) - (tolerance.absolute + tolerance.relative * std::fabs(expected));
}

}  // namespace

Result<Comparison> compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  const Type actual_type{actual.dtype(), actual.shape()};
  const Type expected_type{expected.dtype(), expected.shape()};
  if (actual_type != expected_type) {
    return fail(ErrorKind::mismatch,
                fmt::format("the result is {}{}, but the reference is {}{}", name(actual.dtype()),
                            to_string(actual.shape()), name(expected.dtype()), to_string(expected.shape())));
  }
  Comparison comparison{.tolerance = tolerance, .elements = actual.elements()};
  double worst = -infinity;
  long double squared_error = 0;  // the square of a double may be beyond all doubles
  long double squared_reference = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < comparison.elements; ++i) {
    const double a = actual.value(i);
    const double b = expected.value(i);
    const double over = excess(a, b, tolerance);
    if (!(over <= 0)) ++comparison.mismatches;
    if (over == infinity && (!std::isfinite(a) || !std::isfinite(b)) && comparison.nonfinite_mismatches++ == 0) {
      comparison.nonfinite_index = i;
      comparison.nonfinite_actual = a;
      comparison.nonfinite_expected = b;
    }
    if (over > worst) {
      worst = over;
      comparison.worst_index = i;
      comparison.worst_actual = a;
      comparison.worst_expected = b;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const double error = std::fabs(a - b);
    comparison.max_absolute_error = std::max(comparison.max_absolute_error, error);
    if (b != 0) comparison.max_relative_error = std::max(comparison.max_relative_error, error / std::fabs(b));
    if (error > 0) comparison.max_share = std::max(comparison.max_share, error / (error - over));
    squared_error += static_cast<long double>(error) * error;
    squared_reference += static_cast<long double>(b) * b;
    ++finite;
  }
  if (finite > 0) {
    comparison.rms_error = static_cast<double>(std::sqrt(squared_error / static_cast<long double>(finite)));
    comparison.rms_reference = static_cast<double>(std::sqrt(squared_reference / static_cast<long double>(finite)));
  }
  return comparison;
}

double Comparison::rms_ratio() const { return rms_error == 0 ? 0 : rms_error / rms_reference; }

std::string to_string(const Tolerance& tolerance) {
  return fmt::format("{:.3g} absolute, {:.3g} relative, RMS {:.3g}%", tolerance.absolute, tolerance.relative,
                     100 * tolerance.rms);
}

std::string to_string(const Comparison& comparison) {
  const Tolerance& tolerance = comparison.tolerance;
  std::string text = fmt::format("{}: {} elements, {} outside of {:.3g} absolute + {:.3g} relative",
                                 comparison.passed() ? "PASS" : "FAIL", comparison.elements, comparison.mismatches,
                                 tolerance.absolute, tolerance.relative);
  if (comparison.nonfinite_mismatches > 0) {
    text += fmt::format("\n{} of them NaN or infinite on one side only; first: [{}] is {:.9g}, the reference {:.9g}",
                        comparison.nonfinite_mismatches, comparison.nonfinite_index, comparison.nonfinite_actual,
                        comparison.nonfinite_expected);
  }
  text += fmt::format(
      "\n{}: {:.6g} absolute, {:.6g} relative, {:.3g}% of what is allowed; RMS of the error {:.6g}, of the reference "
      "{:.6g}",
      comparison.nonfinite_mismatches > 0 ? "worst error of the finite elements" : "worst error",
      comparison.max_absolute_error, comparison.max_relative_error, 100 * comparison.max_share, comparison.rms_error,
      comparison.rms_reference);
  if (std::isfinite(tolerance.rms)) {
    text += fmt::format("\nRMS of the error: {:.3g}% of the reference's, {} {:.3g}%", 100 * comparison.rms_ratio(),
                        comparison.rms_passed() ? "within" : "more than", 100 * tolerance.rms);
  }
  if (comparison.worst_index >= 0) {
    text += fmt::format("\nworst element: [{}] is {:.9g}, the reference {:.9g}", comparison.worst_index,
                        comparison.worst_actual, comparison.worst_expected);
  }
  if (comparison.rms_reference < 10 * tolerance.absolute) {
    text += "\nnote: the reference's RMS is below ten times the absolute tolerance, so single elements prove little";
  }
  return text;
}

}  // namespace low::reference
