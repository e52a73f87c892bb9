// Any bytes as .npy: refused, or a tensor that is written and read back.
#include <cstdint>

#include "runtime/tensor/tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  const Result<Tensor> tensor = parse_npy(std::as_bytes(std::span(data, size)), "fuzz");
  if (!tensor) return 0;
  const std::string text = serialize_npy(*tensor);
  const Result<Tensor> again = parse_npy(std::as_bytes(std::span(text)), "fuzz");
  LOW_CHECK(again && again->shape() == tensor->shape());
  return 0;
}
