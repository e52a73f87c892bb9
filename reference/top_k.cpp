#include <cmath>
#include <vector>

#include "reference/operations.h"

namespace low::reference {
namespace {

// Whether the element at `a` has to stand before the one at `b`.
bool stands_before(const TopK& attributes, const Tensor& x, int64_t a, int64_t b) {
  if (is_float(x.dtype())) {
    const double one = x.value(a), other = x.value(b);
    if (std::isnan(one) != std::isnan(other)) return std::isnan(other) == attributes.smallest;
    if (!std::isnan(one) && one != other) return (one < other) == attributes.smallest;
    return a < b;
  }
  const int64_t one = x.integer(a), other = x.integer(b);
  if (one == other) return a < b;
  const bool less =
      is_signed_integer(x.dtype()) ? one < other : static_cast<uint64_t>(one) < static_cast<uint64_t>(other);
  return less == attributes.smallest;
}

}  // namespace

// Each element is counted: as many stand before it as its rank says.
Tensor compute(const TopK& attributes, Operands operands, const Type& type, ThreadPool*) {
  const Tensor& operand = *operands[0];
  Tensor result(DType::i64, type.shape);
  if (result.elements() == 0) return result;
  const Shape& from = operand.shape();
  const int64_t extent = from[attributes.axis];
  const int64_t stride = from.row_major_strides()[attributes.axis];
  const int64_t groups = operand.elements() / extent;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t outside = group / stride, inside = group % stride;
    const int64_t first = outside * extent * stride + inside, to = outside * attributes.k * stride + inside;
    for (int64_t i = 0; i < extent; ++i) {
      int64_t rank = 0;
      for (int64_t j = 0; j < extent && rank < attributes.k; ++j) {
        if (stands_before(attributes, operand, first + j * stride, first + i * stride)) ++rank;
      }
      if (rank < attributes.k) result.set_bits(to + rank * stride, static_cast<uint64_t>(i));
    }
  }
  return result;
}

}  // namespace low::reference
