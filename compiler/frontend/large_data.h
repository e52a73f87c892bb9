// A model's message without the large constants in it: parsing it copies none of them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace low {

struct CutModel {
  std::string message;  // where data was cut out, raw_data is empty
  // Of each initializer of the main graph, in order: its raw_data, in the bytes that were cut, or nothing where the
  // message has it.
  std::vector<std::span<const std::byte>> raw_data;
};
// Cuts out raw_data of at least so many bytes. Nothing when the bytes are no message; what is wrong with one, the parser
// says.
std::optional<CutModel> cut_large_data(std::span<const std::byte> bytes, size_t least_bytes = 1 << 16);

}  // namespace low
