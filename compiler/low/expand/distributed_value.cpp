#include "compiler/low/expand/distributed_value.h"

#include <algorithm>

#include "compiler/base/hash.h"

namespace low {

Rect intersection(const Rect& a, const Rect& b) {
  Rect common;
  common.row = std::max(a.row, b.row);
  common.column = std::max(a.column, b.column);
  common.rows = std::min(a.row + a.rows, b.row + b.rows) - common.row;
  common.columns = std::min(a.column + a.columns, b.column + b.columns) - common.column;
  return common;
}

size_t DistributedValue::RectHash::operator()(const Rect& rect) const {
  WordHash hash;
  for (const int64_t word : {rect.row, rect.column, rect.rows, rect.columns}) hash.add(static_cast<uint64_t>(word));
  return hash.result();
}

RectSources& DistributedValue::sources_of(const Rect& rect) {
  constexpr size_t most_sources = 65536;  // 6 MB
  if (source_count_ > most_sources || sourced_shards_ != shards.size()) {
    sources_.clear();
    source_count_ = 0;
    sourced_shards_ = shards.size();
  }
  if (const auto known = sources_.find(rect); known != sources_.end()) return known->second;
  found_.list.clear();
  found_.complete = false;
  index.find(shards, rect, [&](uint32_t shard) {
    found_.list.push_back({.shard = shard, .tile = shards[shard].tile, .type = {}, .geometry = {}, .piece = {}});
  });
  if (found_.list.size() <= 1) return found_;
  source_count_ += found_.list.size();
  return sources_.emplace(rect, found_).first->second;
}

void ShardIndex::build(std::span<const Shard> shards) {
  indexed_ = shards.size();
  rows_.clear();
  first_.clear();
  members_.clear();
  std::vector<uint32_t> filled;  // shards with elements
  for (uint32_t i = 0; i < shards.size(); ++i) {
    const Rect& rect = shards[i].rect;
    if (is_empty(rect)) continue;
    filled.push_back(i);
    rows_.push_back(rect.row);
    rows_.push_back(rect.row + rect.rows);
  }
  std::ranges::sort(rows_);
  const auto repeated = std::ranges::unique(rows_);
  rows_.erase(repeated.begin(), repeated.end());
  const auto band_of = [this](int64_t row) {
    return static_cast<size_t>(std::ranges::lower_bound(rows_, row) - rows_.begin());
  };
  const size_t bands = rows_.empty() ? 0 : rows_.size() - 1;
  std::vector<uint32_t> counts(bands);
  size_t entries = 0;
  for (const uint32_t i : filled) {
    const size_t begin = band_of(shards[i].rect.row), end = band_of(shards[i].rect.row + shards[i].rect.rows);
    entries += end - begin;
    if (entries > 8 * filled.size() + 64) {
      linear_ = true;
      return;
    }
    for (size_t band = begin; band < end; ++band) ++counts[band];
  }
  linear_ = false;
  first_.assign(bands + 1, 0);
  for (size_t band = 0; band < bands; ++band) first_[band + 1] = first_[band] + counts[band];
  members_.resize(entries);
  std::vector<uint32_t> next(first_.begin(), first_.end());
  // By column within each band.
  std::ranges::sort(filled, {}, [&](uint32_t i) { return std::pair(shards[i].rect.column, i); });
  for (const uint32_t i : filled) {
    const size_t begin = band_of(shards[i].rect.row), end = band_of(shards[i].rect.row + shards[i].rect.rows);
    for (size_t band = begin; band < end; ++band) members_[next[band]++] = i;
  }
}

std::vector<Part> split_parts(const Shape& shape, const SplitPlan& plan) {
  const MatrixExtents matrix = matrix_extents(shape);
  const bool by_columns = shape.rank() <= 1 || plan.axis + 1 == static_cast<uint32_t>(shape.rank());
  std::vector<Part> parts;
  for (uint32_t part = 0; part < plan.parts; ++part) {
    const Range range = part_range(by_columns ? matrix.columns : matrix.rows, plan.parts, part);
    const Rect rect = by_columns ? Rect{0, range.begin, matrix.rows, range.size()}
                                 : Rect{range.begin, 0, range.size(), matrix.columns};
    if (!is_empty(rect)) parts.push_back({rect, TileId(part)});
  }
  return parts;
}

std::vector<Part> matmul_parts(const Shape& result, const MatmulPlan& plan) {
  const int rank = result.rank();
  const int64_t m = result[rank - 2], n = result[rank - 1];
  int64_t batches = 1;
  for (int axis = 0; axis < rank - 2; ++axis) batches *= result[axis];
  std::vector<Part> parts;
  if (result.elements() == 0) return parts;  // however many batches of nothing
  for (uint32_t gb = 0; gb < plan.grid_batch; ++gb) {
    const Range batch_range = part_range(batches, plan.grid_batch, gb);
    for (uint32_t gm = 0; gm < plan.grid_m; ++gm) {
      const Range rows = part_range(m, plan.grid_m, gm);
      for (uint32_t gn = 0; gn < plan.grid_n; ++gn) {
        const Range columns = part_range(n, plan.grid_n, gn);
        for (uint32_t p = 0; p < plan.grid_k; ++p) {
          // With partial sums, every tile of a part finishes its share of rows.
          const Range share = part_range(rows.size(), plan.grid_k, p);
          const TileId tile(((gb * plan.grid_m + gm) * plan.grid_n + gn) * plan.grid_k + p);
          for (int64_t batch = batch_range.begin; batch < batch_range.end; ++batch) {
            const Rect rect{batch * m + rows.begin + share.begin, columns.begin, share.size(), columns.size()};
            if (!is_empty(rect)) parts.push_back({rect, tile});
          }
        }
      }
    }
  }
  return parts;
}

std::vector<Part> attention_parts(const AttentionExtents& extents, const AttentionPlan& plan) {
  std::vector<Part> parts;
  if (extents.m == 0 || extents.q_heads == 0 || extents.dv == 0) return parts;
  for (uint32_t gb = 0; gb < plan.grid_batch; ++gb) {
    const Range batches = part_range(extents.batch, plan.grid_batch, gb);
    for (uint32_t gm = 0; gm < plan.grid_m; ++gm) {
      const Range rows = part_range(extents.m, plan.grid_m, gm);
      for (uint32_t gh = 0; gh < plan.grid_heads; ++gh) {
        const Range heads = part_range(extents.q_heads, plan.grid_heads, gh);
        const TileId tile((gb * plan.grid_m + gm) * plan.grid_heads + gh);
        for (int64_t batch = batches.begin; batch < batches.end; ++batch) {
          const Rect rect{batch * extents.m + rows.begin, heads.begin * extents.dv, rows.size(),
                          heads.size() * extents.dv};
          if (!is_empty(rect)) parts.push_back({rect, tile});
        }
      }
    }
  }
  return parts;
}

}  // namespace low
