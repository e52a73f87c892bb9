// The target of this program's tests of kernels: gfx942, on the emulator in LOW_TINYGRAD's checkout; none without one.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "compiler/codegen/test_kernels.h"
#include "hwtests/emulator/emulator_device.h"

namespace low::testing {
namespace {

const char* checkout() {
  const char* const named = std::getenv("LOW_TINYGRAD");
  return named == nullptr || *named == '\0' ? nullptr : named;
}

// The command of tile 1, as a program of one launch.
Program program_of(const abi::Launch& launch, uint32_t entries) {
  Program program{.machine = test_machine().name, .tiles = test_machine().tiles, .entries = entries};
  program.control = {{.kind = ControlStep::Kind::superstep, .superstep = 0, .level = 0, .count = 0}};
  program.supersteps = {{.entry = entry_for(launch, entries), .tile_begin = 0}};
  program.tile_begin.assign(program.tiles + size_t{1}, launch.tile_begin[2]);
  program.tile_begin[0] = program.tile_begin[1] = 0;
  program.commands.assign(launch.commands, launch.commands + size_t{launch.tile_begin[2]} * abi::block_words);
  return program;
}

}  // namespace

std::vector<std::string> test_targets() {
  return checkout() == nullptr ? std::vector<std::string>() : std::vector<std::string>{"gfx942"};
}

const Machine& test_machine() {
  static const Machine machine = *machine_for_target("gfx942");
  return machine;
}

Code load(const CodeObject& object, uint32_t entries) {
  auto device = std::make_shared<emulator::EmulatorDevice>(checkout(), LOW_BINARY_DIR "/emulator-cache");
  return {.target = object.target,
          .scratch_bytes = object.scratch_bytes,
          .contracts = {},
          .run = [device, entries, bytes = object.bytes](const abi::Launch& launch, unsigned char*,
                                                         std::span<const Region> regions) -> std::vector<std::string> {
            uint64_t end = 64;
            for (const Region& region : regions) end = std::max(end, region.begin + region.bytes);
            hwtests::MemoryBuffer arena(end), parameters(64);
            std::memcpy(arena.data().data(), launch.memories[abi::memory_arena], end);
            std::ranges::fill(parameters.data(), 0);
            const auto done =
                device->run_program(program_of(launch, entries), std::as_bytes(std::span(bytes)), arena, parameters);
            if (!done) return {done.error().message};
            std::memcpy(launch.memories[abi::memory_arena], arena.data().data(), end);
            return {};
          },
          .report =
              [device] {
                const emulator::Counts& counts = device->counts();
                return fmt::format("{} launches, {} wave instructions, {} of them matrix instructions", counts.launches,
                                   counts.wave_instructions, counts.matrix_instructions);
              }};
}

}  // namespace low::testing
