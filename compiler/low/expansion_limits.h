// How much one expansion may make: the one place that says so.
#pragma once

#include <algorithm>
#include <cstdint>

namespace low {

// A few bytes of a model or of a plan can ask for any number of runs, copies and transfers: a matmul has as many
// batches as its shape says, a reshape between rows of odd lengths as many pieces as rows. So an expansion counts what
// it makes before it makes it.
//
// Pieces: each operand of a kernel run, either end of a copy, each source and each recipient of an exchange, each
// allocation, each share of a value, and each box that waits to be moved is one. Through simplification, placement and
// schedule of four finalists, a piece takes up to 450 bytes and 2 microseconds: two million are 1 GB and 4 seconds. A
// machine of many tiles needs more for anything at all: of twelve million on the 1,472 of ipu21, plans of our workloads
// take up to 3.4; on machines with global memory, up to 6,400 pieces of two million.
struct ExpansionLimits {
  double least_pieces = double{1 << 21};
  double pieces_per_tile = 8192;
  double most_pieces = double{1 << 24};

  double pieces(uint32_t tiles) const { return std::clamp(tiles * pieces_per_tile, least_pieces, most_pieces); }
};

}  // namespace low
