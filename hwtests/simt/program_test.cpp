// Whole programs for GPUs on SIMT targets, against the reference.
#include "hwtests/gpu/workload_check.h"
#include "hwtests/simt/simt_device.h"

namespace low {
namespace {

constexpr std::string_view targets[] = {"simt-gfx90a", "simt-gfx942", "simt-gfx950", "simt-gfx1100", "simt-gfx1201"};

class SimtWorkloads : public ::testing::TestWithParam<std::string> {};

// On two of the targets: all kernels of all of them are in workload_kernels_test.
TEST_P(SimtWorkloads, AgreeWithTheReference) {
  const size_t other = GetParam().size() % std::size(targets);
  for (const std::string_view target : {targets[1], targets[other == 1 ? 3 : other]}) {
    simt::SimtDevice device{std::string(target)};
    hwtests::workload_agrees(GetParam(), device, GetParam().starts_with("tiny-materialized"));
    std::printf("%s on %s: %llu accesses, %llu meetings of waves\n", GetParam().c_str(), std::string(target).c_str(),
                static_cast<unsigned long long>(device.accesses()), static_cast<unsigned long long>(device.meetings()));
  }
}
INSTANTIATE_TEST_SUITE_P(Tiny, SimtWorkloads,
                         ::testing::Values("tiny-mlp-b1", "tiny-mlp-b2-repeat3", "tiny-mlp-row1", "tiny-mlp-f32",
                                           "tiny-mlp-i8", "tiny-flash-attention-b1", "tiny-flash-attention-f32",
                                           "tiny-materialized-attention-b1", "tiny-materialized-attention-f32"));

TEST(SimtPrograms, SplitSums) {
  for (const std::string_view target : targets) {
    SCOPED_TRACE(target);
    simt::SimtDevice device{std::string(target)};
    hwtests::split_sums_agree(device);
  }
}

// On a chip that multiplies FNUZ formats, on one that multiplies OCP's, and on one that multiplies none.
TEST(SimtPrograms, AllCodesOfFp8) {
  for (const std::string_view target : {targets[1], targets[4], targets[3]}) {
    SCOPED_TRACE(target);
    simt::SimtDevice device{std::string(target)};
    hwtests::fp8_codes_agree(device);
  }
}

class SimtRandomGraphs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(SimtRandomGraphs, AgreeWithTheReference) {
  for (uint64_t seed = GetParam(); seed < GetParam() + 3; ++seed) {
    simt::SimtDevice device{std::string(targets[seed % std::size(targets)])};
    ASSERT_NO_FATAL_FAILURE(hwtests::random_graph_agrees(seed, device));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, SimtRandomGraphs, ::testing::Range<uint64_t>(1000, 1030, 3));

}  // namespace
}  // namespace low
