// Any bytes as a model: refused, or a graph that is printed and read back and goes through the passes.
#include <cstdint>

#include "compiler/frontend/frontend.h"
#include "compiler/graph/passes/passes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  // No folder, hence no external data.
  const Result<Graph> graph = import_onnx(std::as_bytes(std::span(data, size)), "no-such-folder/model.onnx", {});
  if (!graph) return 0;
  const std::string text = print(*graph);
  const Result<Graph> again = parse_graph(text, constants_by_hash(*graph));
  LOW_CHECK(again && print(*again) == text);
  LOW_CHECK(run_passes(*graph).has_value());
  return 0;
}
