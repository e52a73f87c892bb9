// The JSON files of this folder, embedded at build time.
#pragma once

#include <span>
#include <string_view>

namespace low {

// The files' names without ".json", in alphabetical order, and their texts in the same order.
std::span<const std::string_view> machine_file_names();
std::span<const std::string_view> machine_file_texts();

}  // namespace low
