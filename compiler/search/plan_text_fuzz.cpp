// Any text as a plan: refused, or one that is printed and read back, and judged against a graph.
#include <cstdint>

#include "compiler/search/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const Result<Plan> plan = parse_plan({reinterpret_cast<const char*>(data), size});
  if (!plan) return 0;
  const std::string text = print(*plan);
  const Result<Plan> again = parse_plan(text);
  LOW_CHECK(again && print(*again) == text);
  return 0;
}
