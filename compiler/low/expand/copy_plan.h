// Copies between views: what is known of their geometry (facts, computed here and nowhere else), and what is done about
// it (policy).
//
// A tile wants a rectangle of a value that lies in shards. Facts: which part of it each shard holds, where that lies in
// the shard and in the destination. Policy: what lies on the tile is copied there, the rest is exchanged; nothing is
// copied that can be read where it lies.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <span>

#include "compiler/low/expand/distributed_value.h"
#include "compiler/low/expansion_caches.h"

namespace low {

// Ids of the geometries of matrices, without asking the interner again for those that are known.
class MatrixGeometries {
 public:
  explicit MatrixGeometries(Interners& interners) : interners_(interners) {}
  // Strides of axes of extent 1 are 0.
  GeometryId operator()(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);

 private:
  struct Key {
    int64_t rows, columns, row_stride, column_stride;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  Interners& interners_;
  Key last_{0, 0, 0, 0};
  GeometryId last_id_;
  boost::unordered_flat_map<Key, GeometryId, Hash> ids_;
};

struct CopyDestination {
  TypeId type;
  GeometryId geometry;  // of the whole rectangle
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 0;
};

CopyPlan plan_copy(const CopyDestination& destination, std::span<const CopySource> sources,
                   MatrixGeometries& geometries);

// Larger plans are rarely wanted twice, and would make entries of any size.
inline constexpr size_t max_cached_sources = 256;
// All that plan_copy depends on, as words: the destination's type and geometry, then for each source, in order, its
// type, its geometry, which part of the rectangle it holds, and whether it is local. False if there are more sources
// than max_cached_sources, or if a number does not fit, as none does that a tile's memory can hold.
bool copy_plan_words(const CopyDestination& destination, std::span<const CopySource> sources,
                     std::vector<uint64_t>& words);

// How the box `key.source` gets into `key.destination`. Its loops are collapsed; the innermost contiguous run is the
// chunk.
RelativeCopy plan_relative_copy(const CopyDescriptorKey& key, Interners& interners);
RelativeCopy relative_copy(const CopyDescriptorKey& key, ExpansionCaches& caches);
// A local copy of a box to one of equal extents.
void add_copy(TileGraphBuilder& builder, ExpansionCaches& caches, const View& source, const View& destination,
              TileId tile);

}  // namespace low
