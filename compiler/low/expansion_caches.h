// What the finalists of one selection attempt share while they are expanded, one after the other or at the same time:
// the tables of interned values, and two caches. Nothing in them holds an address, a name or an allocation; nothing
// outlives the attempt.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "compiler/base/hash.h"
#include "compiler/low/cache.h"
#include "compiler/low/interner.h"

namespace low {

// --- Relative local-copy descriptors: how a box of one allocation gets into an equal box of another on the same tile,
// wherever both begin.

struct CopyDescriptorKey {
  TypeId source_type, destination_type;  // precision, element order, padding
  GeometryId source, destination;        // the boxes, row by row; equal extents
  bool same_buffer = false;              // both lie in one allocation

  uint64_t hash() const {
    return WordHash()
        .add(packed_words(source_type.index, destination_type.index))
        .add(packed_words(source.index, destination.index))
        .add(same_buffer ? 1 : 0)
        .result();
  }
  bool operator==(const CopyDescriptorKey&) const = default;
};
struct RelativeCopy {
  DescriptorId descriptor;
  GeometryId source, destination;  // of the views that the descriptor moves: the boxes, collapsed
};

// --- Copy-preparation plans: how a wanted rectangle is put together from the shards that hold it.

// A list of words that says all that a plan depends on; see copy_plan.h for what they are.
struct BorrowedCopyPlanKey {
  std::span<const uint64_t> words;
  uint64_t hash() const { return WordHash().add(words).result(); }
};
struct CopyPlanKey {
  std::vector<uint64_t> words;
  explicit CopyPlanKey(const BorrowedCopyPlanKey& key) : words(key.words.begin(), key.words.end()) {}
  bool operator==(const CopyPlanKey&) const = default;
  bool operator==(const BorrowedCopyPlanKey& other) const { return std::ranges::equal(words, other.words); }
};
// What one shard contributes: views of equal extents. Where the source's begins is no part of a plan.
struct CopyPiece {
  int64_t destination_offset = 0;  // elements, from where the destination begins
  GeometryId source, destination;
  bool local = false;  // a copy on the tile; else an exchange
};
struct CopyPlan {
  std::vector<CopyPiece> pieces;  // by source, in order
};

struct ExpansionCaches {
  explicit ExpansionCaches(const CacheOptions& options = {}) : copy_descriptors(options), copy_plans(options) {}

  std::shared_ptr<Interners> interners = std::make_shared<Interners>();
  BoundedCache<CopyDescriptorKey, CopyDescriptorKey, RelativeCopy> copy_descriptors;
  BoundedCache<CopyPlanKey, BorrowedCopyPlanKey, CopyPlan> copy_plans;
};

}  // namespace low
