#include <vector>

#include "reference/operations.h"

namespace low::reference {
namespace {

using Index = std::vector<int64_t>;

Index unravel(int64_t element, const Shape& shape) {
  Index index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

int64_t ravel(const Index& index, const Shape& shape) {
  int64_t element = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) element = element * shape[axis] + index[static_cast<size_t>(axis)];
  return element;
}

int64_t resolve(int64_t index, int64_t extent) {
  if (index < 0) index += extent;
  if (index < 0) return 0;
  return index < extent ? index : extent - 1;
}

}  // namespace

Tensor compute(const Gather& attributes, Operands operands, const Type& type, ThreadPool*) {
  const Tensor &data = *operands[0], &indices = *operands[1];
  const Shape& shape = type.shape;
  Tensor result(data.dtype(), shape);
  const int64_t elements = result.elements();
  for (int64_t i = 0; i < elements; ++i) {
    const Index out = unravel(i, shape);
    Index source;
    switch (attributes.mode) {
      case Gather::Mode::axis: {
        // out = [before…, i…, behind…]
        const auto first = out.begin() + attributes.axis;
        const auto behind = first + indices.shape().rank();
        const int64_t chosen = indices.integer(ravel(Index(first, behind), indices.shape()));
        source.assign(out.begin(), first);
        source.push_back(resolve(chosen, data.shape()[attributes.axis]));
        source.insert(source.end(), behind, out.end());
        break;
      }
      case Gather::Mode::elements:
        source = out;
        source[static_cast<size_t>(attributes.axis)] = resolve(indices.integer(i), data.shape()[attributes.axis]);
        break;
      case Gather::Mode::nd: {
        const int leading = indices.shape().rank() - 1;
        const int64_t depth = indices.shape()[leading];
        Index place(out.begin(), out.begin() + leading);
        source.assign(out.begin(), out.begin() + attributes.batch_axes);
        place.push_back(0);
        for (int64_t j = 0; j < depth; ++j) {
          place.back() = j;
          const int64_t chosen = indices.integer(ravel(place, indices.shape()));
          source.push_back(resolve(chosen, data.shape()[static_cast<int>(source.size())]));
        }
        source.insert(source.end(), out.begin() + leading, out.end());
        break;
      }
    }
    result.set_bits(i, data.bits(ravel(source, data.shape())));
  }
  return result;
}

}  // namespace low::reference
