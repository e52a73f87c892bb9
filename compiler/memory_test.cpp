// Programs that hardly fit a tile's memory.
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "compiler/interpret/interpret.h"
#include "reference/reference.h"

namespace low {
namespace {

// A chain of softmaxes of 64 KiB each on one tile of 624 KiB: joined into one superstep, all 12 results would be alive
// at once (768 KiB).
TEST(Memory, SuperstepsThatDoNotFitTogetherStayApart) {
  GraphBuilder builder;
  ValueId value = builder.input("x", {DType::f32, {64, 256}});
  for (int i = 0; i < 12; ++i) value = builder.rowwise({.axes = {1}}, {{value}}, DType::f32);
  builder.output("y", value);
  const auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  auto machine = find_machine("ipu21");
  ASSERT_TRUE(machine.has_value());
  machine->tiles = 1;
  ThreadPool pool(2);
  const auto planned = plan_program(*graph, *machine, {}, pool);
  ASSERT_TRUE(planned.has_value()) << planned.error().message;
  EXPECT_GE(planned->graph.supersteps().size(), 12U);
  EXPECT_LE(planned->placement.tile_bytes[0], machine->tile_memory_bytes);

  Tensor x(DType::f32, {64, 256});
  for (int64_t i = 0; i < x.elements(); ++i) x.set_value(i, static_cast<double>(i * 37 % 101) / 50 - 1);
  const std::vector<Tensor> inputs{std::move(x)};
  const auto expected = reference::run(*graph, inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  const auto actual = interpret(planned->graph, planned->placement, planned->schedule, inputs);
  ASSERT_TRUE(actual.has_value()) << actual.error().message;
  const auto comparison = reference::compare((*actual)[0], (*expected)[0], {.absolute = 1e-5, .relative = 1e-4});
  ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
  EXPECT_TRUE(comparison->passed()) << reference::to_string(*comparison);
}

}  // namespace
}  // namespace low
