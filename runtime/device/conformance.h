// For tests: what every backend's Device has to do. Call each function from a test of the backend.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace low::conformance {

// allocate, copy and fill, with their limits.
inline void check_memory(Device& device) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{4097}, uint64_t{3} << 20}) {
    auto buffer = device.allocate(bytes);
    ASSERT_TRUE(buffer) << buffer.error().message;
    EXPECT_EQ((*buffer)->bytes(), bytes);
    ASSERT_TRUE(device.fill(**buffer, std::byte{0xa5}));
    std::vector<std::byte> seen(bytes);
    ASSERT_TRUE(device.copy_from_device(seen, **buffer, 0));
    EXPECT_EQ(std::count(seen.begin(), seen.end(), std::byte{0xa5}), static_cast<std::ptrdiff_t>(bytes));

    // The last third changes, the rest does not.
    const uint64_t offset = bytes - bytes / 3;
    std::vector<std::byte> part(bytes / 3);
    for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<std::byte>(i % 131);
    ASSERT_TRUE(device.copy_to_device(**buffer, offset, part));
    ASSERT_TRUE(device.copy_from_device(seen, **buffer, 0));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), seen.begin() + static_cast<std::ptrdiff_t>(offset)));
    EXPECT_EQ(std::count(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(offset), std::byte{0xa5}),
              static_cast<std::ptrdiff_t>(offset));

    // One byte too many, and an offset that would wrap around.
    std::vector<std::byte> more(bytes / 3 + 1);
    EXPECT_FALSE(device.copy_to_device(**buffer, offset, more));
    EXPECT_FALSE(device.copy_from_device(more, **buffer, offset));
    EXPECT_FALSE(device.copy_to_device(**buffer, ~uint64_t{0}, std::vector<std::byte>(1)));
    EXPECT_TRUE(device.copy_to_device(**buffer, bytes, {}));
  }
  for (const int shift : {50, 60, 63}) {
    const auto buffer = device.allocate(uint64_t{1} << shift);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().kind, ErrorKind::device);
  }
}

// Loads variant 0, target `target` of the package twice, and runs each with its own arena: the bytes of `input` at 0
// give those of `output` at `output_offset`, whatever the arena held, with samples and without; too small buffers are
// refused.
inline void check_run(Device& device, const std::shared_ptr<const Package>& package, const TargetInfo& target,
                      std::span<const std::byte> input, std::span<const std::byte> output, uint64_t output_offset) {
  const VariantInfo& variant = package->manifest().variants.at(0);
  auto parsed = package->program(variant);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto program = std::make_shared<const Program>(*parsed);
  auto parameters = device.allocate(program->parameter_bytes);
  ASSERT_TRUE(parameters);
  for (const ParameterSegment& segment : program->parameters) {
    const auto bytes = package->entry("parameters/" + segment.sha256);
    ASSERT_TRUE(bytes);
    ASSERT_TRUE(device.copy_to_device(**parameters, segment.offset, *bytes));
  }
  std::vector<std::shared_ptr<const Executable>> executables;
  for (int i = 0; i < 2; ++i) {
    auto executable = device.load(package, variant, target, program);
    ASSERT_TRUE(executable) << executable.error().message;
    executables.push_back(*executable);
  }
  std::vector<abi::Sample> samples(executed_supersteps(*program) * program->tiles);
  for (const auto& executable : executables) {
    auto arena = device.allocate(program->arena_bytes);
    ASSERT_TRUE(arena);
    for (const bool sampled : {false, true}) {
      ASSERT_TRUE(device.fill(**arena, std::byte{0xcc}));
      ASSERT_TRUE(device.copy_to_device(**arena, 0, input));
      const std::span<abi::Sample> all = samples;
      const auto ran = device.run(*executable, {arena->get(), parameters->get(), sampled ? all : all.first(0)});
      ASSERT_TRUE(ran) << ran.error().message;
      std::vector<std::byte> seen(output.size());
      ASSERT_TRUE(device.copy_from_device(seen, **arena, output_offset));
      EXPECT_TRUE(std::equal(seen.begin(), seen.end(), output.begin(), output.end()));
    }
    // Every tile of every superstep; the next superstep begins after all of this one ended.
    for (size_t begin = 0; begin < samples.size(); begin += program->tiles) {
      uint64_t last_end = 0;
      for (size_t i = begin; i < begin + program->tiles; ++i) {
        EXPECT_GT(samples[i].begin, 0u);
        EXPECT_GE(samples[i].end, samples[i].begin);
        last_end = std::max(last_end, samples[i].end);
      }
      for (size_t i = begin + program->tiles; i < std::min(begin + 2 * program->tiles, samples.size()); ++i) {
        EXPECT_GE(samples[i].begin, last_end);
      }
    }
    EXPECT_FALSE(
        device.run(*executable, {arena->get(), parameters->get(), std::span(samples).first(samples.size() - 1)}));
    const auto small = device.allocate(program->arena_bytes - 1);
    ASSERT_TRUE(small);
    EXPECT_FALSE(device.run(*executable, {small->get(), parameters->get(), {}}));
    EXPECT_FALSE(device.run(*executable, {nullptr, parameters->get(), {}}));
    EXPECT_FALSE(device.run(*executable, {arena->get(), nullptr, {}}));
  }
}

}  // namespace low::conformance
