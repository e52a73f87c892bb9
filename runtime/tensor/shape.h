// Extents of a tensor: at most max_rank dimensions, each at least 0. A plain value.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace low {

inline constexpr int max_rank = 8;
// Readers refuse tensors above this many bytes, so that a hostile file cannot make us allocate without bound.
inline constexpr int64_t max_tensor_bytes = int64_t{1} << 36;

class Shape {
 public:
  Shape() = default;
  // At most max_rank extents (checked).
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[axis]; }
  int64_t& operator[](int axis) { return extents_[axis]; }
  const int64_t* begin() const { return extents_.data(); }
  const int64_t* end() const { return extents_.data() + rank_; }
  std::span<const int64_t> extents() const { return {begin(), end()}; }
  void append(int64_t extent);  // checked against max_rank
  // Product of the extents; 1 for rank 0. The shape must have passed checked_elements once.
  int64_t elements() const;
  // Row-major strides in elements.
  Shape row_major_strides() const;
  bool operator==(const Shape& other) const;  // same rank, same extents

 private:
  std::array<int64_t, max_rank> extents_{};
  int8_t rank_ = 0;
};

// "[2,3]"; "[]" for a scalar.
std::string to_string(const Shape& shape);
// The product, or nothing when an extent is negative or the product, with zeros counted as ones, exceeds
// max_tensor_bytes.
std::optional<int64_t> checked_elements(std::span<const int64_t> extents);
// NumPy's multidirectional broadcasting; nothing when the shapes do not match.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// Distances in elements between neighbours along each axis: may be 0 (broadcast) or negative (reversed).
using Strides = Shape;

}  // namespace low
