#include "compiler/low/cache.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace low {
namespace {

// A key that counts how often an owned one is made of it.
struct Name {
  std::string_view text;
  uint64_t hash() const { return std::hash<std::string_view>()(text); }
};
struct OwnedName {
  static inline int made = 0;  // tests with it run one after the other
  std::string text;
  explicit OwnedName(const Name& name) : text(name.text) { ++made; }
  bool operator==(const OwnedName&) const = default;
  bool operator==(const Name& name) const { return text == name.text; }
};
using Cache = BoundedCache<OwnedName, Name, size_t>;

TEST(BoundedCache, MakesEachResultOnceAndOwnsKeysOnlyOfThose) {
  OwnedName::made = 0;
  Cache cache;
  int generated = 0;
  for (const std::string_view text : {"a", "bb", "a", "bb", "a"}) {
    const auto value = cache.get({text}, [&] {
      ++generated;
      return text.size();
    });
    EXPECT_EQ(*value, text.size());
  }
  EXPECT_EQ(generated, 2);
  EXPECT_EQ(OwnedName::made, 2);
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.entries, 2U);
  EXPECT_EQ(statistics.hits, 3U);
  EXPECT_EQ(statistics.misses, 2U);
  EXPECT_EQ(statistics.lookups(), 5U);
}

TEST(BoundedCache, ReturnsButDoesNotKeepWhatIsBeyondItsCapacity) {
  OwnedName::made = 0;
  Cache cache({.capacity = 2});
  const auto get = [&](std::string_view text) { return *cache.get({text}, [&] { return text.size(); }); };
  EXPECT_EQ(get("a"), 1U);
  EXPECT_EQ(get("bb"), 2U);
  EXPECT_EQ(get("ccc"), 3U);
  EXPECT_EQ(get("ccc"), 3U);  // a miss again
  EXPECT_EQ(get("a"), 1U);    // still there
  EXPECT_EQ(OwnedName::made, 2);
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.entries, 2U);
  EXPECT_EQ(statistics.hits, 1U);
  EXPECT_EQ(statistics.misses, 4U);
}

TEST(BoundedCache, ComparesWholeKeysBehindEqualHashes) {
  Cache cache({.hash_mask = 0});
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 100; ++i) {
      const std::string text(static_cast<size_t>(i), 'x');
      EXPECT_EQ(*cache.get({text}, [&] { return text.size(); }), static_cast<size_t>(i));
    }
  EXPECT_EQ(cache.statistics().entries, 100U);
  EXPECT_EQ(cache.statistics().hits, 100U);
}

TEST(BoundedCache, GeneratesOutsideOfTheMutexAndKeepsOneResult) {
  Cache cache;
  // The generator of one key asks for another one: with the mutex held this would never end.
  const auto outer = cache.get({"outer"}, [&] { return *cache.get({"inner"}, [] { return size_t{7}; }) + 1; });
  EXPECT_EQ(*outer, 8U);
  // While one thread makes a result, another one finishes the same key: the first to finish is what both get.
  std::shared_ptr<const size_t> nested;
  const auto late = cache.get({"twice"}, [&] {
    nested = cache.get({"twice"}, [] { return size_t{1}; });
    return size_t{2};
  });
  EXPECT_EQ(late, nested);
  EXPECT_EQ(*late, 1U);
  EXPECT_EQ(cache.statistics().entries, 3U);
}

TEST(BoundedCache, ServesThreads) {
  struct Number {
    uint64_t value = 0;
    uint64_t hash() const { return value; }
    bool operator==(const Number&) const = default;
  };
  BoundedCache<Number, Number, uint64_t> cache({.capacity = 50});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache] {
      for (uint64_t i = 0; i < 2000; ++i) {
        const uint64_t key = i * 7919 % 100;
        EXPECT_EQ(*cache.get({key}, [&] { return key * key; }), key * key);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.entries, 50U);
  EXPECT_EQ(statistics.lookups(), 8000U);
}

}  // namespace
}  // namespace low
