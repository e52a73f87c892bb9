// Hashes of values that are made of several: for tables, not for anything that is written down.
#pragma once

#include <cstdint>

namespace low {

// As boost::hash_combine.
constexpr uint64_t mix(uint64_t hash, uint64_t value) {
  return hash ^ (value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2));
}

}  // namespace low
