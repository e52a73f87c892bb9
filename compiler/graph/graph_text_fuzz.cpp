// Any text as a graph: refused, or one that is printed and read back.
#include <cstdint>

#include "compiler/graph/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const Result<Graph> graph = parse_graph({reinterpret_cast<const char*>(data), size}, {});
  if (!graph) return 0;
  const std::string text = print(*graph);
  const Result<Graph> again = parse_graph(text, constants_by_hash(*graph));
  LOW_CHECK(again && print(*again) == text);
  return 0;
}
