#include "runtime/format/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "runtime/format/commands.h"

namespace low {
namespace {

using testing::HasSubstr;
using Kind = ControlStep::Kind;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

struct SampleCommand {
  uint32_t kernel = 0;
  std::vector<int64_t> data;
  std::vector<CommandOperand> operands;
};

// Of tile 0 and tile 1 in superstep 0, and of tile 1 in superstep 1.
std::vector<SampleCommand> sample_commands() {
  return {{0, {7}, {{abi::memory_arena, 0, {5}, {}}, {abi::memory_parameters, 64, {1, -1}, {}}}},
          {1, {}, {{abi::memory_parameters, 64, {}, {}}}},
          {2, {-1}, {{abi::memory_arena, 20, {}, {{40, 0, 1000}}}, {abi::memory_arena, 80, {}, {{-80, 0, 2}}}}}};
}

void set_commands(Program& program, const std::vector<SampleCommand>& commands) {
  program.commands.clear();
  program.tile_begin = {0};
  const auto add_end = [&] {
    program.tile_begin.push_back(static_cast<uint32_t>(program.commands.size() / abi::block_words));
  };
  for (size_t i = 0; i < commands.size(); ++i) {
    if (i == 2) {  // of superstep 1: tile 0 has none
      add_end();
      add_end();
    }
    append_command(program.commands, commands[i].kernel, commands[i].data, commands[i].operands);
    if (i < 2) add_end();
  }
  add_end();
}

// Two tiles; superstep 0 alone, then repeat 3 { superstep 1, repeat 2 { superstep 1 } }.
Program sample() {
  Program program;
  program.machine = "host";
  program.tiles = 2;
  program.entries = 2;
  program.arena_bytes = 100;
  program.parameter_bytes = 64;
  program.flop = 1.5e9;
  program.inputs = {
      {"x", DType::f32, Shape{2, 3}, 0}, {"n", DType::i64, Shape{}, 24}, {"none", DType::i8, Shape{0, 5}, 100}};
  program.outputs = {{"y", DType::f8e4m3fn, Shape{1}, 99}};
  program.parameters = {{std::string(64, 'a'), 0, 64}};
  program.supersteps = {{0, 0}, {1, 3}};
  program.control = {{Kind::superstep, 0, 0, 0},    {Kind::repeat_begin, 0, 0, 3}, {Kind::superstep, 1, 0, 0},
                     {Kind::repeat_begin, 0, 1, 2}, {Kind::superstep, 1, 0, 0},    {Kind::repeat_end, 0, 1, 0},
                     {Kind::repeat_end, 0, 0, 0}};
  set_commands(program, sample_commands());
  return program;
}

// The sample's commands, changed.
void change(Program& program, const std::function<void(std::vector<SampleCommand>&)>& how) {
  std::vector<SampleCommand> commands = sample_commands();
  how(commands);
  set_commands(program, commands);
}

// The words of command `index`'s header, and of one of its operands.
uint64_t* header(Program& program, size_t index) {
  constexpr size_t begins[] = {0, 1, 4};
  return program.commands.data() + size_t{program.tile_begin[begins[index]]} * abi::block_words;
}
uint64_t* operand_word(Program& program, size_t index, uint32_t operand) {
  const uint32_t begins[] = {program.tile_begin[0], program.tile_begin[1], program.tile_begin[4]};
  const abi::Command command = CommandView(program.commands, begins[index]).header();
  return header(program, index) + abi::operand_word(command.data_count, command.stride_count, operand);
}

TEST(Program, ReadsWhatItWrote) {
  const Program program = sample();
  const std::string bytes = serialize(program);
  const auto parsed = parse_program(bytes_of(bytes), "test");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(serialize(*parsed), bytes);
  EXPECT_EQ(parsed->machine, program.machine);
  EXPECT_EQ(parsed->tiles, program.tiles);
  EXPECT_EQ(parsed->entries, program.entries);
  EXPECT_EQ(parsed->arena_bytes, program.arena_bytes);
  EXPECT_EQ(parsed->parameter_bytes, program.parameter_bytes);
  EXPECT_EQ(parsed->flop, program.flop);
  EXPECT_EQ(parsed->inputs, program.inputs);
  EXPECT_EQ(parsed->outputs, program.outputs);
  EXPECT_EQ(parsed->parameters, program.parameters);
  EXPECT_EQ(parsed->control, program.control);
  EXPECT_EQ(parsed->supersteps, program.supersteps);
  EXPECT_EQ(parsed->tile_begin, program.tile_begin);
  EXPECT_EQ(parsed->commands, program.commands);
  const CommandView command(parsed->commands, program.tile_begin[4]);
  EXPECT_EQ(command.header().kernel, 2u);
  EXPECT_EQ(command.header().data_count, 1u);
  EXPECT_EQ(command.header().term_count, 2u);
  EXPECT_EQ(command.operand(1).offset, 80u);
  EXPECT_EQ(command.operand(1).term_begin, 1u);
  EXPECT_EQ(command.term(1).stride, -80);
}

TEST(Program, EmptyProgram) {
  Program program;
  program.machine = "m";
  const auto parsed = parse_program(bytes_of(serialize(program)), "test");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(executed_supersteps(*parsed), 0u);
}

TEST(Program, ExecutedSupersteps) { EXPECT_EQ(executed_supersteps(sample()), 1u + 3 * (1 + 2)); }

// Each change makes the sample wrong in one way.
TEST(Program, Refusals) {
  struct Case {
    const char* message;
    std::function<void(Program&)> change;
  };
  const std::vector<Case> cases = {
      {"0 tiles", [](Program& p) { p.tiles = 0; }},
      {"4294967295 tiles", [](Program& p) { p.tiles = 0xffffffffu; }},
      {"entry points", [](Program& p) { p.entries = 1u << 20; }},
      {"exceed the limit", [](Program& p) { p.arena_bytes = ~uint64_t{0}; }},
      {"exceed the limit", [](Program& p) { p.parameter_bytes = uint64_t{1} << 63; }},
      {"number of operations", [](Program& p) { p.flop = std::numeric_limits<double>::quiet_NaN(); }},
      {"number of operations", [](Program& p) { p.flop = -1; }},
      {"input 'x' of 24 bytes at 77", [](Program& p) { p.inputs[0].offset = 77; }},
      {"input 'x' of 24 bytes at 18446744073709551615", [](Program& p) { p.inputs[0].offset = ~uint64_t{0}; }},
      {"output 'y' of 2 bytes at 99", [](Program& p) { p.outputs[0].shape = Shape{2}; }},
      {"impossible shape [2,-3]", [](Program& p) { p.inputs[0].shape[1] = -3; }},
      {"impossible shape", [](Program& p) { p.inputs[0].shape = Shape{int64_t{1} << 40, int64_t{1} << 40}; }},
      {"two inputs are named 'x'", [](Program& p) { p.inputs[1].name = "x"; }},
      {"named by a SHA-256", [](Program& p) { p.parameters[0].sha256[5] = 'A'; }},
      {"named by a SHA-256", [](Program& p) { p.parameters[0].sha256 = "../../etc/passwd"; }},
      {"segment 0 of 64 bytes at 1", [](Program& p) { p.parameters[0].offset = 1; }},
      {"level 8, expected less than 8",
       [](Program& p) { change(p, [](auto& c) { c[2].operands[0].terms[0].level = 8; }); }},
      {"period 0", [](Program& p) { change(p, [](auto& c) { c[2].operands[0].terms[0].period = 0; }); }},
      {"operand 1 of superstep 0 is in memory 2",
       [](Program& p) { change(p, [](auto& c) { c[0].operands[1].memory = 2; }); }},
      {"has 61441 terms at 0 of 0", [](Program& p) { operand_word(p, 0, 0)[1] |= uint64_t{0xf001} << 48; }},
      {"has 0 terms at 3 of 0", [](Program& p) { operand_word(p, 0, 0)[1] |= uint64_t{3} << 32; }},
      {"words, expected a multiple of 8", [](Program& p) { p.commands.pop_back(); }},
      {"at block 0 has 3 of its tile's 2 blocks", [](Program& p) { header(p, 0)[0] += uint64_t{1} << 32; }},
      {"at block 0 has 1 of its tile's 2 blocks, and needs 11 words",
       [](Program& p) { header(p, 0)[0] -= uint64_t{1} << 32; }},
      {"at block 0 has 0 of", [](Program& p) { header(p, 0)[0] &= 0xffffffffu; }},
      {"and needs 65545 words", [](Program& p) { header(p, 0)[1] |= 0xffff; }},
      {"and needs 4294", [](Program& p) { header(p, 0)[1] |= uint64_t{0xffffffff} << 16; }},
      {"superstep 1 runs entry point 2 of 2", [](Program& p) { p.supersteps[1].entry = 2; }},
      {"superstep 1 has its tiles' commands at 4 of 6", [](Program& p) { p.supersteps[1].tile_begin = 4; }},
      {"do not follow each other", [](Program& p) { p.tile_begin[1] = 4; }},
      {"do not follow each other", [](Program& p) { p.tile_begin[5] = 6; }},
      {"runs superstep 2 of 2", [](Program& p) { p.control[0].superstep = 2; }},
      {"level 1 at depth 0", [](Program& p) { p.control[1].level = 1; }},
      {"level 0 at depth 1", [](Program& p) { p.control[3].level = 0; }},
      {"ends a loop of level 0 at depth 2", [](Program& p) { p.control[5].level = 0; }},
      {"ends a loop of level 0 at depth 0", [](Program& p) { p.control.push_back({Kind::repeat_end, 0, 0, 0}); }},
      {"1 loops do not end", [](Program& p) { p.control.pop_back(); }},
      {"loop of 0 iterations", [](Program& p) { p.control[1].count = 0; }},
      {"executes more than", [](Program& p) { p.control[1].count = ~uint64_t{0}; }},
      {"executes more than", [](Program& p) { p.control[1].count = p.control[3].count = uint64_t{1} << 32; }},
      // 20 + 40 * 2 = 100 is the arena's end; one byte more, or one iteration more, is outside.
      {"operand 0 of superstep 1 leaves memory 0 of 100 bytes", [](Program& p) { operand_word(p, 2, 0)[0] = 21; }},
      {"operand 0 of superstep 1 leaves memory 0 of 100 bytes", [](Program& p) { p.control[1].count = 4; }},
      // 80 - 80 * 1 = 0 is the arena's begin.
      {"operand 1 of superstep 1 leaves memory 0 of 100 bytes", [](Program& p) { operand_word(p, 2, 1)[0] = 79; }},
      {"operand 1 of superstep 1 leaves memory 0 of 100 bytes",
       [](Program& p) { change(p, [](auto& c) { c[2].operands[1].terms[0].period = 3; }); }},
      {"operand 1 of superstep 0 leaves memory 1 of 64 bytes", [](Program& p) { operand_word(p, 0, 1)[0] = 65; }},
      {"leaves memory 0",
       [](Program& p) {
         change(p, [](auto& c) { c[2].operands[0].terms[0].stride = std::numeric_limits<int64_t>::max(); });
       }},
      {"leaves memory 0",
       [](Program& p) {
         change(p, [](auto& c) { c[2].operands[0].terms[0].stride = std::numeric_limits<int64_t>::min(); });
       }},
      {"leaves memory 0", [](Program& p) { operand_word(p, 0, 0)[0] = ~uint64_t{0}; }},
      // Superstep 1 is also run where there is one loop only.
      {"depends on loop level 1, but superstep 1 is inside 1 loops",
       [](Program& p) { change(p, [](auto& c) { c[2].operands[1].terms[0].level = 1; }); }},
      {"nests more than 8 loops",
       [](Program& p) {
         p.control.clear();
         for (uint32_t level = 0; level < 9; ++level) p.control.push_back({Kind::repeat_begin, 0, level, 1});
         for (uint32_t level = 9; level > 0; --level) p.control.push_back({Kind::repeat_end, 0, level - 1, 0});
       }},
  };
  ASSERT_TRUE(verify(sample(), "test"));
  for (size_t i = 0; i < cases.size(); ++i) {
    Program program = sample();
    cases[i].change(program);
    const auto parsed = parse_program(bytes_of(serialize(program)), "test");
    ASSERT_FALSE(parsed) << i << ": " << cases[i].message;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
    EXPECT_THAT(parsed.error().message, HasSubstr(cases[i].message)) << i;
    EXPECT_THAT(parsed.error().message, testing::StartsWith("test: "));
  }
}

TEST(Program, EightLoopsAreFine) {
  Program program = sample();
  program.control.clear();
  for (uint32_t level = 0; level < 8; ++level) program.control.push_back({Kind::repeat_begin, 0, level, 2});
  program.control.push_back({Kind::superstep, 1, 0, 0});
  for (uint32_t level = 8; level > 0; --level) program.control.push_back({Kind::repeat_end, 0, level - 1, 0});
  const auto verified = verify(program, "test");
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(executed_supersteps(program), 256u);
}

// Operands' terms and supersteps' commands may overlap, which a hostile file uses to ask for quadratic work.
TEST(Program, OverlappingRangesAreBounded) {
  Program program = sample();
  program.commands.clear();
  std::vector<CommandOperand> operands(20000);
  operands[0].terms.assign(20000, {0, 0, 1});
  append_command(program.commands, 0, {}, operands);
  for (size_t i = 0; i < operands.size(); ++i) program.commands[abi::operand_word(0, 0, i) + 1] = uint64_t{20000} << 48;
  program.tile_begin = {0, 0, static_cast<uint32_t>(program.commands.size() / abi::block_words)};
  program.supersteps.assign(2, {0, 0});
  program.control.erase(program.control.begin());  // superstep 0, which is not inside a loop
  const auto parsed = parse_program(bytes_of(serialize(program)), "test");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, HasSubstr("more than 134217728 tiles"));
}

TEST(Program, TruncationIsRefused) {
  const std::string bytes = serialize(sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(parse_program(bytes_of(std::string_view(bytes).substr(0, size)), "test")) << size;
  }
  EXPECT_FALSE(parse_program(bytes_of(bytes + '\0'), "test"));
}

// Damage is refused or is another valid program, which has just these bytes.
TEST(Program, FlippedBits) {
  const std::string bytes = serialize(sample());
  size_t accepted = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int mask : {1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto parsed = parse_program(bytes_of(damaged), "test");
      if (!parsed) continue;
      ++accepted;
      ASSERT_EQ(serialize(*parsed), damaged) << "byte " << i << " ^ " << mask;
    }
  }
  EXPECT_GT(accepted, 100u);  // names and numbers at least
}

// Every aligned field set to an extreme value.
TEST(Program, ExtremeFields) {
  const std::string bytes = serialize(sample());
  for (size_t i = 0; i + 4 <= bytes.size(); ++i) {
    for (const std::string_view value :
         {std::string_view("\xff\xff\xff\xff", 4), std::string_view("\xff\xff\xff\x7f", 4),
          std::string_view("\0\0\0\x80", 4), std::string_view("\0\0\0\0", 4)}) {
      std::string damaged = bytes;
      damaged.replace(i, 4, value);
      const auto parsed = parse_program(bytes_of(damaged), "test");
      if (parsed) {
        ASSERT_EQ(serialize(*parsed), damaged) << i;
      }
    }
  }
}

}  // namespace
}  // namespace low
