// A dense, row-major tensor that owns its 64-byte aligned bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace low {

// 64-byte aligned memory; much memory in huge pages where the system has them, which spares most page faults.
void* allocate_aligned(size_t bytes);
void free_aligned(void* allocated, size_t bytes);

template <typename T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <typename U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(allocate_aligned(n * sizeof(T))); }
  void deallocate(T* p, size_t n) { free_aligned(p, n * sizeof(T)); }
  template <typename U>
  bool operator==(const AlignedAllocator<U>&) const {
    return true;
  }
  // What is about to be written need not be 0 before.
  template <typename U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;
  }
  template <typename U, typename V>
  void construct(U* p, V&& value) {
    ::new (static_cast<void*>(p)) U(std::forward<V>(value));
  }
};
// AlignedBytes(n) holds anything.
using AlignedBytes = std::vector<std::byte, AlignedAllocator<std::byte>>;

class Tensor {
 public:
  Tensor() = default;  // f32 scalar without storage: a placeholder to assign to
  // Zero-filled. The shape must have passed checked_elements.
  Tensor(DType dtype, const Shape& shape);
  // Of these elements, as many as the shape has.
  Tensor(DType dtype, const Shape& shape, std::span<const std::byte> bytes);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // The element's raw bits, zero-extended. `index` is row-major and in range.
  uint64_t bits(int64_t index) const;
  void set_bits(int64_t index, uint64_t bits);
  // The element as a double: exact for all types but 64-bit integers beyond 2^53.
  double value(int64_t index) const;
  // Stores a double: floats round to nearest even with saturation, integers truncate and clamp, boolean is value != 0.
  void set_value(int64_t index, double value);
  // The element of an integer or boolean type; u64 wraps into int64_t.
  int64_t integer(int64_t index) const;

  // Typed access; T must have the element's size.
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }

  bool operator==(const Tensor& other) const;  // same type, shape and bytes

 private:
  DType dtype_ = DType::f32;
  Shape shape_;
  AlignedBytes bytes_;
};

}  // namespace low
