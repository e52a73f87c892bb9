#include "hwtests/emulator/emulator_device.h"

#include <cstddef>
#include <cstring>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/codegen/subprocess.h"
#include "compiler/kernels/data/chip.h"
#include "runtime/tensor/tensor_file.h"

namespace low::emulator {
namespace {

namespace json = boost::json;

// Of the job, in this order.
enum Memory : uint8_t { arena_memory, parameter_memory, command_memory, tile_memory };
constexpr const char* memory_files[] = {"arena.bin", "parameters.bin", "commands.bin", "tiles.bin"};

json::object pointer(size_t at, Memory memory, uint64_t offset) {
  return {{"at", at}, {"memory", static_cast<int>(memory)}, {"offset", offset}};
}

json::object launch_of(const Program& program, const ProgramSuperstep& superstep,
                       std::span<const uint64_t, abi::max_levels> iterations) {
  abi::Launch launch{};
  std::ranges::copy(iterations, launch.iterations);
  const auto bytes = std::as_bytes(std::span(&launch, 1));
  std::string arguments;
  for (const std::byte byte : bytes) arguments += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return {{"kernel", fmt::format("low_entry_{}", superstep.entry)},
          {"workgroups", program.tiles},
          {"lanes", device::workgroup_lanes},
          {"arguments", arguments},
          {"pointers", json::array{pointer(offsetof(abi::Launch, memories), arena_memory, 0),
                                   pointer(offsetof(abi::Launch, memories) + sizeof(void*), parameter_memory, 0),
                                   pointer(offsetof(abi::Launch, commands), command_memory, 0),
                                   pointer(offsetof(abi::Launch, tile_begin), tile_memory,
                                           superstep.tile_begin * sizeof(uint32_t))}}};
}

}  // namespace

EmulatorDevice::EmulatorDevice(std::string checkout, std::string cache_folder)
    : MemoryDevice("emulator", "gfx942"), checkout_(std::move(checkout)), cache_folder_(std::move(cache_folder)) {}

Result<void> EmulatorDevice::run_program(const Program& program, std::span<const std::byte> object,
                                         hwtests::MemoryBuffer& arena, const hwtests::MemoryBuffer& parameters) {
  LOW_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const auto path = [&](std::string_view file) { return fmt::format("{}/{}", folder.path(), file); };
  const std::span<const std::byte> contents[] = {std::as_bytes(arena.data()), std::as_bytes(parameters.data()),
                                                 std::as_bytes(std::span(program.commands)),
                                                 std::as_bytes(std::span(program.tile_begin))};
  json::array memories;
  for (const Memory memory : {arena_memory, parameter_memory, command_memory, tile_memory}) {
    LOW_TRY_VOID(write_file(path(memory_files[memory]), contents[memory]));
    memories.push_back(json::object{{"file", memory_files[memory]}});
  }
  json::array launches;
  LOW_TRY_VOID(walk_supersteps(program, [&](const ProgramSuperstep& superstep, auto iterations) -> Result<void> {
    launches.push_back(launch_of(program, superstep, iterations));
    return {};
  }));
  const json::object job{
      {"target", "gfx942"}, {"object", "object.hsaco"}, {"memories", memories}, {"launches", launches}};
  LOW_TRY_VOID(write_file(path("object.hsaco"), object));
  const std::string text = json::serialize(job);
  LOW_TRY_VOID(write_file(path("job.json"), std::as_bytes(std::span(text))));

  const std::string arguments[] = {"env",     "LOW_EMULATOR_CACHE=" + cache_folder_,
                                   "python3", LOW_SOURCE_DIR "/hwtests/emulator/tinygrad_runner.py",
                                   checkout_, folder.path()};
  LOW_TRY(const ProcessResult done, run_process(arguments, "", folder));
  if (!done.started || done.status != 0)
    return fail(ErrorKind::device, fmt::format("the emulator ended with status {}: {}", done.status, done.output));
  const std::string_view output = done.output;
  const size_t last = output.find_last_of('\n', output.size() - 2) + 1;  // npos + 1 is 0
  std::error_code error;
  const json::value report = json::parse(output.substr(last), error);
  if (error) return fail(ErrorKind::device, "the emulator's report is no JSON: " + done.output);
  counts_.launches += report.at("launches").to_number<uint64_t>();
  counts_.wave_instructions += report.at("wave_instructions").to_number<uint64_t>();
  counts_.matrix_instructions += report.at("matrix_instructions").to_number<uint64_t>();
  LOW_TRY(const std::string result, read_whole_file(path("arena.bin.out")));
  LOW_CHECK(result.size() == arena.bytes());
  std::memcpy(arena.data().data(), result.data(), result.size());
  return {};
}

}  // namespace low::emulator
