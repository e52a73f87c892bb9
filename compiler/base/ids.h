// Typed 32-bit ids into dense vectors, and spans into one pool: no vector inside an element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace low {

// Id<struct ValueTag>: an index that cannot be mixed with another kind's. The default is "none".
template <typename Tag>
struct Id {
  uint32_t index = UINT32_MAX;

  constexpr Id() = default;
  constexpr explicit Id(size_t i) : index(static_cast<uint32_t>(i)) {}
  constexpr bool valid() const { return index != UINT32_MAX; }
  constexpr auto operator<=>(const Id&) const = default;
};

// A run of elements in a pool.
struct Span32 {
  uint32_t begin = 0;
  uint32_t count = 0;
  bool operator==(const Span32&) const = default;
};

template <typename T>
std::span<const T> slice(const std::vector<T>& pool, Span32 span) {
  return std::span<const T>(pool).subspan(span.begin, span.count);
}

template <typename T, typename Range>
Span32 append(std::vector<T>& pool, const Range& elements) {
  const Span32 span{static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(std::size(elements))};
  pool.insert(pool.end(), std::begin(elements), std::end(elements));
  return span;
}

// A dense table indexed by one kind of id.
template <typename IdType, typename T>
class Table {
 public:
  Table() = default;
  explicit Table(size_t size, const T& value = T()) : elements_(size, value) {}
  T& operator[](IdType id) { return elements_[id.index]; }
  const T& operator[](IdType id) const { return elements_[id.index]; }
  IdType push(T value) {
    elements_.push_back(std::move(value));
    return IdType(elements_.size() - 1);
  }
  size_t size() const { return elements_.size(); }
  auto begin() const { return elements_.begin(); }
  auto end() const { return elements_.end(); }
  bool operator==(const Table&) const = default;

 private:
  std::vector<T> elements_;
};

}  // namespace low

template <typename Tag>
struct std::hash<low::Id<Tag>> {
  size_t operator()(low::Id<Tag> id) const { return std::hash<uint32_t>()(id.index); }
};
