// Every place where a superstep reads or writes a view, in the order in which a tile meets them.
#pragma once

#include <string>

#include "compiler/low/byte_box.h"
#include "compiler/low/tile_graph.h"

namespace low {

struct ViewUse {
  enum class Kind : uint8_t { exchange, run, copy } kind = Kind::run;
  uint32_t index = 0;    // of the exchange, run or copy
  uint32_t operand = 0;  // of a run; 0 is the source, 1 and on the destinations of others
  bool write = false;
  TileId tile;
  View view;
  // The elements: of an operand its geometry, of a copy what its descriptor says.
  std::span<const int64_t> extents, strides;
  int64_t chunk = 1;
};

// The tile that carries out a transfer: the destination's home, else the source's (it has to push), else, where both
// lie in global memory, `ordinal` (the number of the destination among those of its superstep) modulo the number of
// tiles.
inline TileId transfer_tile(const TileGraph& graph, const View& source, const View& destination, uint32_t ordinal) {
  if (const TileId home = graph.allocation(destination.allocation).home; home.valid()) return home;
  if (const TileId home = graph.allocation(source.allocation).home; home.valid()) return home;
  return TileId(ordinal % graph.tiles());
}

template <typename Function>
void for_each_use(const TileGraph& graph, const Command& command, Function&& function) {
  if (command.kind == Command::Kind::run) {
    const KernelRun& run = graph.runs()[command.index];
    const std::span<const View> operands = graph.operands(run);
    for (uint32_t i = 0; i < operands.size(); ++i) {
      const Geometry& geometry = graph.geometry(operands[i]);
      function(ViewUse{ViewUse::Kind::run, command.index, i, i + 1 == operands.size(), run.tile, operands[i],
                       geometry.extents.extents(), geometry.strides.extents(), 1});
    }
    return;
  }
  const LocalCopy& copy = graph.copies()[command.index];
  const CopyDescriptor& descriptor = graph.descriptor(copy);
  function(ViewUse{ViewUse::Kind::copy, command.index, 0, false, copy.tile, copy.source, descriptor.counts.extents(),
                   descriptor.source_strides.extents(), descriptor.chunk});
  function(ViewUse{ViewUse::Kind::copy, command.index, 1, true, copy.tile, copy.destination,
                   descriptor.counts.extents(), descriptor.destination_strides.extents(), descriptor.chunk});
}

// Exchanges first, each destination with the read of the source that it needs; then the commands.
template <typename Function>
void for_each_use(const TileGraph& graph, const Superstep& superstep, Function&& function) {
  uint32_t ordinal = 0;
  for (uint32_t i = 0; i < superstep.exchanges.count; ++i) {
    const uint32_t index = superstep.exchanges.begin + i;
    const Exchange& exchange = graph.exchanges()[index];
    const Geometry& from = graph.geometry(exchange.source);
    uint32_t operand = 0;
    for (const View& destination : graph.destinations(exchange)) {
      const TileId tile = transfer_tile(graph, exchange.source, destination, ordinal++);
      const Geometry& to = graph.geometry(destination);
      function(ViewUse{ViewUse::Kind::exchange, index, 0, false, tile, exchange.source, from.extents.extents(),
                       from.strides.extents(), 1});
      function(ViewUse{ViewUse::Kind::exchange, index, ++operand, true, tile, destination, to.extents.extents(),
                       to.strides.extents(), 1});
    }
  }
  for (const Command& command : graph.commands(superstep)) for_each_use(graph, command, function);
}

// "tile 3, run 12, operand 0".
std::string to_string(const ViewUse& use);

// What proving the rule may still take, in comparisons of two uses or of two runs of bytes: 2^26 take some seconds.
// Supersteps of real models take thousands; but uses whose bytes interleave have to be compared in pairs, and a few
// bytes of a model make many of them.
struct RuleBudget {
  double comparisons = double{1 << 26};
};

// The rule on top of tile_graph.h for one superstep that runs inside Repeats of these counts (outermost first): no tile
// touches what another writes. All views must have been checked for bounds. ErrorKind::internal naming both uses;
// ErrorKind::unsupported when the budget ends.
Result<void> verify_superstep_rule(const TileGraph& graph, const Superstep& superstep, std::span<const uint64_t> counts,
                                   RuleBudget& budget);

// Whether two uses of one storage can touch the same byte in the same iteration of Repeats of these counts. Exact but
// where their terms differ and have more than 4,096 joint values: then it is enough that they do in different
// iterations.
bool uses_overlap(const TileGraph& graph, const ViewUse& a, const ViewUse& b, std::span<const uint64_t> counts);

}  // namespace low
