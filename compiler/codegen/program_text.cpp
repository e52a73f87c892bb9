#include <fmt/format.h>

#include "compiler/codegen/codegen.h"
#include "runtime/format/commands.h"

namespace low {
namespace {

void print_operand(const CommandView& command, const abi::Operand& operand, std::string& text) {
  text += fmt::format(" {}+{}", operand.memory == abi::memory_parameters ? "parameters" : "arena", operand.offset);
  for (uint32_t i = 0; i < operand.term_count; ++i) {
    const abi::Term term = command.term(operand.term_begin + i);
    text += fmt::format("+(i{}%{})*{}", term.level, term.period, term.stride);
  }
}

}  // namespace

std::string print(const Program& program) {
  std::string text =
      fmt::format("low-program 2\nmachine {} tiles {} entries {}\narena {} parameters {}\n", program.machine,
                  program.tiles, program.entries, program.arena_bytes, program.parameter_bytes);
  const auto bindings = [&](std::string_view kind, const std::vector<Binding>& list) {
    for (const Binding& binding : list)
      text += fmt::format("{} {} {}{} at {}\n", kind, binding.name, name(binding.dtype), to_string(binding.shape),
                          binding.offset);
  };
  bindings("input", program.inputs);
  bindings("output", program.outputs);
  for (const ParameterSegment& segment : program.parameters)
    text += fmt::format("parameter {} at {}, {} bytes\n", segment.sha256, segment.offset, segment.bytes);
  std::string indent;
  for (const ControlStep& step : program.control) {
    if (step.kind == ControlStep::Kind::repeat_end) {
      indent.resize(indent.size() - 2);
      text += indent + "end\n";
      continue;
    }
    if (step.kind == ControlStep::Kind::repeat_begin) {
      text += fmt::format("{}repeat {} i{}\n", indent, step.count, step.level);
      indent += "  ";
      continue;
    }
    const ProgramSuperstep& superstep = program.supersteps[step.superstep];
    text += fmt::format("{}superstep {} entry {}\n", indent, step.superstep, superstep.entry);
    for (uint32_t tile = 0; tile < program.tiles; ++tile) {
      const uint32_t end = program.tile_begin[superstep.tile_begin + tile + 1];
      for (uint32_t block = program.tile_begin[superstep.tile_begin + tile]; block < end;) {
        const CommandView command(program.commands, block);
        text += fmt::format("{}  tile {} kernel {}", indent, tile, command.header().kernel);
        for (uint32_t i = 0; i < command.header().operand_count; ++i) print_operand(command, command.operand(i), text);
        text += "\n";
        block += command.header().blocks;
      }
    }
  }
  return text;
}

}  // namespace low
