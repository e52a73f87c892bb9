// Supersteps, allocations and transfers of a TileExpander.

#include <algorithm>
#include <cstring>

#include "compiler/low/expand/tile_expander.h"
#include "compiler/search/tile_space.h"

namespace low {

void TileExpander::begin_superstep() {
  builder_.begin_superstep();
  pulled_.clear();
  exchange_of_.clear();
  exchanges_.clear();
}

void TileExpander::end_superstep() {
  for (const PendingExchange& exchange : exchanges_) builder_.exchange(exchange.source, exchange.destinations);
  builder_.end_superstep();
}

View TileExpander::view(const Placed& place, int64_t offset, const Shape& extents, const Strides& strides) {
  Geometry geometry{.extents = extents, .strides = strides, .valid = extents};
  for (int axis = 0; axis < extents.rank(); ++axis)
    if (extents[axis] == 1) geometry.strides[axis] = 0;
  return {.allocation = place.allocation,
          .geometry = builder_.geometry(geometry),
          .offset = offset,
          .terms = builder_.terms(place.terms)};
}

Placed TileExpander::new_local(DType dtype, int64_t rows, int64_t columns, TileId tile) {
  const TensorType type{
      .dtype = dtype, .extents = {rows, columns}, .padded = {rows, columns}, .order = {0, 1}, .padding = {}};
  const AllocationId id = builder_.allocation(
      {.type = builder_.type(type), .home = tile, .role = Role::intermediate, .binding = 0, .alias = {}});
  return {.allocation = id, .layout = row_major({rows, columns}), .terms = {}};
}

// One allocation for each part, of `copies` matrices one after another; the places are those of the first.
TileExpander::Places TileExpander::new_places(DType dtype, const std::vector<Part>& parts, int64_t copies) {
  Places places;
  for (const Part& part : parts) {
    const Placed place = new_local(dtype, copies * part.rect.rows, part.rect.columns, part.tile);
    places.push_back({part.rect, part.tile, place});
  }
  return places;
}

// A parameter of the tile that holds the rectangle, for all steps of the enclosing Repeats.
Placed TileExpander::constant_rect(const TileValue& value, const Rect& rect, TileId tile) {
  const ConstantKey key{value.constant.get(), rect};
  int64_t steps = 1;
  for (const ConstantStep& step : value.steps) steps *= step.count;
  const Shape shape{steps * rect.rows, rect.columns};
  auto slice = constant_slices_.find(key);
  if (slice == constant_slices_.end()) {
    auto tensor = std::make_shared<Tensor>(value.dtype, shape);
    const size_t size = byte_size(value.dtype);
    const std::byte* from = value.constant->bytes().data();
    std::byte* to = tensor->bytes().data();
    const auto row_bytes = static_cast<size_t>(rect.columns) * size;
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t row = 0; row < rect.rows; ++row, to += row_bytes)
        std::memcpy(
            to, from + static_cast<size_t>((step * value.rows + rect.row + row) * value.columns + rect.column) * size,
            row_bytes);
    slice = constant_slices_.emplace(key, builder_.constant(std::move(tensor))).first;
  }
  auto [place, inserted] = constant_places_.try_emplace({key, tile});
  if (inserted) {
    const TensorType type{.dtype = value.dtype, .extents = shape, .padded = shape, .order = {0, 1}, .padding = {}};
    place->second = builder_.allocation(
        {.type = builder_.type(type), .home = tile, .role = Role::parameter, .binding = slice->second, .alias = {}});
  }
  Placed result{.allocation = place->second, .layout = row_major({rect.rows, rect.columns}), .terms = {}};
  int64_t stride = rect.rows * rect.columns;
  for (size_t i = value.steps.size(); i-- > 0;) {
    if (value.steps[i].count > 1)
      result.terms.push_back(
          {.level = value.steps[i].level, .period = static_cast<uint32_t>(value.steps[i].count), .stride = stride});
    stride *= value.steps[i].count;
  }
  return result;
}

void TileExpander::shard_constant(TileValue& value, const std::vector<Part>& parts) {
  for (const Part& part : parts)
    value.shards.push_back({part.rect, part.tile, constant_rect(value, part.rect, part.tile)});
}

// A box of equal extents at both ends: a local copy, or (a part of) an exchange.
void TileExpander::transfer(const View& source, TileId source_tile, const View& destination, TileId tile, DType dtype) {
  if (source_tile == tile && tile.valid()) {
    const Geometry& from = builder_.geometry_of(source);
    const Geometry& to = builder_.geometry_of(destination);
    const CopyLoops loops = copy_loops(dtype, dtype, from.extents, from.strides, to.strides);
    Geometry collapsed{.extents = loops.box.extents, .strides = loops.box.strides[0], .valid = loops.box.extents};
    View from_box = source, to_box = destination;
    from_box.geometry = builder_.geometry(collapsed);
    collapsed.strides = loops.box.strides[1];
    to_box.geometry = builder_.geometry(collapsed);
    builder_.copy(builder_.descriptor(loops.descriptor), from_box, to_box, tile);
    return;
  }
  const SourceKey key{source.allocation, source.geometry, source.offset};
  const auto [position, inserted] = exchange_of_.try_emplace(key, exchanges_.size());
  if (inserted) exchanges_.push_back({source, {}});
  exchanges_[position->second].destinations.push_back(destination);
}

// The part of `rect` that the shard has, to its place within `destination` (over rect).
void TileExpander::move(const Shard& from, const Rect& rect, TileId tile, const Placed& destination) {
  const Rect piece = intersection(from.rect, rect);
  const Layout& source = from.place.layout;
  const Layout& target = destination.layout;
  const View source_view = view(from.place,
                                source.offset + (piece.row - from.rect.row) * source.strides[0] +
                                    (piece.column - from.rect.column) * source.strides[1],
                                {piece.rows, piece.columns}, source.strides);
  const View target_view = view(
      destination,
      target.offset + (piece.row - rect.row) * target.strides[0] + (piece.column - rect.column) * target.strides[1],
      {piece.rows, piece.columns}, target.strides);
  transfer(source_view, from.tile, target_view, tile, builder_.type_of(destination.allocation).dtype);
}

void TileExpander::pull_into(const TileValueRef& value, const Rect& rect, TileId tile, const Placed& destination) {
  if (is_empty(rect)) return;
  if (value->constant && value->shards.empty()) {
    // To host memory a constant goes by way of a tile.
    const TileId holder = tile.valid() ? tile : TileId(0);
    move({rect, holder, constant_rect(*value, rect, holder)}, rect, tile, destination);
    return;
  }
  for (const Shard& shard : value->shards)
    if (!is_empty(intersection(shard.rect, rect))) move(shard, rect, tile, destination);
}

Placed TileExpander::pull(const TileValueRef& value, const Rect& rect, TileId tile) {
  if (value->constant && (value->shards.empty() || rect.rows * rect.columns <= max_replicated_elements))
    return constant_rect(*value, rect, tile);
  const PullKey key{value.get(), rect, tile};
  if (const auto found = pulled_.find(key); found != pulled_.end()) return found->second;
  Placed result;
  bool direct = false;
  for (const Shard& shard : value->shards) {
    if (shard.tile != tile || !contains(shard.rect, rect)) continue;
    result = shard.place;
    result.layout.offset += (rect.row - shard.rect.row) * result.layout.strides[0] +
                            (rect.column - shard.rect.column) * result.layout.strides[1];
    direct = true;
    break;
  }
  if (!direct) {
    result = new_local(value->dtype, rect.rows, rect.columns, tile);
    pull_into(value, rect, tile, result);
  }
  pulled_.emplace(key, result);
  return result;
}

Placed TileExpander::pull_broadcast(const TileValueRef& value, const Shape& shape, const Shape& result,
                                    const Rect& rect, TileId tile) {
  const MatrixShape full = matrix_shape(result);
  const bool all_columns = value->columns == full.columns;
  const int64_t column = all_columns ? rect.column : 0, columns = all_columns ? rect.columns : 1;
  // Rows: as the result's, the same for all, or a repeating pattern of axes.
  Placed place;
  if (value->rows == full.rows) {
    place = pull(value, {rect.row, column, rect.rows, columns}, tile);
  } else if (value->rows == 1) {
    place = pull(value, {0, column, 1, columns}, tile);
    place.layout.strides[0] = 0;
  } else {
    Shape leading, operand;
    for (int axis = 0; axis + 1 < result.rank(); ++axis) leading.append(result[axis]);
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) operand.append(shape[axis]);
    const Strides strides = expanded(row_major(operand), operand, leading).strides;
    place = new_local(value->dtype, rect.rows, columns, tile);
    for (int64_t i = 0; i < rect.rows; ++i) {
      int64_t row = 0, rest = rect.row + i;
      for (int axis = leading.rank() - 1; axis >= 0; --axis) {
        row += rest % leading[axis] * strides[axis];
        rest /= leading[axis];
      }
      Placed line = place;
      line.layout.offset += i * place.layout.strides[0];
      pull_into(value, {row, column, 1, columns}, tile, line);
    }
  }
  if (!all_columns || columns == 1) place.layout.strides[1] = 0;
  if (rect.rows == 1) place.layout.strides[0] = 0;
  return place;
}

}  // namespace low
