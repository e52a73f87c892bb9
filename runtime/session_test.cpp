#include "runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/backends.h"
#include "runtime/host/fixture.h"

namespace low {
namespace {

using fixture::Words;
using testing::HasSubstr;

constexpr uint32_t tiles = 3;

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    auto device = open_device("host", {2});
    if (!device) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
  }

  static std::shared_ptr<const Package> package(const Program& program = fixture::program(tiles),
                                                const std::vector<std::string>& targets = {"host-x86-64-v3"}) {
    auto result =
        Package::from_bytes(fixture::package_bytes(program, fixture::file_bytes(LOW_FIXTURE_2), targets), "test");
    EXPECT_TRUE(result) << result.error().message;
    return *result;
  }

  std::shared_ptr<const LoadedProgram> loaded() {
    auto result = LoadedProgram::load(*device_, package());
    EXPECT_TRUE(result) << result.error().message;
    return *result;
  }

  static Tensor input(int32_t seed) {
    Tensor tensor(DType::i32, Shape{tiles, fixture::width});
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<int32_t>()[i] = seed + static_cast<int32_t>(i);
    return tensor;
  }
  static Words words(const Tensor& tensor) {
    return {tensor.data<int32_t>(), tensor.data<int32_t>() + tensor.elements()};
  }

  std::unique_ptr<Device> device_;
};

TEST_F(SessionTest, Runs) {
  const auto program = loaded();
  EXPECT_EQ(program->target(), "host-x86-64-v3");
  auto session = Session::create(program);
  ASSERT_TRUE(session);
  for (int32_t seed = 0; seed < 3; ++seed) {
    ASSERT_TRUE(session->poison(std::byte{0xee}));
    const std::vector<Tensor> inputs = {input(seed)};
    const auto outputs = session->run(inputs);
    ASSERT_TRUE(outputs) << outputs.error().message;
    ASSERT_EQ(outputs->size(), 1u);
    EXPECT_EQ((*outputs)[0].shape(), (Shape{tiles, fixture::width}));
    EXPECT_EQ((*outputs)[0].dtype(), DType::i32);
    EXPECT_EQ(words((*outputs)[0]), fixture::expected(words(inputs[0]), tiles, 2));
  }
}

TEST_F(SessionTest, Samples) {
  auto session = Session::create(loaded());
  ASSERT_TRUE(session);
  ASSERT_TRUE(session->bind(std::vector<Tensor>{input(1)}));
  std::vector<abi::Sample> samples(fixture::executed * tiles);
  ASSERT_TRUE(session->launch(samples));
  for (const abi::Sample& sample : samples) {
    EXPECT_GT(sample.begin, 0u);
    EXPECT_GE(sample.end, sample.begin);
  }
}

TEST_F(SessionTest, TwoSessionsAtOnce) {
  const auto program = loaded();
  std::vector<std::thread> threads;
  for (int32_t caller = 0; caller < 2; ++caller) {
    threads.emplace_back([&program, caller] {
      auto session = Session::create(program);
      ASSERT_TRUE(session);
      for (int32_t round = 0; round < 100; ++round) {
        const std::vector<Tensor> inputs = {input(1000 * caller + round)};
        const auto outputs = session->run(inputs);
        ASSERT_TRUE(outputs);
        ASSERT_EQ(words((*outputs)[0]), fixture::expected(words(inputs[0]), tiles, 2)) << round;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SessionTest, WrongInputs) {
  auto session = Session::create(loaded());
  ASSERT_TRUE(session);
  const auto message = [&](const std::vector<Tensor>& inputs) {
    const auto outputs = session->run(inputs);
    EXPECT_FALSE(outputs);
    if (outputs) return std::string();
    EXPECT_EQ(outputs.error().kind, ErrorKind::usage);
    return outputs.error().message;
  };
  EXPECT_EQ(message({}), "there are 0 inputs, expected 1");
  EXPECT_EQ(message({input(0), input(0)}), "there are 2 inputs, expected 1");
  EXPECT_EQ(message({Tensor(DType::f32, Shape{tiles, 5})}), "input 'x' is f32[3,5], expected i32[3,5]");
  EXPECT_EQ(message({Tensor(DType::i32, Shape{5, tiles})}), "input 'x' is i32[5,3], expected i32[3,5]");
  EXPECT_EQ(message({Tensor(DType::i32, Shape{15})}), "input 'x' is i32[15], expected i32[3,5]");
  EXPECT_EQ(message({Tensor()}), "input 'x' is an empty placeholder of f32[], expected i32[3,5]");
}

TEST_F(SessionTest, TakesTheBestTarget) {
  const auto best = LoadedProgram::load(
      *device_, package(fixture::program(tiles), {"host-x86-64-v3", "host-x86-64-v4", "host-x86-64-v4-bf16"}));
  ASSERT_TRUE(best);
  EXPECT_EQ((*best)->target(), device_->info().targets.front());
}

TEST_F(SessionTest, NoTargetInCommon) {
  const auto foreign = LoadedProgram::load(*device_, package(fixture::program(tiles), {"gfx942", "gfx1100"}));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(foreign.error().message, HasSubstr("gfx1100, gfx942"));
  EXPECT_THAT(foreign.error().message, HasSubstr("host-x86-64-v3"));
}

TEST_F(SessionTest, APackageThatIsCutOffBeforeItIsLoaded) {
  const std::string path = testing::TempDir() + "session_test_cut.low";
  const std::string bytes = fixture::package_bytes(fixture::program(tiles), fixture::file_bytes(LOW_FIXTURE_2));
  // Nothing, the parameters, and the code are gone, in the order of their names.
  for (const size_t kept : {size_t{0}, bytes.find("parameters/"), bytes.find("variants/host/kernels/")}) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto opened = Package::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    std::filesystem::resize_file(path, kept);
    const auto cut = LoadedProgram::load(*device_, *opened);
    ASSERT_FALSE(cut) << kept;
    EXPECT_EQ(cut.error().kind, ErrorKind::invalid);
    EXPECT_THAT(cut.error().message, HasSubstr("session_test_cut.low: was cut off while it was read"));
  }
}

TEST_F(SessionTest, HostilePrograms) {
  Program parameters = fixture::program(tiles);
  parameters.parameter_bytes = uint64_t{1} << 60;
  const auto huge_parameters = LoadedProgram::load(*device_, package(parameters));
  ASSERT_FALSE(huge_parameters);
  EXPECT_EQ(huge_parameters.error().kind, ErrorKind::device);
  EXPECT_THAT(huge_parameters.error().message, HasSubstr("cannot allocate 1152921504606846976 bytes"));

  Program arena = fixture::program(tiles);
  arena.arena_bytes = uint64_t{1} << 60;
  const auto huge_arena = LoadedProgram::load(*device_, package(arena));
  ASSERT_TRUE(huge_arena) << huge_arena.error().message;
  const auto session = Session::create(*huge_arena);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().kind, ErrorKind::device);

  Program missing = fixture::program(tiles);
  missing.parameters[0].sha256 = std::string(64, '0');
  EXPECT_THAT(LoadedProgram::load(*device_, package(missing)).error().message, HasSubstr("no entry 'parameters/0000"));
  Program cut = fixture::program(tiles);
  cut.parameters[0].bytes -= 4;
  EXPECT_THAT(LoadedProgram::load(*device_, package(cut)).error().message,
              HasSubstr("300 bytes, but the program expects 296"));
}

}  // namespace
}  // namespace low
