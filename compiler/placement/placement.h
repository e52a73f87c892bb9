// Placement: allocation -> (memory, offset).
//
// Problem: allocations whose lifetimes (in supersteps) overlap must not share bytes; the arena should be small. Greedy:
// by decreasing size, each at the lowest offset that no already placed, simultaneously live allocation covers.
// A lifetime reaches from the first superstep that writes an allocation to the last that reads it. What a Repeat's body
// touches and that also lives outside of it, or is read in an iteration before it is written in the same iteration
// (carried), lives during the whole Repeat. Inputs live from the start, outputs to the end. Aliases share one lifetime:
// the union. Parameters have a memory of their own.
//
// Without global memory what has no home lies outside of the tiles (the model's inputs and outputs), in an arena whose
// size nothing bounds; each tile's memory is packed in the same way, parameters included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/low/tile_graph.h"
#include "compiler/machine/machine.h"

namespace low {

enum class Memory : uint8_t {
  arena,       // global memory (or outside of the tiles): inputs, outputs, intermediates
  parameters,  // likewise: constants
  tile,        // the memory of the allocation's home
};

struct Location {
  Memory memory = Memory::arena;
  uint64_t offset = 0;  // bytes
  bool operator==(const Location&) const = default;
};

// In positions: the supersteps of the whole graph in program order, a Repeat's body once.
struct Lifetime {
  uint32_t first = 0, last = 0;
  bool operator==(const Lifetime&) const = default;
};

struct Placement {
  Table<AllocationId, Location> locations;
  Table<AllocationId, Lifetime> lifetimes;
  uint64_t arena_bytes = 0;
  uint64_t parameter_bytes = 0;
  std::vector<uint64_t> tile_bytes;  // peak of each tile's memory; empty on machines with global memory
  uint64_t lower_bound_bytes = 0;    // the largest sum of live arena allocations at one position
};

// ErrorKind::unsupported naming machine, tile (or memory), need and capacity when something does not fit.
Result<Placement> place(const TileGraph& graph, const Machine& machine);
std::string print(const Placement& placement, const TileGraph& graph);

}  // namespace low
