#include "runtime/host/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/device/conformance.h"
#include "runtime/host/code.h"
#include "runtime/host/fixture.h"
#include "runtime/host/memory.h"

namespace low {
namespace {

using fixture::Words;
using testing::HasSubstr;

std::unique_ptr<Device> open(int threads) {
  auto device = open_host_device({threads});
  EXPECT_TRUE(device);
  return std::move(*device);
}

bool can_run() { return !host_targets().empty(); }

std::shared_ptr<const Package> package_of(uint32_t tiles, int factor) {
  const std::string code = fixture::file_bytes(factor == 2 ? LOW_FIXTURE_2 : LOW_FIXTURE_3);
  EXPECT_FALSE(code.empty());
  auto package = Package::from_bytes(fixture::package_bytes(fixture::program(tiles), code), "test");
  EXPECT_TRUE(package) << package.error().message;
  return *package;
}

Words input_words(uint32_t tiles, int32_t seed) {
  Words words;
  for (uint32_t i = 0; i < tiles * fixture::width; ++i) words.push_back(seed + static_cast<int32_t>(i * i));
  return words;
}

TEST(HostDevice, Memory) {
  const auto device = open(1);
  conformance::check_memory(*device);
}

TEST(HostMemory, IsAlignedAndZero) {
  for (const uint64_t bytes : {0, 1, 100, 5000}) {
    const auto memory = HostMemory::map(bytes);
    ASSERT_TRUE(memory);
    ASSERT_NE(memory->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0u);
    for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(memory->data()[i], 0);
  }
}

TEST(HostDevice, Info) {
  const auto device = open(3);
  EXPECT_EQ(device->info().name, "host");
  EXPECT_THAT(device->info().description, HasSubstr("3 threads"));
  // A processor has all targets behind the first that it has.
  const std::vector<std::string> all = {"host-x86-64-v4-bf16", "host-x86-64-v4", "host-x86-64-v3"};
  const std::vector<std::string>& known = device->info().targets;
  ASSERT_LE(known.size(), all.size());
  EXPECT_TRUE(std::ranges::equal(known, std::span(all).last(known.size())));
  EXPECT_EQ(open_host_device({-1}).error().kind, ErrorKind::usage);
  EXPECT_EQ(open_host_device({100000}).error().kind, ErrorKind::usage);
}

TEST(HostDevice, RunsForAnyTilesAndThreads) {
  if (!can_run()) GTEST_SKIP() << "the processor is below x86-64-v3";
  for (const int threads : {1, 2, 3, 7}) {
    const auto device = open(threads);
    for (const uint32_t tiles : {1u, 2u, 16u, 97u}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << tiles << " tiles");
      const auto package = package_of(tiles, 2);
      const Words x = input_words(tiles, 5);
      const Words y = fixture::expected(x, tiles, 2);
      const uint64_t slab = tiles * fixture::width * 4;
      conformance::check_run(*device, package, package->manifest().variants[0].targets[0], std::as_bytes(std::span(x)),
                             std::as_bytes(std::span(y)), 2 * slab);
    }
  }
}

// Loaded code with its memories, run many times.
struct Loaded {
  std::unique_ptr<Buffer> arena, parameters;
  std::shared_ptr<const Executable> executable;
  uint32_t tiles;

  static Loaded load(Device& device, uint32_t tiles, int factor) {
    const auto package = package_of(tiles, factor);
    const VariantInfo& variant = package->manifest().variants[0];
    auto program = package->program(variant);
    EXPECT_TRUE(program);
    const auto shared = std::make_shared<const Program>(*program);
    Loaded loaded;
    loaded.tiles = tiles;
    loaded.arena = *device.allocate(program->arena_bytes);
    loaded.parameters = *device.allocate(program->parameter_bytes);
    const Words words = fixture::parameter_words(tiles);
    EXPECT_TRUE(device.copy_to_device(*loaded.parameters, 0, std::as_bytes(std::span(words))));
    auto executable = device.load(package, variant, variant.targets[0], shared);
    EXPECT_TRUE(executable) << executable.error().message;
    loaded.executable = *executable;
    return loaded;
  }

  Words run(Device& device, const Words& x) const {
    Words y(x.size());
    EXPECT_TRUE(device.copy_to_device(*arena, 0, std::as_bytes(std::span(x))));
    EXPECT_TRUE(device.run(*executable, {arena.get(), parameters.get(), {}}));
    EXPECT_TRUE(device.copy_from_device(std::as_writable_bytes(std::span(y)), *arena, 2 * x.size() * 4));
    return y;
  }
};

TEST(HostDevice, ThreadsRunTwoProgramsAtOnce) {
  if (!can_run()) GTEST_SKIP() << "the processor is below x86-64-v3";
  const auto device = open(2);
  std::vector<std::thread> callers;
  for (const int factor : {2, 3}) {
    callers.emplace_back([&device, factor] {
      const uint32_t tiles = factor == 2 ? 16 : 7;
      const Loaded loaded = Loaded::load(*device, tiles, factor);
      for (int32_t seed = 0; seed < 200; ++seed) {
        const Words x = input_words(tiles, seed);
        ASSERT_EQ(loaded.run(*device, x), fixture::expected(x, tiles, factor)) << "seed " << seed;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// A closed descriptor's number is used again at once: code must not come from the library that had it before.
TEST(HostDevice, UnloadedCodeIsNotFoundAgain) {
  if (!can_run()) GTEST_SKIP() << "the processor is below x86-64-v3";
  const auto device = open(1);
  const Words x = input_words(3, 1);
  for (int round = 0; round < 6; ++round) {
    const int factor = 2 + round % 2;
    EXPECT_EQ(Loaded::load(*device, 3, factor).run(*device, x), fixture::expected(x, 3, factor));
  }
  // And both at once.
  const Loaded two = Loaded::load(*device, 3, 2);
  const Loaded three = Loaded::load(*device, 3, 3);
  EXPECT_EQ(two.run(*device, x), fixture::expected(x, 3, 2));
  EXPECT_EQ(three.run(*device, x), fixture::expected(x, 3, 3));
}

TEST(HostDevice, ThreadsLoadAndUnload) {
  if (!can_run()) GTEST_SKIP() << "the processor is below x86-64-v3";
  const auto device = open(1);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&device, caller] {
      const Words x = input_words(2, caller);
      for (int round = 0; round < 10; ++round) {
        const int factor = 2 + (round + caller) % 2;
        ASSERT_EQ(Loaded::load(*device, 2, factor).run(*device, x), fixture::expected(x, 2, factor));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(HostCode, ABaseStandsInForMissingEntries) {
  const auto bytes = [](const char* path) {
    const std::string text = fixture::file_bytes(path);
    const auto span = std::as_bytes(std::span(text));
    return std::vector<std::byte>(span.begin(), span.end());
  };
  const auto alone = HostCode::load(bytes(LOW_FIXTURE_5), 2, "test");
  ASSERT_FALSE(alone);
  EXPECT_THAT(alone.error().message, HasSubstr("has no low_entry_1"));
  auto base = HostCode::load(bytes(LOW_FIXTURE_2), 2, "test");
  ASSERT_TRUE(base) << base.error().message;
  const abi::HostEntry entries[] = {base->entry(0), base->entry(1)};
  const auto both = HostCode::load(bytes(LOW_FIXTURE_5), 2, "test", std::make_unique<HostCode>(std::move(*base)));
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_NE(both->entry(0), entries[0]);
  EXPECT_EQ(both->entry(1), entries[1]);
}

TEST(HostDevice, RefusesBadCode) {
  if (!can_run()) GTEST_SKIP() << "the processor is below x86-64-v3";
  const auto device = open(1);
  const std::string code = fixture::file_bytes(LOW_FIXTURE_2);
  const auto load = [&](const std::string& object, uint32_t entries, const std::string& target, uint64_t scratch) {
    Program program = fixture::program(2);
    program.entries = entries;
    auto package = Package::from_bytes(fixture::package_bytes(program, object, {target}), "test");
    EXPECT_TRUE(package) << package.error().message;
    const VariantInfo& variant = (*package)->manifest().variants[0];
    TargetInfo info = variant.targets[0];
    info.scratch_bytes = scratch;
    return device->load(*package, variant, info, std::make_shared<const Program>(program));
  };
  ASSERT_TRUE(load(code, 2, "host-x86-64-v3", 0));
  const auto missing = load(code, 3, "host-x86-64-v3", 0);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::invalid);
  EXPECT_THAT(missing.error().message, HasSubstr("has no low_entry_2"));
  const auto foreign = load(code, 2, "gfx942", 0);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().kind, ErrorKind::unsupported);
  const auto huge = load(code, 2, "host-x86-64-v3", uint64_t{1} << 60);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().kind, ErrorKind::device);
  ASSERT_TRUE(load(code, 2, "host-x86-64-v3", 0));  // the refusal left the scratch usable
  for (const std::string& object :
       {std::string(), std::string("not code"), code.substr(0, 100), code.substr(0, code.size() / 4)}) {
    const auto bad = load(object, 2, "host-x86-64-v3", 0);
    ASSERT_FALSE(bad) << object.size();
    EXPECT_EQ(bad.error().kind, ErrorKind::invalid);
  }
}

}  // namespace
}  // namespace low
