// The canonical models of tests and benchmarks, as ONNX bytes. Their numbers come from fixed seeds, so that a workload
// of one name and options is the same bytes everywhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace low {

// At most one of them. The numbers are the same in both forms.
struct WorkloadOptions {
  std::optional<int> repeat;    // so many blocks as a Scan over stacked weights
  std::optional<int> unrolled;  // so many blocks one after another
};

// The serialized ModelProto. ErrorKind::usage for an unknown name, options that contradict each other, or so many
// blocks that a model file cannot hold them (2 GiB).
Result<std::string> make_workload(std::string_view name, const WorkloadOptions& options);
std::vector<std::string> workload_names();

}  // namespace low
