#include <algorithm>
#include <cmath>

#include "reference/expr.h"
#include "reference/operations.h"
#include "reference/walk.h"

namespace low::reference {
namespace {

// Strides under which a scale or zero point is seen from the tensor that it belongs to: along `axis`, or one for all.
Strides parameter_strides(const Tensor& parameter, const Shape& shape, std::optional<int> axis) {
  Strides strides = shape;
  for (int i = 0; i < shape.rank(); ++i) strides[i] = axis == i && parameter.elements() != 1 ? 1 : 0;
  return strides;
}

// Calls element(i, scale, zero_point) for each element; the zero point is 0 where there is none.
template <typename Element>
void for_quantized(Operands operands, const Shape& shape, std::optional<int> axis, ThreadPool* pool,
                   const Element& element) {
  const Tensor& scale = *operands[1];
  const Tensor* zero_point = operands.size() > 2 ? operands[2].get() : nullptr;
  std::vector<Strides> strides = {parameter_strides(scale, shape, axis)};
  if (zero_point != nullptr) strides.push_back(parameter_strides(*zero_point, shape, axis));
  for_parts(pool, shape.elements(), [&](int64_t begin, int64_t end) {
    Walk walk(shape, strides, begin);
    for (int64_t i = begin; i < end; ++i, walk.next()) {
      element(i, load(scale, walk.offset(0)).real,
              zero_point == nullptr ? Scalar{} : load(*zero_point, walk.offset(1)));
    }
  });
}

double to_real(DType type, const Scalar& scalar) { return convert(scalar, type, DType::f64, Overflow::propagate).real; }

}  // namespace

Tensor compute(const Pointwise& attributes, Operands operands, const Type& result, ThreadPool* pool) {
  Tensor output(result.dtype, result.shape);
  std::vector<Strides> strides;
  for (const auto& operand : operands) strides.push_back(broadcast_strides(operand->shape(), result.shape));
  for_parts(pool, output.elements(), [&](int64_t begin, int64_t end) {
    Evaluator evaluate(attributes.expr);
    Walk walk(result.shape, strides, begin);
    std::vector<Scalar> inputs(operands.size());
    for (int64_t i = begin; i < end; ++i, walk.next()) {
      for (size_t j = 0; j < inputs.size(); ++j) inputs[j] = load(*operands[j], walk.offset(j));
      store(output, i, evaluate(inputs));
    }
  });
  return output;
}

// QuantizeLinear divides in the scale's type, so the quotient is rounded to it: a value that is a tie there is rounded
// as a tie.
Tensor compute(const Quantize& attributes, Operands operands, const Type& result, ThreadPool* pool) {
  const Tensor& x = *operands[0];
  Tensor output(result.dtype, result.shape);
  const DType division = operands[1]->dtype();
  for_quantized(operands, result.shape, attributes.axis, pool, [&](int64_t i, double scale, const Scalar& zero_point) {
    const double quotient = round_to(division, to_real(x.dtype(), load(x, i)) / scale);
    if (is_float(result.dtype)) {
      // Without an addition of 0, that would make +0 of -0.
      const double shifted = zero_point.real == 0 ? quotient : quotient + zero_point.real;
      output.set_bits(i, encode(result.dtype, shifted, attributes.overflow));
    } else {
      const double shifted = std::nearbyint(quotient) + to_real(result.dtype, zero_point);
      output.set_bits(i, truncate_and_saturate(result.dtype, shifted));
    }
  });
  return output;
}

Tensor compute(const Dequantize& attributes, Operands operands, const Type& result, ThreadPool* pool) {
  const Tensor& x = *operands[0];
  Tensor output(result.dtype, result.shape);
  for_quantized(operands, result.shape, attributes.axis, pool, [&](int64_t i, double scale, const Scalar& zero_point) {
    const Scalar element = load(x, i);
    double difference = element.real - zero_point.real;
    if (!is_float(x.dtype())) {
      // Modulo 2^32, as a subtraction in i32 wraps.
      const Scalar wide{.integer = wrap(DType::i32, element.integer - zero_point.integer)};
      difference = to_real(DType::i32, wide);
    }
    store(output, i, Scalar{.real = difference * scale});
  });
  return output;
}

Tensor compute(const Cast& attributes, Operands operands, const Type& result, ThreadPool* pool) {
  const Tensor& operand = *operands[0];
  Tensor output(result.dtype, result.shape);
  for_parts(pool, output.elements(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      store(output, i, convert(load(operand, i), operand.dtype(), result.dtype, attributes.overflow));
    }
  });
  return output;
}

}  // namespace low::reference
