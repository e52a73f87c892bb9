// Any text as manifest.json: refused, or a manifest that is written and read back.
#include <cstdint>

#include "runtime/format/package.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const auto manifest = parse_manifest({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!manifest) return 0;
  const auto again = parse_manifest(serialize(*manifest), "fuzz");
  LOW_CHECK(again && *again == *manifest);
  return 0;
}
