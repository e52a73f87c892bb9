// Whole programs' gfx942 code on an emulator, against the reference.
#include <cstdlib>

#include "hwtests/emulator/emulator_device.h"
#include "hwtests/gpu/workload_check.h"

namespace low {
namespace {

class EmulatedWorkloads : public ::testing::TestWithParam<std::string> {};

TEST_P(EmulatedWorkloads, AgreeWithTheReference) {
  const char* const checkout = std::getenv("LOW_TINYGRAD");
  if (checkout == nullptr || *checkout == '\0')
    GTEST_SKIP() << "LOW_TINYGRAD names no source checkout of tinygrad, whose emulator runs the code";
  emulator::EmulatorDevice device(checkout, LOW_BINARY_DIR "/emulator-cache");
  hwtests::workload_agrees(GetParam(), device);
  const emulator::Counts& counts = device.counts();
  std::printf("%s: %llu launches, %llu wave instructions, %llu of them matrix instructions\n", GetParam().c_str(),
              static_cast<unsigned long long>(counts.launches),
              static_cast<unsigned long long>(counts.wave_instructions),
              static_cast<unsigned long long>(counts.matrix_instructions));
}
INSTANTIATE_TEST_SUITE_P(Tiny, EmulatedWorkloads,
                         ::testing::Values("tiny-mlp-b1", "tiny-mlp-b2-repeat3", "tiny-mlp-row1", "tiny-mlp-f32",
                                           "tiny-mlp-i8", "tiny-flash-attention-b1", "tiny-flash-attention-f32",
                                           "tiny-materialized-attention-b1", "tiny-materialized-attention-f32"));

}  // namespace
}  // namespace low
