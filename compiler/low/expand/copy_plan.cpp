#include "compiler/low/expand/copy_plan.h"

#include <algorithm>

namespace low {

size_t MatrixGeometries::Hash::operator()(const Key& key) const {
  WordHash hash;
  for (const int64_t word : {key.rows, key.columns, key.row_stride, key.column_stride})
    hash.add(static_cast<uint64_t>(word));
  return static_cast<size_t>(hash.result());
}

GeometryId MatrixGeometries::operator()(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  const Key key{rows, columns, rows == 1 ? 0 : row_stride, columns == 1 ? 0 : column_stride};
  if (key == last_ && last_id_.valid()) return last_id_;
  const auto [position, inserted] = ids_.try_emplace(key);
  if (inserted)
    position->second =
        interners_.geometries.intern({.extents = {rows, columns}, .strides = {key.row_stride, key.column_stride}});
  last_ = key;
  last_id_ = position->second;
  return last_id_;
}

CopyPlan plan_copy(const CopyDestination& destination, std::span<const CopySource> sources,
                   MatrixGeometries& geometries) {
  CopyPlan plan;
  plan.pieces.reserve(sources.size());
  for (const CopySource& source : sources) {
    const Rect& piece = source.piece;
    plan.pieces.push_back(
        {.destination_offset = piece.row * destination.row_stride + piece.column * destination.column_stride,
         .source = geometries(piece.rows, piece.columns, source.row_stride, source.column_stride),
         .destination = geometries(piece.rows, piece.columns, destination.row_stride, destination.column_stride),
         .local = source.local});
  }
  return plan;
}

bool copy_plan_words(const CopyDestination& destination, std::span<const CopySource> sources,
                     std::vector<uint64_t>& words) {
  if (sources.size() > max_cached_sources) return false;
  words.clear();
  words.reserve(1 + 3 * sources.size());
  words.push_back(packed_words(destination.type.index, destination.geometry.index));
  const auto fits = [](int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; };
  for (const CopySource& source : sources) {
    const Rect& piece = source.piece;
    if (!fits(piece.row) || !fits(piece.column) || !fits(piece.rows) || !fits(piece.columns)) return false;
    if (source.type.index > INT32_MAX) return false;
    words.push_back(packed_words(source.type.index << 1 | (source.local ? 1U : 0U), source.geometry.index));
    words.push_back(packed_words(static_cast<uint32_t>(piece.row), static_cast<uint32_t>(piece.column)));
    words.push_back(packed_words(static_cast<uint32_t>(piece.rows), static_cast<uint32_t>(piece.columns)));
  }
  return true;
}

RelativeCopy plan_relative_copy(const CopyDescriptorKey& key, Interners& interners) {
  const Geometry& from = interners.geometries[key.source];
  const Geometry& to = interners.geometries[key.destination];
  const DType source = interners.types[key.source_type].dtype,
              destination = interners.types[key.destination_type].dtype;
  const CopyLoops loops = copy_loops(source, destination, from.extents, from.strides, to.strides);
  const auto collapsed = [&](size_t side) {
    Geometry box{.extents = loops.box.extents, .strides = loops.box.strides[side]};
    for (int axis = 0; axis < box.extents.rank(); ++axis)
      if (box.extents[axis] == 1) box.strides[axis] = 0;
    return interners.geometries.intern(box);
  };
  return {.descriptor = interners.descriptors.intern(loops.descriptor),
          .source = collapsed(0),
          .destination = collapsed(1)};
}

RelativeCopy relative_copy(const CopyDescriptorKey& key, ExpansionCaches& caches) {
  if (!caches.copy_descriptors.enabled()) return plan_relative_copy(key, *caches.interners);
  return *caches.copy_descriptors.get(key, [&] { return plan_relative_copy(key, *caches.interners); });
}

void add_copy(TileGraphBuilder& builder, ExpansionCaches& caches, const View& source, const View& destination,
              TileId tile) {
  const RelativeCopy copy = relative_copy({.source_type = builder.type_id_of(source.allocation),
                                           .destination_type = builder.type_id_of(destination.allocation),
                                           .source = source.geometry,
                                           .destination = destination.geometry,
                                           .same_buffer = source.allocation == destination.allocation},
                                          caches);
  View from = source, to = destination;
  from.geometry = copy.source;
  to.geometry = copy.destination;
  builder.copy(copy.descriptor, from, to, tile);
}

}  // namespace low
