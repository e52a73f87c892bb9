#include <cmath>

#include "reference/operations.h"

namespace low::reference {
namespace {

double combined(Scatter::Kind kind, double old, double update) {
  switch (kind) {
    case Scatter::Kind::replace:
      break;
    case Scatter::Kind::add:
      return old + update;
    case Scatter::Kind::mul:
      return old * update;
    case Scatter::Kind::max:
      return std::isnan(old) || old > update ? old : update;
    case Scatter::Kind::min:
      return std::isnan(old) || old < update ? old : update;
  }
  return update;
}

// Two's complement: sums and products are those of unsigned numbers.
int64_t combined(Scatter::Kind kind, DType type, int64_t old, int64_t update) {
  const auto a = static_cast<uint64_t>(old), b = static_cast<uint64_t>(update);
  const bool less = is_signed_integer(type) ? old < update : a < b;
  switch (kind) {
    case Scatter::Kind::replace:
      break;
    case Scatter::Kind::add:
      return static_cast<int64_t>(a + b);
    case Scatter::Kind::mul:
      return static_cast<int64_t>(a * b);
    case Scatter::Kind::max:
      return less ? update : old;
    case Scatter::Kind::min:
      return less ? old : update;
  }
  return update;
}

}  // namespace

Tensor compute(const Scatter& attributes, Operands operands, const Type&, ThreadPool*) {
  Tensor result = *operands[0];
  const Tensor &indices = *operands[1], &updates = *operands[2];
  const DType type = result.dtype();
  const int64_t rows = result.shape()[0], columns = result.shape()[1];
  const uint64_t mask = ~uint64_t{0} >> (64 - 8 * byte_size(type));
  for (int64_t update = 0; update < indices.elements(); ++update) {
    const int64_t row = indices.integer(update);
    if (row < 0 || row >= rows) continue;
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t to = row * columns + column, from = update * columns + column;
      if (attributes.kind == Scatter::Kind::replace) {
        result.set_bits(to, updates.bits(from));
      } else if (is_float(type)) {
        result.set_value(to, combined(attributes.kind, result.value(to), updates.value(from)));
      } else {
        const int64_t sum = combined(attributes.kind, type, result.integer(to), updates.integer(from));
        result.set_bits(to, static_cast<uint64_t>(sum) & mask);
      }
    }
  }
  return result;
}

}  // namespace low::reference
