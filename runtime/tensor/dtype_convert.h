// Conversion of whole arrays between the bytes of a tensor and f32.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/tensor/dtype.h"

namespace low {

// One value for each element; bytes.size() must be values.size() * byte_size(type) (checked). Exact for the float types
// of at most 32 bits and for integers of at most 16; f64 and wide integers round to nearest even. `bytes` need not be
// aligned.
void decode_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> values);

// The inverse, with the rules of Tensor::set_value: floats round to nearest even, integers truncate and clamp (NaN
// gives 0), boolean is value != 0.
void encode_from_f32(DType type, std::span<const float> values, std::span<std::byte> bytes,
                     Overflow overflow = Overflow::saturate);

}  // namespace low
