#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/epilogue.h"

namespace low::reference {
namespace {

void softmax(std::vector<double>& group, bool logarithm) {
  // The maximum; any NaN makes all of the group NaN in what follows, whichever maximum is found beside it.
  const double shift = *std::max_element(group.begin(), group.end());
  double sum = 0;
  for (const double x : group) sum += std::exp(x - shift);
  for (double& x : group) x = logarithm ? x - shift - std::log(sum) : std::exp(x - shift) / sum;
}

void normalize(std::vector<double>& group, bool centred, double epsilon) {
  const auto count = static_cast<double>(group.size());
  double mean = 0;
  if (centred) {
    for (const double x : group) mean += x / count;
  }
  double variance = 0;
  for (const double x : group) variance += (x - mean) * (x - mean) / count;
  for (double& x : group) x = (x - mean) / std::sqrt(variance + epsilon);
}

}  // namespace

Tensor compute(const Rowwise& attributes, Operands operands, const Type& result, ThreadPool*) {
  const Tensor& x = *operands[0];
  const Shape& shape = x.shape();
  const int64_t elements = x.elements();
  // The number of each element's group, and of the elements before it in the group: by position.
  std::vector<std::vector<int64_t>> members;
  Shape groups = shape;
  for (const int64_t axis : attributes.axes) groups[static_cast<int>(axis)] = 1;
  if (elements > 0) members.resize(static_cast<size_t>(groups.elements()));
  Strides seen = groups.row_major_strides();
  for (const int64_t axis : attributes.axes) seen[static_cast<int>(axis)] = 0;
  Walk walk(shape, {seen}, 0);
  for (int64_t i = 0; i < elements; ++i, walk.next()) members[static_cast<size_t>(walk.offset(0))].push_back(i);
  std::vector<double> normalized(static_cast<size_t>(elements));
  for (const std::vector<int64_t>& member : members) {
    std::vector<double> group;
    for (const int64_t i : member) group.push_back(load(x, i).real);
    switch (attributes.kind) {
      case Rowwise::Kind::softmax:
      case Rowwise::Kind::log_softmax:
        softmax(group, attributes.kind == Rowwise::Kind::log_softmax);
        break;
      case Rowwise::Kind::masked_softmax:
        if (std::ranges::count(group, -std::numeric_limits<double>::infinity()) == std::ssize(group)) {
          std::ranges::fill(group, 0);
        } else {
          softmax(group, false);
        }
        break;
      case Rowwise::Kind::layer_norm:
      case Rowwise::Kind::rms_norm:
        normalize(group, attributes.kind == Rowwise::Kind::layer_norm, attributes.epsilon);
        break;
    }
    for (size_t i = 0; i < member.size(); ++i) normalized[static_cast<size_t>(member[i])] = group[i];
  }
  Tensor output(result.dtype, result.shape);
  const DType accumulator = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Epilogue epilogue(attributes.epilogue, accumulator, operands, 1, result, 0);
  for (int64_t i = 0; i < elements; ++i) {
    store(output, i, epilogue.next({.real = normalized[static_cast<size_t>(i)]}));
  }
  return output;
}

}  // namespace low::reference
