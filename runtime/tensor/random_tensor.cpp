#include "runtime/tensor/random_tensor.h"

namespace low {

double RandomBits::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed) {
  Tensor tensor(dtype, shape);
  RandomBits random(seed);
  const int64_t count = tensor.elements();
  for (int64_t i = 0; i < count; ++i) {
    double value = 0;
    if (is_float(dtype)) {
      value = random.normal();
    } else if (dtype == DType::boolean) {
      value = static_cast<double>(random.next() >> 63);
    } else {
      value = static_cast<double>(random.next() % 17) - (is_signed_integer(dtype) ? 8 : 0);
    }
    tensor.set_value(i, value);
  }
  return tensor;
}

}  // namespace low
