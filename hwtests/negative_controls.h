// Models that are wrong on purpose: each differs from a workload in one way that a judge has to see.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace low {

struct NegativeControl {
  std::string name;   // "zeroed-output", "swapped-layers", "transposed-weight", "changed-weight"
  std::string model;  // serialized ModelProto
};

// From an FP8 MLP workload with its blocks as a Scan (`lowc workload …mlp…`). ErrorKind::invalid for any other model.
Result<std::vector<NegativeControl>> make_negative_controls(std::span<const std::byte> model);

// The model with one element of an FP8 initializer replaced: its `index`-th byte becomes `code`. ErrorKind::invalid for
// one that there is not.
Result<std::string> with_weight(std::span<const std::byte> model, std::string_view initializer, size_t index,
                                unsigned char code);

}  // namespace low
