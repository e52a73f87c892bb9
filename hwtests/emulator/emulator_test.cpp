// Whole programs' gfx942 code on an emulator, against the reference.
#include <cstdlib>
#include <optional>

#include "hwtests/emulator/emulator_device.h"
#include "hwtests/gpu/workload_check.h"

namespace low {
namespace {

// The emulator, and what it ran, printed at the end.
class Emulated : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const checkout = std::getenv("LOW_TINYGRAD");
    if (checkout == nullptr || *checkout == '\0')
      GTEST_SKIP() << "LOW_TINYGRAD names no source checkout of tinygrad, whose emulator runs the code";
    device.emplace(checkout, LOW_BINARY_DIR "/emulator-cache");
  }
  void TearDown() override {
    if (!device) return;
    const emulator::Counts& counts = device->counts();
    std::printf("%llu launches, %llu wave instructions, %llu of them matrix instructions\n",
                static_cast<unsigned long long>(counts.launches),
                static_cast<unsigned long long>(counts.wave_instructions),
                static_cast<unsigned long long>(counts.matrix_instructions));
  }
  std::optional<emulator::EmulatorDevice> device;
};

class EmulatedWorkloads : public Emulated, public ::testing::WithParamInterface<std::string> {};

TEST_P(EmulatedWorkloads, AgreeWithTheReference) {
  hwtests::workload_agrees(GetParam(), *device, GetParam().starts_with("tiny-materialized"));
}
INSTANTIATE_TEST_SUITE_P(Tiny, EmulatedWorkloads,
                         ::testing::Values("tiny-mlp-b1", "tiny-mlp-b2-repeat3", "tiny-mlp-row1", "tiny-mlp-f32",
                                           "tiny-mlp-i8", "tiny-flash-attention-b1", "tiny-flash-attention-f32",
                                           "tiny-materialized-attention-b1", "tiny-materialized-attention-f32"));

TEST_F(Emulated, SplitSums) { hwtests::split_sums_agree(*device); }

TEST_F(Emulated, AllCodesOfFp8) { hwtests::fp8_codes_agree(*device); }

class EmulatedRandomGraphs : public Emulated, public ::testing::WithParamInterface<uint64_t> {};

TEST_P(EmulatedRandomGraphs, AgreeWithTheReference) { hwtests::random_graph_agrees(GetParam(), *device); }
INSTANTIATE_TEST_SUITE_P(Seeds, EmulatedRandomGraphs, ::testing::Range<uint64_t>(1000, 1012));

}  // namespace
}  // namespace low
