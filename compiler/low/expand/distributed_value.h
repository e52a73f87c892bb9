// Where a value lives on a machine without global memory: as shards, rectangles of its matrix [rows, columns] (columns
// is the last axis, rows all others together), each in the memory of one tile.
#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compiler/low/expand/placed.h"
#include "compiler/search/attention.h"
#include "compiler/search/distributed_layout.h"
#include "compiler/search/plan.h"

namespace low {

struct Rect {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
  auto operator<=>(const Rect&) const = default;
};
Rect intersection(const Rect& a, const Rect& b);
inline bool is_empty(const Rect& rect) { return rect.rows <= 0 || rect.columns <= 0; }
inline bool contains(const Rect& outer, const Rect& inner) { return intersection(outer, inner) == inner; }

// The rectangle that a tile computes or keeps.
struct Part {
  Rect rect;
  TileId tile;
};

struct Shard {
  Rect rect;
  TileId tile;   // none: outside of the tiles (model inputs and outputs)
  Placed place;  // layout over [rect.rows, rect.columns]
};

// An enclosing Repeat that a constant steps through.
struct ConstantStep {
  uint32_t level = 0;
  int64_t count = 1;
};

// Finds the shards that a rectangle meets. Rows are cut into bands at every shard's first and last row; a band lists
// its shards by column. Where that would take much more room than the shards (never with parts of a grid), all shards
// are looked at.
class ShardIndex {
 public:
  // Calls function(shard's number) for each shard that meets `rect`, once, by rows and then columns of the shards.
  template <typename Function>
  void find(std::span<const Shard> shards, const Rect& rect, Function&& function);

 private:
  void build(std::span<const Shard> shards);
  size_t indexed_ = SIZE_MAX;  // shards in the index
  bool linear_ = false;
  std::vector<int64_t> rows_;    // where bands begin, and where the last one ends
  std::vector<uint32_t> first_;  // of each band's shards, in `members_`; one more
  std::vector<uint32_t> members_;
};

// What copies need to know of a shard, and what is remembered of the last exchange that read it.
struct ShardFormat {
  TypeId type;          // of its allocation
  GeometryId geometry;  // of all of it
  uint32_t superstep = UINT32_MAX, exchange = 0;
  GeometryId exchanged;  // the view
  int64_t offset = 0;
};

// A shard that a wanted rectangle meets.
struct CopySource {
  uint32_t shard = 0;  // its number
  TileId tile;
  // What a copy needs besides:
  TypeId type;          // of its allocation
  GeometryId geometry;  // of the whole shard
  Rect piece;           // the part that is wanted; its origin counted from the wanted rectangle's
  int64_t offset = 0;   // of that part in the allocation
  int64_t row_stride = 0, column_stride = 0;
  bool local = false;  // on the tile that wants it
};

// All that a rectangle meets.
struct RectSources {
  std::vector<CopySource> list;
  bool complete = false;  // with what copies need
};

struct DistributedValue {
  DType dtype = DType::f32;
  int64_t rows = 1, columns = 1;
  std::vector<Shard> shards;
  // A constant has no shards until one is needed. Its shape is [steps…, value's shape].
  std::shared_ptr<const Tensor> constant;
  std::vector<ConstantStep> steps;
  ShardIndex index;
  std::vector<ShardFormat> formats;  // by shard, as soon as a copy reads one

  // Stays where it is until the next one is asked for.
  RectSources& sources_of(const Rect& rect);

 private:
  struct RectHash {
    size_t operator()(const Rect& rect) const;
  };
  // Of rectangles that meet several shards: many tiles want the same.
  boost::unordered_flat_map<Rect, RectSources, RectHash> sources_;
  size_t source_count_ = 0, sourced_shards_ = SIZE_MAX;  // in `sources_`; shards that they were found among
  RectSources found_;                                    // last, if it is one alone
};
using DistributedValueRef = std::shared_ptr<DistributedValue>;

template <typename Function>
void ShardIndex::find(std::span<const Shard> shards, const Rect& rect, Function&& function) {
  if (is_empty(rect)) return;
  if (indexed_ != shards.size()) build(shards);
  if (linear_) {
    for (uint32_t i = 0; i < shards.size(); ++i)
      if (!is_empty(intersection(shards[i].rect, rect))) function(i);
    return;
  }
  const auto last_band = static_cast<std::ptrdiff_t>(first_.size()) - 1;
  std::ptrdiff_t band = std::max<std::ptrdiff_t>(std::ranges::upper_bound(rows_, rect.row) - rows_.begin() - 1, 0);
  for (bool first = true; band < last_band && rows_[static_cast<size_t>(band)] < rect.row + rect.rows;
       ++band, first = false) {
    const std::span<const uint32_t> members = std::span(members_).subspan(
        first_[static_cast<size_t>(band)], first_[static_cast<size_t>(band) + 1] - first_[static_cast<size_t>(band)]);
    auto member = std::ranges::upper_bound(members, rect.column, {},
                                           [&](uint32_t i) { return shards[i].rect.column + shards[i].rect.columns; });
    for (; member != members.end() && shards[*member].rect.column < rect.column + rect.columns; ++member) {
      // What reaches into several bands is found in the first of them.
      if (first || shards[*member].rect.row == rows_[static_cast<size_t>(band)]) function(*member);
    }
  }
}

// The parts that a plan gives an operation's result, in tile order.
std::vector<Part> split_parts(const Shape& shape, const SplitPlan& plan);
std::vector<Part> matmul_parts(const Shape& result, const MatmulPlan& plan);
std::vector<Part> attention_parts(const AttentionExtents& extents, const AttentionPlan& plan);

}  // namespace low
