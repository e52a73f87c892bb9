# cmake -DSOURCE=… -DVERSION=… -DOUTPUT=… -P build_info.cmake: writes build_info.cpp.
file(GLOB_RECURSE files RELATIVE ${SOURCE} LIST_DIRECTORIES false
  ${SOURCE}/compiler/*.cpp ${SOURCE}/compiler/*.h ${SOURCE}/compiler/*.json ${SOURCE}/runtime/*.cpp ${SOURCE}/runtime/*.h
  ${SOURCE}/runtime/*.proto)
list(FILTER files EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")
list(SORT files)
set(all "")
foreach(file IN LISTS files)
  file(SHA256 ${SOURCE}/${file} hash)
  string(APPEND all "${hash}  ${file}\n")
endforeach()
string(SHA256 source_hash "${all}")
file(SHA256 ${SOURCE}/flake.lock lock_hash)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "compiler/package/build_info.h"

namespace low {

std::string_view build_version() { return "@VERSION@"; }
std::string_view build_source_hash() { return "@source_hash@"; }
std::string_view build_lock_hash() { return "@lock_hash@"; }

}  // namespace low
]] @ONLY)
