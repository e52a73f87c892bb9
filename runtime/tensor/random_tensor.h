// Reproducible test data.
#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace low {

// The output function of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
constexpr uint64_t splitmix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// splitmix64 of a counter: the same numbers on every machine.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    return splitmix64(state_);
  }
  // In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Mean 0, variance 1, within [-6, 6]: the sum of twelve uniform numbers less six, so that no libm takes part.
  double normal();

 private:
  uint64_t state_;
};

// Floats: normal() values, rounded to the dtype. Integers: uniform in [-8, 8], or [0, 16] when unsigned. Booleans: even
// odds.
Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed);

}  // namespace low
