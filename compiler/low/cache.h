// A bounded, thread-safe map from keys to immutable results that take longer to make than to look up.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace low {

struct CacheOptions {
  bool enabled = true;
  size_t capacity = 32768;          // entries; results beyond it are returned, and not kept
  uint64_t hash_mask = UINT64_MAX;  // 0 makes all hashes equal, for tests
};

struct CacheStatistics {
  uint64_t entries = 0, hits = 0, misses = 0;
  uint64_t lookups() const { return hits + misses; }
};

// `Key` owns what a `Borrowed` key refers to, is made from one, and compares to one and to itself for equality of all
// that it holds; both have hash(). A lookup hashes a borrowed key once and owns nothing; only a result that is kept has
// an owned key. Results are made outside of the mutex: two threads that miss the same key at once both make it, and the
// first to finish is kept and returned to both. Entries are never dropped. Results must not depend on anything but the
// key.
template <typename Key, typename Borrowed, typename Value>
class BoundedCache {
 public:
  explicit BoundedCache(const CacheOptions& options = {}) : options_(options) {}
  BoundedCache(const BoundedCache&) = delete;
  BoundedCache& operator=(const BoundedCache&) = delete;

  bool enabled() const { return options_.enabled; }

  // The result for `key`, made by `generate()` if need be. The cache is enabled.
  template <typename Generate>
  std::shared_ptr<const Value> get(const Borrowed& key, Generate&& generate) {
    const Probe probe{key, key.hash() & options_.hash_mask};
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = entries_.find(probe); found != entries_.end()) {
        ++hits_;
        return found->second;
      }
      ++misses_;
    }
    auto result = std::make_shared<const Value>(std::forward<Generate>(generate)());
    const std::scoped_lock lock(mutex_);
    if (const auto found = entries_.find(probe); found != entries_.end()) return found->second;
    if (entries_.size() < options_.capacity) entries_.emplace(Stored{Key(key), probe.hash}, result);
    return result;
  }

  CacheStatistics statistics() const {
    const std::scoped_lock lock(mutex_);
    return {.entries = entries_.size(), .hits = hits_, .misses = misses_};
  }

 private:
  struct Stored {
    Key key;
    uint64_t hash;
  };
  struct Probe {
    const Borrowed& key;
    uint64_t hash;
  };
  struct Hash {
    using is_transparent = void;
    using is_avalanching = void;
    size_t operator()(const Stored& stored) const { return static_cast<size_t>(stored.hash); }
    size_t operator()(const Probe& probe) const { return static_cast<size_t>(probe.hash); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const Stored& a, const Stored& b) const { return a.hash == b.hash && a.key == b.key; }
    bool operator()(const Probe& a, const Stored& b) const { return a.hash == b.hash && b.key == a.key; }
    bool operator()(const Stored& a, const Probe& b) const { return a.hash == b.hash && a.key == b.key; }
  };

  CacheOptions options_;
  mutable std::mutex mutex_;
  boost::unordered_flat_map<Stored, std::shared_ptr<const Value>, Hash, Equal> entries_;
  uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace low
