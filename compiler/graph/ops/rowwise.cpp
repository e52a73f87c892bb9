#include "compiler/graph/ops/rowwise.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace low {
namespace {

// NaN wins, as it would in the sum that follows.
template <typename T>
T maximum(std::span<const T> values) {
  T most = -std::numeric_limits<T>::infinity();
  for (const T value : values) most = std::isnan(value) || value > most ? value : most;
  return most;
}

// In place.
template <typename T>
void normalize(const Rowwise& rowwise, std::span<T> values) {
  const auto count = static_cast<T>(values.size());
  switch (rowwise.kind) {
    case Rowwise::Kind::softmax:
    case Rowwise::Kind::masked_softmax:
    case Rowwise::Kind::log_softmax: {
      const T most = maximum<T>(values);
      if (rowwise.kind == Rowwise::Kind::masked_softmax && most == -std::numeric_limits<T>::infinity()) {
        std::ranges::fill(values, T{0});
        break;
      }
      T sum = 0;
      for (const T value : values) sum += std::exp(value - most);
      const T log_sum = std::log(sum);
      for (T& value : values) {
        value = rowwise.kind == Rowwise::Kind::log_softmax ? value - most - log_sum : std::exp(value - most) / sum;
      }
      break;
    }
    case Rowwise::Kind::layer_norm:
    case Rowwise::Kind::rms_norm: {
      T mean = 0;
      if (rowwise.kind == Rowwise::Kind::layer_norm) {
        for (const T value : values) mean += value;
        mean /= count;
      }
      T squares = 0;
      for (const T value : values) squares += (value - mean) * (value - mean);
      const T deviation = std::sqrt(squares / count + static_cast<T>(rowwise.epsilon));
      for (T& value : values) value = (value - mean) / deviation;
      break;
    }
  }
}

template <typename T>
Tensor run(const Rowwise& rowwise, FoldOperands operands, const Type& result) {
  const Tensor& x = *operands[0];
  const Strides full = x.shape().row_major_strides();
  Shape groups = x.shape();
  Shape inner;
  Strides inner_strides;
  for (const int64_t axis : rowwise.axes) {
    groups[static_cast<int>(axis)] = 1;
    inner.append(x.shape()[static_cast<int>(axis)]);
    inner_strides.append(full[static_cast<int>(axis)]);
  }
  const int64_t size = inner.elements();
  std::vector<T> normalized(static_cast<size_t>(x.elements()));
  std::vector<T> group(static_cast<size_t>(size));
  const int64_t count = x.elements() == 0 ? 0 : groups.elements();
  folding::Walk outer(groups, {full}, {0});
  for (int64_t i = 0; i < count; ++i, outer.next()) {
    folding::Walk walk(inner, {inner_strides}, {outer.offset(0)});
    for (T& value : group) {
      value = static_cast<T>(decode(x.dtype(), x.bits(walk.offset(0))));
      walk.next();
    }
    normalize<T>(rowwise, group);
    walk = folding::Walk(inner, {inner_strides}, {outer.offset(0)});
    for (const T value : group) {
      normalized[static_cast<size_t>(walk.offset(0))] = value;
      walk.next();
    }
  }
  const DType type = sizeof(T) == 8 ? DType::f64 : DType::f32;
  folding::FoldEpilogue epilogue(rowwise.epilogue, type, operands, 1, result);
  Tensor out(result.dtype, result.shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    out.set_bits(
        i, epilogue.next(encode(type, static_cast<double>(normalized[static_cast<size_t>(i)]), Overflow::propagate)));
  }
  return out;
}

}  // namespace

std::string problem(const Rowwise& a, const OpTypes& op) {
  if (std::string error = op.counts(1, a.epilogue ? UINT16_MAX : 1, 1); !error.empty()) return error;
  const bool is_norm = a.kind == Rowwise::Kind::layer_norm || a.kind == Rowwise::Kind::rms_norm;
  if (static_cast<size_t>(a.kind) >= rowwise_kinds.size()) return "unknown kind";
  if (a.axes.rank() == 0 || !are_axes(a.axes, op.operand(0).shape.rank())) {
    return fmt::format("axes {} of {}", to_string(a.axes), to_string(op.operand(0)));
  }
  if (!is_float(op.operand(0).dtype)) return "of " + to_string(op.operand(0));
  // Also refuses NaN.
  if (!(a.epsilon >= 0) || std::isinf(a.epsilon) || (!is_norm && a.epsilon != 0)) {
    return fmt::format("epsilon {}", a.epsilon);
  }
  if (std::string error = op.expect({op.result().dtype, op.operand(0).shape}); !error.empty()) return error;
  if (!a.epilogue && !is_float(op.result().dtype)) return "to " + to_string(op.result());
  return op.epilogue(a.epilogue, op.operand(0).dtype == DType::f64 ? DType::f64 : DType::f32, 1);
}

Tensor fold(const Rowwise& rowwise, FoldOperands operands, const Type& result) {
  return operands[0]->dtype() == DType::f64 ? run<double>(rowwise, operands, result)
                                            : run<float>(rowwise, operands, result);
}

}  // namespace low
