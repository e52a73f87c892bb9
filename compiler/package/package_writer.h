// A compiled model -> the bytes of its package; see runtime/format/package.h.
#pragma once

#include <string>

#include "compiler/compile.h"

namespace low {

struct Provenance {
  std::string model_sha256;
  std::string model_name;
};
Result<std::string> write_package(const Compilation& compilation, const Provenance& provenance);

}  // namespace low
