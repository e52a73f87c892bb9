// Any bytes as a package, under a hash that fits: what is read behind the hash, on to the programs.
#include <cstdint>

#include "runtime/base/sha256.h"
#include "runtime/format/package.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace low;
  // The comment of the archive holds the hash of all that precedes; 85 bytes.
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::string archive(input.substr(0, size > 85 ? size - 85 : size));
  archive += "low-package 1 sha256:" + sha256_hex(std::as_bytes(std::span(archive)));
  const auto package = Package::from_bytes(std::move(archive), "fuzz");
  if (!package) return 0;
  for (const auto& [name, extent] : (*package)->entries()) LOW_CHECK((*package)->entry(name).has_value());
  for (const VariantInfo& variant : (*package)->manifest().variants) {
    if (const auto program = (*package)->program(variant)) LOW_CHECK(verify(*program, "fuzz").has_value());
  }
  return 0;
}
