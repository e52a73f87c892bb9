// Any bytes as .pb: refused, or a tensor that is written and read back.
#include <cstdint>

#include "runtime/tensor/tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const Result<NamedTensor> tensor = parse_tensor_proto(std::as_bytes(std::span(data, size)), "fuzz");
  if (!tensor) return 0;
  const std::string text = serialize_tensor_proto(*tensor);
  const Result<NamedTensor> again = parse_tensor_proto(std::as_bytes(std::span(text)), "fuzz");
  LOW_CHECK(again && again->tensor == tensor->tensor && again->name == tensor->name);
  return 0;
}
