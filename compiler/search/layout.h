// Where the elements of a value lie relative to its storage: what a later operation sees of an earlier one's decision.
#pragma once

#include <optional>

#include "runtime/tensor/shape.h"

namespace low {

// Element (i0, i1, …) lies at offset + sum of i * stride, in elements of the storage. Strides may be 0 or negative.
struct Layout {
  Strides strides;
  int64_t offset = 0;
  bool operator==(const Layout&) const = default;
};

// Of equal layouts the same.
uint64_t hash_of(const Layout& layout);

Layout row_major(const Shape& shape);
// Whether the elements lie in row-major order without gaps, wherever they start: the offset and the strides of axes of
// at most one element do not matter.
bool is_row_major(const Shape& shape, const Layout& layout);

Layout transposed(const Layout& layout, const Shape& permutation);
Layout sliced(const Layout& layout, const Shape& start, const Shape& step);
// From `from` to the broadcast shape `to`: new and stretched axes get stride 0.
Layout expanded(const Layout& layout, const Shape& from, const Shape& to);
// The layout under which `from` can be read as `to` without moving an element; nothing when there is none.
std::optional<Layout> reshaped(const Layout& layout, const Shape& from, const Shape& to);

}  // namespace low
