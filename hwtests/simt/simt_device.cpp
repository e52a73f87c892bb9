#include "hwtests/simt/simt_device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/kernels/data/workgroups.h"
#include "compiler/machine/machine.h"
#include "hwtests/simt/simt.h"

namespace low::simt {

SimtDevice::SimtDevice(const std::string& target) : MemoryDevice("simt", target) {}

Result<void> SimtDevice::run_program(const Program& program, std::span<const std::byte> object,
                                     hwtests::MemoryBuffer& arena, const hwtests::MemoryBuffer& parameters) {
  LOW_TRY(const Code code, Code::load(object, program.entries, info().targets.front()));
  LOW_TRY(const Machine machine, find_machine(program.machine));
  Gpu gpu(chip_of(info().targets.front()));
  gpu.add_memory(arena.data(), false);
  gpu.add_memory(parameters.data(), false, true);
  for (const hwtests::MemoryBuffer* buffer : {static_cast<const hwtests::MemoryBuffer*>(&arena), &parameters})
    for (const hwtests::MemoryBuffer::Range& range : buffer->written)
      gpu.set_written(buffer->data().data() + range.begin, range.bytes);
  abi::Launch launch{};
  launch.memories[abi::memory_arena] = arena.data().data();
  launch.memories[abi::memory_parameters] = parameters.data().data();
  launch.commands = program.commands.data();
  const auto result = walk_supersteps(program, [&](const ProgramSuperstep& superstep, auto iterations) -> Result<void> {
    std::ranges::copy(iterations, launch.iterations);
    launch.tile_begin = program.tile_begin.data() + superstep.tile_begin;
    // Tiles that have something to do, and the first of those that have not.
    std::vector<uint32_t> workgroups;
    bool idle = false;
    for (uint32_t tile = 0; tile < program.tiles; ++tile) {
      if (launch.tile_begin[tile] == launch.tile_begin[tile + 1] && std::exchange(idle, true)) continue;
      workgroups.push_back(device::workgroup_of_tile(tile, program.tiles, machine.clusters));
    }
    gpu.launch(code.entry(superstep.entry), launch, workgroups);
    if (gpu.findings().empty()) return {};
    return fail(ErrorKind::device, fmt::format("entry {}: {}", superstep.entry, fmt::join(gpu.findings(), "; ")));
  });
  accesses_ += gpu.accesses();
  meetings_ += gpu.meetings();
  return result;
}

}  // namespace low::simt
