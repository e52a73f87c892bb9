// Row-major walk over a shape that keeps, for several operands at once, the offset of their element.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/base/thread_pool.h"
#include "runtime/tensor/shape.h"

namespace low::reference {

// Strides of `operand` as seen from `result`, to which it broadcasts: 0 along an axis that it lacks or has once.
Strides broadcast_strides(const Shape& operand, const Shape& result);

class Walk {
 public:
  // Starts at row-major element `begin` of `shape`; operand i's strides have the shape's rank.
  Walk(const Shape& shape, std::vector<Strides> strides, int64_t begin);
  int64_t offset(size_t operand) const { return offsets_[operand]; }
  void next();

 private:
  Shape shape_;
  std::vector<Strides> strides_;
  Shape coordinates_;
  std::vector<int64_t> offsets_;
};

// Calls work(begin, end) for parts of [0, elements), on the pool if there is one. The parts do not depend on the pool.
void for_parts(ThreadPool* pool, int64_t elements, const std::function<void(int64_t begin, int64_t end)>& work);

}  // namespace low::reference
