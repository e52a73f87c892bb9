// Any text as a tile graph: refused, or one that is printed and read back.
#include <cstdint>

#include "compiler/low/tile_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const Result<TileGraph> graph = parse_tile_graph({reinterpret_cast<const char*>(data), size}, {});
  if (!graph) return 0;
  const std::string text = print(*graph);
  ConstantsByHash constants;
  for (const auto& constant : graph->constants())
    constants.emplace_back(constant_hash(*constant.tensor()), constant.tensor());
  const Result<TileGraph> again = parse_tile_graph(text, constants);
  LOW_CHECK(again && print(*again) == text);
  return 0;
}
