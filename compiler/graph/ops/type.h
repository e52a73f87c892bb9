// The type of a value.
#pragma once

#include <string>

#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace low {

struct Type {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);  // "f32[2,3]"

}  // namespace low
