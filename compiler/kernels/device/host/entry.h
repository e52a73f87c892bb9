// How a tile goes through its commands.
#pragma once

#include "compiler/kernels/device/command.h"
#include "compiler/kernels/device/host/target.h"

namespace low::device {

// run(command) for each of the tile's commands.
template <typename Run>
LOW_INLINE void run_tile(const abi::Launch& launch, u32 tile, Run run) {
  const bool sampled = launch.samples != nullptr;
  const u64 begin = sampled ? ticks() : 0;
  for (u32 block = launch.tile_begin[tile]; block != launch.tile_begin[tile + 1];) {
    const CommandPointer command = command_at(launch, block);
    run(command);
    block += command->blocks;
  }
  if (sampled) launch.samples[tile] = {begin, ticks()};
}

}  // namespace low::device
