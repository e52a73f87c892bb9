#include <cmath>
#include <limits>

#include "reference/epilogue.h"

namespace low::reference {
namespace {

// The smallest and the largest integer of a type, as Scalar holds them.
uint64_t lowest(DType type) {
  return is_signed_integer(type) ? wrap(type, uint64_t{1} << (8 * byte_size(type) - 1)) : 0;
}
uint64_t highest(DType type) { return wrap(type, ~lowest(type)); }

// -1, 0 or 1 as `a` is less than, equal to or greater than `b`.
int order(DType type, uint64_t a, uint64_t b) {
  if (a == b) return 0;
  const bool less = is_signed_integer(type) ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  return less ? -1 : 1;
}

// What one result element is reduced from so far.
class Accumulator {
 public:
  Accumulator(const Reduce& attributes) : attributes_(attributes) {
    const DType type = attributes.accumulate;
    switch (attributes.kind) {
      case Reduce::Kind::product:
        value_ = {.real = 1, .integer = 1};
        break;
      case Reduce::Kind::max:
        value_ = {.real = -std::numeric_limits<double>::infinity(), .integer = lowest(type)};
        break;
      case Reduce::Kind::min:
        value_ = {.real = std::numeric_limits<double>::infinity(), .integer = highest(type)};
        break;
      default:
        break;
    }
  }

  void add(const Scalar& x) {
    const DType type = attributes_.accumulate;
    switch (attributes_.kind) {
      case Reduce::Kind::sum:
        value_ = {.real = value_.real + x.real, .integer = wrap(type, value_.integer + x.integer)};
        break;
      case Reduce::Kind::product:
        value_ = {.real = value_.real * x.real, .integer = wrap(type, value_.integer * x.integer)};
        break;
      case Reduce::Kind::max:
      case Reduce::Kind::index_max:
        consider(x, 1);
        break;
      case Reduce::Kind::min:
      case Reduce::Kind::index_min:
        consider(x, -1);
        break;
    }
    ++count_;
  }

  Scalar result() const {
    const bool index = attributes_.kind == Reduce::Kind::index_max || attributes_.kind == Reduce::Kind::index_min;
    return index ? Scalar{.integer = place_} : value_;
  }

 private:
  // Takes x when it lies further in `direction`: 1 up, -1 down. NaN lies furthest.
  void consider(const Scalar& x, int direction) {
    const DType type = attributes_.accumulate;
    int further = 0;
    if (!is_float(type)) {
      further = direction * order(type, x.integer, value_.integer);
    } else if (std::isnan(x.real) || std::isnan(value_.real)) {
      further = (std::isnan(x.real) ? 1 : 0) - (std::isnan(value_.real) ? 1 : 0);
    } else {
      further = direction * ((x.real > value_.real ? 1 : 0) - (x.real < value_.real ? 1 : 0));
    }
    const bool is_index = attributes_.kind == Reduce::Kind::index_max || attributes_.kind == Reduce::Kind::index_min;
    if (further > 0 || (is_index && (count_ == 0 || (further == 0 && attributes_.last)))) {
      value_ = x;
      place_ = count_;
    }
  }

  const Reduce& attributes_;
  Scalar value_;
  uint64_t place_ = 0;
  uint64_t count_ = 0;
};

}  // namespace

Tensor compute(const Reduce& attributes, Operands operands, const Type& result, ThreadPool* pool) {
  const Tensor& x = *operands[0];
  const Strides own = x.shape().row_major_strides();
  Strides kept = own;
  Shape group;
  Strides group_strides;
  for (const int64_t axis : attributes.axes) {
    const int i = static_cast<int>(axis);
    kept[i] = 0;
    group.append(x.shape()[i]);
    group_strides.append(own[i]);
  }
  const bool is_index = attributes.kind == Reduce::Kind::index_max || attributes.kind == Reduce::Kind::index_min;
  const DType accumulator_type = is_index ? DType::i64 : attributes.accumulate;
  Tensor output(result.dtype, result.shape);
  for_parts(pool, output.elements(), [&](int64_t begin, int64_t end) {
    std::optional<Evaluator> map;
    if (attributes.map) map.emplace(*attributes.map);
    Epilogue epilogue(attributes.epilogue, accumulator_type, operands, 1, result, begin);
    Walk outer(result.shape, {kept}, begin);
    for (int64_t i = begin; i < end; ++i, outer.next()) {
      Accumulator accumulator(attributes);
      Walk inner(group, {group_strides}, 0);
      const int64_t size = group.elements();
      for (int64_t j = 0; j < size; ++j, inner.next()) {
        const Scalar element = load(x, outer.offset(0) + inner.offset(0));
        accumulator.add(map ? (*map)(std::span(&element, 1))
                            : convert(element, x.dtype(), attributes.accumulate, Overflow::propagate));
      }
      store(output, i, epilogue.next(accumulator.result()));
    }
  });
  return output;
}

Tensor compute(const Cumulative& attributes, Operands operands, const Type&, ThreadPool*) {
  const Tensor& operand = *operands[0];
  const Shape& shape = operand.shape();
  Tensor output(operand.dtype(), shape);
  const int64_t stride = shape.row_major_strides()[attributes.axis];
  const int64_t extent = shape[attributes.axis];
  const int64_t elements = output.elements();
  for (int64_t i = 0; i < elements; ++i) {
    // Element i is place `at` of a line that starts at `first`; the sum runs over what comes before it.
    const int64_t at = i / stride % extent;
    const int64_t first = i - at * stride;
    int64_t begin = attributes.reverse ? at : 0;
    int64_t end = attributes.reverse ? extent : at + 1;
    if (attributes.exclusive) (attributes.reverse ? begin : end) += attributes.reverse ? 1 : -1;
    Scalar sum;
    for (int64_t j = begin; j < end; ++j) {
      const Scalar x = load(operand, first + j * stride);
      sum = {.real = sum.real + x.real, .integer = wrap(operand.dtype(), sum.integer + x.integer)};
    }
    store(output, i, sum);
  }
  return output;
}

}  // namespace low::reference
