// How results can be computed in parts: what search and expansion go by, whatever the kind of operation.
#pragma once

#include <concepts>
#include <cstdint>

#include "runtime/tensor/shape.h"

namespace low {

// A result that is computed in parts, each by itself, is cut along one axis. A kind of operation that can be so has a
// member `parts`, which says what a part reads.
enum class Parts : uint8_t {
  elements,  // of each operand what lies where the part does, under broadcasting
  rows,      // of operand 0 also all that differs along `joined_axes()` only; of the others as `elements`
  indexed,   // of operand 0 what operand 1 may name there, and that of operand 1
  updated,   // of operand 0, a matrix, what lies where the part does; of lists all, of other matrices its columns
};
template <typename Kind>
concept InParts = requires {
  { Kind::parts } -> std::convertible_to<Parts>;
};
// Elements along these axes depend on each other: no cut goes through them.
template <typename Kind>
concept JoinsAxes = requires(const Kind& op) {
  { op.joined_axes() } -> std::convertible_to<Shape>;
};
template <typename Kind>
concept PartsAreKnown = !InParts<Kind> || JoinsAxes<Kind> || Kind::parts != Parts::rows;

}  // namespace low
