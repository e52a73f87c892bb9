#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "runtime/format/commands.h"
#include "runtime/format/program.h"

namespace low {
namespace {

// Limits that no program of ours comes near, so that sums below do not overflow and a hostile file is refused in time.
constexpr uint32_t max_tiles = 1u << 20;
constexpr uint32_t max_entries = 1u << 16;
constexpr uint64_t max_memory_bytes = uint64_t{1} << 62;
constexpr uint64_t max_executed = uint64_t{1} << 40;
constexpr uint64_t max_visits = uint64_t{1} << 27;  // of commands, operands and terms by all supersteps

using Status = Result<void>;
__extension__ using Wide = __int128;

template <typename... Args>
std::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorKind::invalid, fmt::format(format, std::forward<Args>(args)...));
}

// a * b, at most limit + 1; both at most limit + 1 before.
uint64_t multiply_up_to(uint64_t a, uint64_t b, uint64_t limit) {
  if (a != 0 && b > limit / a) return limit + 1;
  return a * b;
}

bool range_within(uint64_t begin, uint64_t count, uint64_t size) { return begin <= size && count <= size - begin; }

Status verify_sizes(const Program& program) {
  if (program.tiles == 0 || program.tiles > max_tiles) {
    return bad("the program has {} tiles, expected 1 to {}", program.tiles, max_tiles);
  }
  if (program.entries > max_entries) {
    return bad("the program has {} entry points, expected at most {}", program.entries, max_entries);
  }
  if (program.arena_bytes > max_memory_bytes || program.parameter_bytes > max_memory_bytes) {
    return bad("memories of {} and {} bytes exceed the limit of {}", program.arena_bytes, program.parameter_bytes,
               max_memory_bytes);
  }
  if (!std::isfinite(program.flop) || program.flop < 0)
    return bad("the number of operations is not a number of at least 0");
  return {};
}

Status verify_binding(const Program& program, std::string_view kind, const Binding& binding) {
  const auto elements = checked_elements(binding.shape.extents());
  if (!elements) return bad("{} '{}' has the impossible shape {}", kind, binding.name, to_string(binding.shape));
  const uint64_t bytes = static_cast<uint64_t>(*elements) * byte_size(binding.dtype);
  if (!range_within(binding.offset, bytes, program.arena_bytes)) {
    return bad("{} '{}' of {} bytes at {} is not inside the arena of {} bytes", kind, binding.name, bytes,
               binding.offset, program.arena_bytes);
  }
  return {};
}

Status verify_interface(const Program& program) {
  std::set<std::string_view> names;
  for (const Binding& input : program.inputs) {
    LOW_TRY_VOID(verify_binding(program, "input", input));
    if (!names.insert(input.name).second) return bad("two inputs are named '{}'", input.name);
  }
  for (const Binding& output : program.outputs) LOW_TRY_VOID(verify_binding(program, "output", output));
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const ParameterSegment& segment = program.parameters[i];
    const bool is_hash =
        segment.sha256.size() == 64 && segment.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_hash) return bad("parameter segment {} is not named by a SHA-256", i);
    if (!range_within(segment.offset, segment.bytes, program.parameter_bytes)) {
      return bad("parameter segment {} of {} bytes at {} is not inside the parameters' {} bytes", i, segment.bytes,
                 segment.offset, program.parameter_bytes);
    }
  }
  return {};
}

Status verify_tables(const Program& program) {
  if (program.commands.size() % abi::block_words != 0)
    return bad("the commands have {} words, expected a multiple of {}", program.commands.size(), abi::block_words);
  for (size_t i = 0; i < program.supersteps.size(); ++i) {
    const ProgramSuperstep& superstep = program.supersteps[i];
    if (superstep.entry >= program.entries) {
      return bad("superstep {} runs entry point {} of {}", i, superstep.entry, program.entries);
    }
    if (!range_within(superstep.tile_begin, uint64_t{program.tiles} + 1, program.tile_begin.size())) {
      return bad("superstep {} has its tiles' commands at {} of {}", i, superstep.tile_begin,
                 program.tile_begin.size());
    }
  }
  return {};
}

// The loops around a superstep, over all its places in the control flow.
struct Reach {
  uint32_t depth = abi::max_levels + 1;           // the least; above max_levels: never executed
  std::array<uint64_t, abi::max_levels> count{};  // the largest
};

// Nesting, and what it means for each superstep.
Result<std::vector<Reach>> verify_control(const Program& program) {
  std::vector<Reach> reaches(program.supersteps.size());
  std::array<uint64_t, abi::max_levels> counts{};
  std::array<uint64_t, abi::max_levels + 1> times{1};  // executions of the body of the innermost `depth` loops
  uint32_t depth = 0;
  uint64_t executed = 0;
  for (size_t i = 0; i < program.control.size(); ++i) {
    const ControlStep& step = program.control[i];
    switch (step.kind) {
      case ControlStep::Kind::superstep: {
        if (step.superstep >= program.supersteps.size()) {
          return bad("control step {} runs superstep {} of {}", i, step.superstep, program.supersteps.size());
        }
        Reach& reach = reaches[step.superstep];
        reach.depth = std::min(reach.depth, depth);
        for (uint32_t level = 0; level < depth; ++level)
          reach.count[level] = std::max(reach.count[level], counts[level]);
        break;
      }
      case ControlStep::Kind::repeat_begin:
        if (depth == abi::max_levels) return bad("control step {} nests more than {} loops", i, abi::max_levels);
        if (step.level != depth)
          return bad("control step {} begins a loop of level {} at depth {}", i, step.level, depth);
        if (step.count == 0) return bad("control step {} begins a loop of 0 iterations", i);
        counts[depth] = step.count;
        times[depth + 1] = multiply_up_to(times[depth], std::min(step.count, max_executed + 1), max_executed);
        ++depth;
        break;
      case ControlStep::Kind::repeat_end:
        if (depth == 0 || step.level != depth - 1) {
          return bad("control step {} ends a loop of level {} at depth {}", i, step.level, depth);
        }
        --depth;
        break;
    }
    executed += times[depth];  // neither side is above max_executed + 1
    if (executed > max_executed) return bad("one run executes more than {} steps", max_executed);
  }
  if (depth != 0) return bad("{} loops do not end", depth);
  return reaches;
}

// The loops that an operand's terms name, and the address of its first byte in every iteration: from the sum of all that
// can lower it to the sum of all that can raise it.
Status verify_operand(const Program& program, size_t superstep, const CommandView& command, uint32_t index,
                      const Reach& reach) {
  const abi::Operand operand = command.operand(index);
  if (operand.memory >= abi::memory_count) {
    return bad("operand {} of superstep {} is in memory {}, expected less than {}", index, superstep, operand.memory,
               abi::memory_count);
  }
  if (!range_within(operand.term_begin, operand.term_count, command.header().term_count)) {
    return bad("operand {} of superstep {} has {} terms at {} of {}", index, superstep, operand.term_count,
               operand.term_begin, command.header().term_count);
  }
  const uint64_t size = operand.memory == abi::memory_arena ? program.arena_bytes : program.parameter_bytes;
  Wide low = operand.offset;
  Wide high = operand.offset;
  for (uint32_t i = 0; i < operand.term_count; ++i) {
    const abi::Term term = command.term(operand.term_begin + i);
    if (term.period == 0) return bad("a term of superstep {} has period 0, expected at least 1", superstep);
    if (term.level >= abi::max_levels)
      return bad("a term of superstep {} has level {}, expected less than {}", superstep, term.level, abi::max_levels);
    if (reach.depth > abi::max_levels) continue;  // never executed
    if (term.level >= reach.depth) {
      return bad("operand {} depends on loop level {}, but superstep {} is inside {} loops", index, term.level,
                 superstep, reach.depth);
    }
    const Wide last = std::min<uint64_t>(term.period, reach.count[term.level]) - 1;
    (term.stride < 0 ? low : high) += last * term.stride;
  }
  if (low < 0 || high > Wide{size}) {
    return bad("operand {} of superstep {} leaves memory {} of {} bytes in some iteration", index, superstep,
               operand.memory, size);
  }
  return {};
}

// The records from one block to another, which they fill.
class RecordVerifier {
 public:
  explicit RecordVerifier(const Program& program) : program_(program) {}

  // Counts work, of which there may be too much: ranges of hostile files may overlap.
  Status visit(uint64_t count) {
    visits_ += count;
    if (visits_ <= max_visits) return {};
    return bad("the supersteps have more than {} tiles, commands, operands and terms", max_visits);
  }

  Status verify(size_t superstep, uint32_t begin, uint32_t end, const Reach& reach) {
    for (uint32_t block = begin; block != end;) {
      const CommandView command(program_.commands, block);
      const abi::Command& header = command.header();
      if (header.blocks > end - block || uint64_t{header.blocks} * abi::block_words < abi::record_words(header)) {
        return bad("a command of superstep {} at block {} has {} of its tile's {} blocks, and needs {} words",
                   superstep, block, header.blocks, end - block, abi::record_words(header));
      }
      LOW_TRY_VOID(visit(1 + uint64_t{header.operand_count} + header.term_count));
      for (uint32_t operand = 0; operand < header.operand_count; ++operand) {
        LOW_TRY_VOID(visit(command.operand(operand).term_count));
        LOW_TRY_VOID(verify_operand(program_, superstep, command, operand, reach));
      }
      block += header.blocks;
    }
    return {};
  }

 private:
  const Program& program_;
  uint64_t visits_ = 0;
};

Status verify_supersteps(const Program& program, const std::vector<Reach>& reaches) {
  const uint64_t blocks = program.commands.size() / abi::block_words;
  RecordVerifier records(program);
  for (size_t i = 0; i < program.supersteps.size(); ++i) {
    const uint32_t* begin = program.tile_begin.data() + program.supersteps[i].tile_begin;
    LOW_TRY_VOID(records.visit(program.tiles));
    if (!std::is_sorted(begin, begin + program.tiles + 1) || begin[program.tiles] > blocks) {
      return bad("the tiles' commands of superstep {} do not follow each other within {} blocks", i, blocks);
    }
    for (uint32_t tile = 0; tile < program.tiles; ++tile)
      LOW_TRY_VOID(records.verify(i, begin[tile], begin[tile + 1], reaches[i]));
  }
  return {};
}

Status verify_all(const Program& program) {
  LOW_TRY_VOID(verify_sizes(program));
  LOW_TRY_VOID(verify_interface(program));
  LOW_TRY_VOID(verify_tables(program));
  LOW_TRY(const std::vector<Reach> reaches, verify_control(program));
  return verify_supersteps(program, reaches);
}

}  // namespace

Result<void> verify(const Program& program, std::string_view what) {
  const Status status = verify_all(program);
  if (!status) return in_context(what, status.error());
  return {};
}

Result<void> walk_supersteps(
    const Program& program,
    const std::function<Result<void>(const ProgramSuperstep&, std::span<const uint64_t, abi::max_levels>)>& visit) {
  struct Loop {
    size_t body = 0;  // index of the first step
    uint64_t count = 0;
  };
  std::array<Loop, abi::max_levels> loops;
  std::array<uint64_t, abi::max_levels> iterations{};
  size_t next = 0;
  while (next < program.control.size()) {
    const ControlStep& step = program.control[next++];
    switch (step.kind) {
      case ControlStep::Kind::superstep:
        LOW_TRY_VOID(visit(program.supersteps[step.superstep], iterations));
        break;
      case ControlStep::Kind::repeat_begin:
        loops[step.level] = {next, step.count};
        iterations[step.level] = 0;
        break;
      case ControlStep::Kind::repeat_end:
        if (++iterations[step.level] < loops[step.level].count) {
          next = loops[step.level].body;
        } else {
          iterations[step.level] = 0;
        }
        break;
    }
  }
  return {};
}

uint64_t command_count(const Program& program) {
  uint64_t count = 0;
  for (const ProgramSuperstep& superstep : program.supersteps) {
    const uint32_t* begin = program.tile_begin.data() + superstep.tile_begin;
    for (uint32_t block = begin[0]; block != begin[program.tiles]; ++count)
      block += CommandView(program.commands, block).header().blocks;
  }
  return count;
}

uint64_t executed_supersteps(const Program& program) {
  uint64_t executed = 0;
  std::array<uint64_t, abi::max_levels + 1> times{1};
  size_t depth = 0;
  for (const ControlStep& step : program.control) {
    if (step.kind == ControlStep::Kind::superstep) executed += times[depth];
    if (step.kind == ControlStep::Kind::repeat_begin) {
      times[depth + 1] = times[depth] * step.count;
      ++depth;
    }
    if (step.kind == ControlStep::Kind::repeat_end) --depth;
  }
  return executed;
}

}  // namespace low
