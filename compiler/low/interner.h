// Equal values get one id. For all graphs that are built together (the finalists of a selection attempt): any thread
// may intern, and a value is read without a lock by whoever has its id.
#pragma once

#include <array>
#include <bit>
#include <boost/unordered/unordered_flat_set.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "compiler/low/tile_graph.h"

namespace low {

// Hashes of interned values mix all their fields; equality is the values' own ==.
struct InternHash {
  size_t operator()(const TensorType& value) const;
  size_t operator()(const Geometry& value) const;
  size_t operator()(const KernelContract& value) const;
  size_t operator()(const CopyDescriptor& value) const;
};

// Ids are dense, in the order of interning: which depends on threads, so that nothing may be ordered by them or print
// them.
template <typename IdType, typename T>
class Interner {
 public:
  Interner() : ids_(0, ById{this}, ById{this}) {}
  Interner(const Interner&) = delete;
  Interner& operator=(const Interner&) = delete;

  IdType intern(const T& value) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = ids_.find(Borrowed{value}); found != ids_.end()) return IdType(*found);
    const auto id = static_cast<uint32_t>(size_);
    const Place where = place(id);
    std::unique_ptr<T[]>& chunk = chunks_[where.chunk];
    if (!chunk) chunk = std::make_unique<T[]>(size_t{first_chunk} << where.chunk);
    chunk[where.index] = value;
    ++size_;
    ids_.insert(id);
    return IdType(id);
  }
  const T& operator[](IdType id) const { return at(id.index); }
  size_t size() const {
    const std::scoped_lock lock(mutex_);
    return size_;
  }
  // All values, by id.
  std::vector<T> take() && {
    std::vector<T> values;
    values.reserve(size_);
    for (uint32_t id = 0; id < size_; ++id) {
      const Place where = place(id);
      values.push_back(std::move(chunks_[where.chunk][where.index]));
    }
    return values;
  }

 private:
  // Chunk c holds 256 << c values, which never move.
  static constexpr uint32_t first_chunk = 256;
  struct Place {
    size_t chunk, index;
  };
  static Place place(uint32_t id) {
    const auto chunk = static_cast<size_t>(std::bit_width((id / first_chunk + 1) >> 1));  // of 1 or more, less 1
    return {chunk, id - ((size_t{first_chunk} << chunk) - first_chunk)};
  }
  const T& at(uint32_t id) const {
    const Place where = place(id);
    return chunks_[where.chunk][where.index];
  }

  struct Borrowed {
    const T& value;
  };
  struct ById {
    using is_transparent = void;
    const Interner* owner;
    size_t operator()(uint32_t id) const { return InternHash()(owner->at(id)); }
    size_t operator()(const Borrowed& borrowed) const { return InternHash()(borrowed.value); }
    bool operator()(uint32_t a, uint32_t b) const { return a == b; }
    bool operator()(const Borrowed& a, uint32_t b) const { return a.value == owner->at(b); }
    bool operator()(uint32_t a, const Borrowed& b) const { return b.value == owner->at(a); }
  };

  mutable std::mutex mutex_;
  boost::unordered_flat_set<uint32_t, ById, ById> ids_;
  std::array<std::unique_ptr<T[]>, 24> chunks_;
  size_t size_ = 0;
};

// What the builders of one selection attempt share.
struct Interners {
  Interner<TypeId, TensorType> types;
  Interner<GeometryId, Geometry> geometries;
  Interner<ContractId, KernelContract> contracts;
  Interner<DescriptorId, CopyDescriptor> descriptors;
};

}  // namespace low
