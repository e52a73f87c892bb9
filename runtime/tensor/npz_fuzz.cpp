// Any bytes as .npz: refused, or tensors that are written and read back.
#include <cstdint>

#include "runtime/tensor/tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const auto tensors = parse_npz(std::as_bytes(std::span(data, size)), "fuzz");
  if (!tensors) return 0;
  const Result<std::string> text = serialize_npz(*tensors);
  // Members may have names that cannot be written.
  LOW_CHECK(text || text.error().kind == ErrorKind::invalid);
  if (!text) return 0;
  const auto again = parse_npz(std::as_bytes(std::span(*text)), "fuzz");
  LOW_CHECK(again && again->size() == tensors->size());
  return 0;
}
