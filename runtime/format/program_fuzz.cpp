// Any bytes as program.bin: refused, or a program that is written and read back.
#include <cstdint>

#include "runtime/format/program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const auto program = parse_program(std::as_bytes(std::span(data, size)), "fuzz");
  if (!program) return 0;
  const std::string text = serialize(*program);
  const auto again = parse_program(std::as_bytes(std::span(text)), "fuzz");
  LOW_CHECK(again && serialize(*again) == text);
  static_cast<void>(executed_supersteps(*program));
  return 0;
}
