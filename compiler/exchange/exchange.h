// Exchange: TileGraph + placement -> Schedule: what each tile does in each superstep, in order.
//
// On machines with global memory an exchange is a pull: the destination's tile copies from where the source lies. Pulls
// of a superstep happen before its runs, in an epoch of their own only if a run of another tile in the same superstep
// depends on them (which the TileGraph's rule excludes). Each tile orders its pulls by source in rotated order,
// beginning behind its own number, so that no source is asked by all tiles at once; contiguous neighbours (source and
// destination both) are merged.
//
// Without global memory it is the same: each destination's tile has a command for its part of an exchange, and the
// source's tile sends what goes out of the tiles. How long transfers take is what cost_report says of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/low/tile_graph.h"
#include "compiler/machine/machine.h"
#include "compiler/placement/placement.h"

namespace low {

struct Pull {
  View source, destination;
  DescriptorId descriptor;  // in Schedule::descriptors
};

struct ScheduledCommand {
  enum class Kind : uint8_t { run, copy, pull } kind = Kind::run;
  uint32_t index = 0;  // of TileGraph::runs(), TileGraph::copies() or Schedule::pulls
  bool operator==(const ScheduledCommand&) const = default;
};

struct ScheduledSuperstep {
  // tiles + 1 indices into Schedule::commands.
  std::vector<uint32_t> tile_begin;
  double cycles = 0;              // predicted length of its transfers: exchanges and copies
  double lower_bound_cycles = 0;  // that of their bytes alone
};

struct Schedule {
  std::vector<ScheduledSuperstep> supersteps;  // as TileGraph::supersteps()
  std::vector<ScheduledCommand> commands;
  std::vector<Pull> pulls;
  std::vector<CopyDescriptor> descriptors;
};

Result<Schedule> schedule_exchange(const TileGraph& graph, const Placement& placement, const Machine& machine);
std::string print(const Schedule& schedule, const TileGraph& graph);

}  // namespace low
