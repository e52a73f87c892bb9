// What this build of low is: for the manifest. Generated at build time (see CMakeLists.txt beside this header).
#pragma once

#include <string_view>

namespace low {

std::string_view build_version();      // "0.1.0"
std::string_view build_source_hash();  // SHA-256 over the names and contents of compiler/ and runtime/, tests excluded
std::string_view build_lock_hash();    // SHA-256 of flake.lock

}  // namespace low
