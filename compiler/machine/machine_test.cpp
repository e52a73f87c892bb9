#include "compiler/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/machine/machine_files.h"

namespace low {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The text of host.json with one replacement, to make one thing wrong at a time.
std::string machine_with(std::string_view name, std::string_view from, std::string_view to) {
  const auto names = machine_file_names();
  const auto index = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  std::string text(machine_file_texts()[index]);
  const size_t position = text.find(from);
  EXPECT_NE(position, std::string::npos) << from;
  if (position != std::string::npos) text.replace(position, from.size(), to);
  return text;
}
std::string host_with(std::string_view from, std::string_view to) { return machine_with("host", from, to); }

TEST(Machine, NamesAreSortedAndAllParse) {
  EXPECT_THAT(machine_names(), ElementsAre("host", "ipu21", "mi250x-gcd", "mi300x", "mi355x", "rx7900xtx", "rx9070xt"));
  for (const std::string_view name : machine_names()) {
    const Result<Machine> machine = find_machine(name);
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->name, name);
    EXPECT_GT(matmul_rate(*machine, DType::f32, DType::f32).flop_per_cycle, 0);
    EXPECT_GT(matmul_rate(*machine, DType::f64, DType::i8).flop_per_cycle, 0);
  }
}

TEST(Machine, UnitsAreConverted) {
  const Machine host = *find_machine("host");
  EXPECT_EQ(host.tiles, 16u);
  // 25e9 B/s / 2.6e9 Hz = 9.615… bytes a cycle; 2 us * 2.6 GHz = 5200 cycles.
  EXPECT_DOUBLE_EQ(host.across_bytes_per_cycle, 25.0 / 2.6);
  EXPECT_NEAR(host.launch_cycles, 5200, 1e-6);
  const Machine mi300x = *find_machine("mi300x");
  // 5300e9 / 2.1e9 = 2523.8 bytes a cycle; 4 us * 2.1 GHz = 8400 cycles.
  EXPECT_NEAR(mi300x.device_bytes_per_cycle, 2523.8, 0.1);
  EXPECT_NEAR(mi300x.launch_cycles, 8400, 1e-6);
  EXPECT_EQ(mi300x.cluster_of(37), 0u);
  EXPECT_EQ(mi300x.cluster_of(38), 1u);
  EXPECT_EQ(mi300x.cluster_of(303), 7u);
}

TEST(Machine, MatmulRates) {
  struct Case {
    std::string_view machine;
    DType a, b;
    double rate;
    DType math_a, math_b;
  };
  const Case cases[] = {
      {"host", DType::f32, DType::f32, 64, DType::f32, DType::f32},
      {"host", DType::f8e4m3fn, DType::f8e4m3fn, 128, DType::bf16, DType::bf16},
      {"host", DType::bf16, DType::f8e5m2fnuz, 128, DType::bf16, DType::bf16},
      {"host", DType::f32, DType::f8e4m3fn, 64, DType::f32, DType::f32},
      {"host", DType::bf16, DType::f16, 64, DType::f32, DType::f32},
      {"host", DType::f64, DType::f32, 32, DType::f64, DType::f64},
      {"host", DType::i8, DType::u8, 256, DType::i8, DType::u8},
      {"host", DType::i16, DType::u8, 16, DType::i32, DType::i32},
      {"host", DType::i64, DType::i64, 8, DType::i64, DType::i64},
      {"mi300x", DType::f8e4m3fn, DType::f8e4m3fn, 2048, DType::bf16, DType::bf16},
      {"mi300x", DType::f8e5m2fnuz, DType::f8e4m3fnuz, 4096, DType::f8e5m2fnuz, DType::f8e4m3fnuz},
      {"mi300x", DType::f8e5m2, DType::f8e5m2, 2048, DType::bf16, DType::bf16},
      {"mi300x", DType::f8e4m3fn, DType::f8e5m2, 2048, DType::bf16, DType::bf16},
      {"mi300x", DType::f8e5m2, DType::f16, 2048, DType::f16, DType::f16},
      {"mi300x", DType::f8e5m2, DType::f32, 256, DType::f32, DType::f32},
      {"mi355x", DType::f8e4m3fn, DType::f8e5m2, 8192, DType::f8e4m3fn, DType::f8e5m2},
      {"mi250x-gcd", DType::f8e4m3fn, DType::f8e4m3fn, 1024, DType::bf16, DType::bf16},
      {"rx7900xtx", DType::f16, DType::bf16, 128, DType::f32, DType::f32},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.machine) + " " + std::string(name(c.a)) + " " + std::string(name(c.b)));
    const MathRate rate = matmul_rate(*find_machine(c.machine), c.a, c.b);
    EXPECT_EQ(rate.flop_per_cycle, c.rate);
    EXPECT_EQ(rate.a, c.math_a);
    EXPECT_EQ(rate.b, c.math_b);
  }
}

// What an operand is converted to holds all its values, whatever the other one is.
TEST(Machine, MatmulKeepsEveryFloat) {
  const DType types[] = {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz,
                         DType::bf16,     DType::f16,    DType::f32};
  const auto keeps = [](DType type, DType math) {
    if (byte_size(type) > 2) return byte_size(math) >= byte_size(type);
    for (uint64_t bits = 0; bits < uint64_t{1} << (8 * byte_size(type)); ++bits) {
      const double value = decode(type, bits);
      const double kept = decode(math, encode(math, value, Overflow::propagate));
      if (kept != value && !(std::isnan(kept) && std::isnan(value))) return false;
    }
    return true;
  };
  for (const std::string_view machine_name : machine_names()) {
    const auto machine = find_machine(machine_name);
    ASSERT_TRUE(machine) << machine_name;
    for (const DType a : types) {
      for (const DType b : types) {
        SCOPED_TRACE(std::string(machine_name) + " " + std::string(name(a)) + " " + std::string(name(b)));
        const MathRate rate = matmul_rate(*machine, a, b);
        EXPECT_TRUE(keeps(a, rate.a)) << name(rate.a);
        EXPECT_TRUE(keeps(b, rate.b)) << name(rate.b);
        for (const DType c : {DType::f8e5m2, DType::f8e4m3fnuz, DType::f16}) {
          const DType all[] = {a, b, c};
          const MathRate one = matmul_rate(*machine, all);
          EXPECT_EQ(one.a, one.b);
          for (const DType type : all) EXPECT_TRUE(keeps(type, one.a)) << name(type) << " in " << name(one.a);
        }
      }
    }
  }
}

TEST(Machine, Targets) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"host", "host"},        {"host-x86-64-v3", "host"}, {"host-x86-64-v4", "host"}, {"host-x86-64-v4-bf16", "host"},
      {"gfx942", "mi300x"},    {"gfx950", "mi355x"},       {"gfx90a", "mi250x-gcd"},   {"gfx1100", "rx7900xtx"},
      {"gfx1201", "rx9070xt"},
  };
  for (const auto& [target, machine] : cases) {
    ASSERT_TRUE(machine_for_target(target)) << target;
    EXPECT_EQ(machine_for_target(target)->name, machine);
  }
  for (const std::string_view target : {"", "hosts", "gfx906", "ipu21"}) {
    const Result<Machine> result = machine_for_target(target);
    ASSERT_FALSE(result) << target;
    EXPECT_EQ(result.error().kind, ErrorKind::usage);
    EXPECT_THAT(result.error().message, HasSubstr("host-x86-64-v4"));
    EXPECT_THAT(result.error().message, HasSubstr("gfx1201"));
  }
  EXPECT_EQ(find_machine("mi300").error().kind, ErrorKind::usage);
  EXPECT_THAT(find_machine("mi300").error().message, HasSubstr("mi300x"));
}

TEST(Machine, Tiles) {
  const Machine host = *find_machine("host");
  const Result<Machine> four = with_tiles(host, 4);
  ASSERT_TRUE(four);
  EXPECT_EQ(four->tiles, 4u);
  EXPECT_DOUBLE_EQ(four->device_bytes_per_cycle, host.device_bytes_per_cycle / 4);
  EXPECT_EQ(with_tiles(host, 0).error().kind, ErrorKind::usage);
  EXPECT_EQ(with_tiles(host, 65537).error().kind, ErrorKind::usage);
  const Machine mi300x = *find_machine("mi300x");
  EXPECT_TRUE(with_tiles(mi300x, 304));
  EXPECT_EQ(with_tiles(mi300x, 16).error().kind, ErrorKind::usage);
}

TEST(Machine, BadFiles) {
  struct Case {
    std::string text;
    std::string_view message;
  };
  const Case cases[] = {
      {"", "not JSON"},
      {"[1", "not JSON"},
      {"[]", "not a JSON object"},
      {"{}", "'name' is missing"},
      {std::string(100000, '['), "not JSON"},
      {host_with("\"tiles\"", "\"tile\""), "'tiles' is missing"},
      {host_with("{", "{\"cores\": 3,"), "unknown key 'cores'"},
      {host_with("\"value\": 16", "\"value\": 0"), "'tiles' is 0"},
      {host_with("\"value\": 16", "\"value\": 1.5"), "whole number"},
      {host_with("\"value\": 16", "\"value\": 1e300"), "'tiles' is 1e+300"},
      {host_with("\"value\": 16", "\"value\": \"16\""), "'value' has to be a number"},
      {host_with("\"value\": 16", "\"values\": 16"), "'value' is missing"},
      {host_with("\"value\": 16", "\"value\": 16, \"unit\": 3"), "unknown key 'unit'"},
      {host_with("\"source\": \"one shared cache\"", "\"source\": \"\""), "'source' has to be a string"},
      {host_with(", \"source\": \"one shared cache\"", ""), "'source' is missing"},
      {host_with("\"global_memory\": true", "\"global_memory\": 1"), "true or false"},
      {host_with("\"global_memory\": true", "\"global_memory\": false"), "neither global memory"},
      {host_with("\"a\": [\"f32\"]", "\"a\": [\"float\"]"), "unknown dtype 'float'"},
      {host_with("\"a\": [\"f64\"], \"b\": [\"f64\"]", "\"a\": [\"f32\"], \"b\": [\"f32\"]"),
       "two rates for f32 and f32"},
      {host_with("\"a\": [\"f32\"]", "\"a\": \"f32\""), "list of strings"},
      {host_with("\"targets\": [\"host-x86-64-v4-bf16\"", "\"targets\": [4"), "list of strings"},
      {host_with("\"value\": 64, \"source\": \"a cache line\"", "\"value\": 48, \"source\": \"x\""), "power of two"},
      {host_with("\"value\": 1, \"source\": \"one shared", "\"value\": 17, \"source\": \"x"), "17 clusters of 16"},
      {machine_with("ipu21", "\"clusters\": {\"value\": 1", "\"clusters\": {\"value\": 2"),
       "2 clusters without global memory"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const Result<Machine> result = parse_machine(c.text, "test.json");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::invalid);
    EXPECT_THAT(result.error().message, HasSubstr("test.json"));
    EXPECT_THAT(result.error().message, HasSubstr(c.message));
  }
}

// Half the width, twice the clock, an eighth of the tiles: the same bytes a second for each thread, and fixed times
// stay what they are.
TEST(Machine, OnAProcessor) {
  const Machine host = *find_machine("host");
  const Machine changed = on_processor(
      host, {.threads = 2, .f32_flop_per_cycle = 32, .bf16_flop_per_cycle = 96, .clock_hz = 2 * host.clock_hz});
  EXPECT_EQ(changed.workers, 2U);
  EXPECT_EQ(changed.tiles, host.tiles);
  EXPECT_DOUBLE_EQ(matmul_rate(changed, DType::f32, DType::f32).flop_per_cycle, 32);
  EXPECT_DOUBLE_EQ(matmul_rate(changed, DType::bf16, DType::f8e5m2).flop_per_cycle, 96);
  EXPECT_DOUBLE_EQ(matmul_rate(changed, DType::f64, DType::f64).flop_per_cycle, 16);
  EXPECT_DOUBLE_EQ(changed.vector_flop_per_cycle, host.vector_flop_per_cycle / 2);
  EXPECT_DOUBLE_EQ(changed.across_bytes_per_cycle * changed.clock_hz, host.across_bytes_per_cycle * host.clock_hz);
  EXPECT_DOUBLE_EQ(changed.device_bytes_per_cycle * changed.clock_hz,
                   host.device_bytes_per_cycle * host.clock_hz * 2 / host.tiles);
  EXPECT_DOUBLE_EQ(changed.launch_cycles / changed.clock_hz, host.launch_cycles / host.clock_hz);
  // Tiles of hardware are nobody else's.
  const Machine mi300x = *find_machine("mi300x");
  EXPECT_EQ(on_processor(mi300x, {.threads = 2}).workers, 0U);
  EXPECT_EQ(on_processor(mi300x, {.threads = 2}).clock_hz, mi300x.clock_hz);
}

}  // namespace
}  // namespace low
