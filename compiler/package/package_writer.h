// A compiled model -> its package; see runtime/format/package.h.
#pragma once

#include <string>

#include "compiler/compile.h"

namespace low {

struct Provenance {
  std::string model_sha256;
  std::string model_name;
};
// The package's bytes: of one model for a machine each.
std::string write_package(std::span<const Compilation> machines, const Provenance& provenance);
// Into a file, as write_file does; the file's size.
Result<uint64_t> write_package(std::span<const Compilation> machines, const Provenance& provenance,
                               const std::string& path, ThreadPool& pool);

}  // namespace low
