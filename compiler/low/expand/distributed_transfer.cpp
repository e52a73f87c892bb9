// Supersteps, allocations and transfers of a DistributedExpander.

#include <algorithm>

#include "compiler/low/expand/distributed_expander.h"
#include "compiler/search/distributed_space.h"

namespace low {

size_t DistributedExpander::KeyHash::operator()(const PullKey& key) const {
  WordHash hash;
  hash.add(reinterpret_cast<uintptr_t>(key.value)).add(key.tile.index);
  for (const int64_t word : {key.rect.row, key.rect.column, key.rect.rows, key.rect.columns})
    hash.add(static_cast<uint64_t>(word));
  return hash.result();
}
size_t DistributedExpander::KeyHash::operator()(const SourceKey& key) const {
  return WordHash()
      .add(packed_words(key.allocation.index, key.geometry.index))
      .add(static_cast<uint64_t>(key.offset))
      .result();
}
size_t DistributedExpander::KeyHash::operator()(const ConstantKey& key) const {
  WordHash hash;
  hash.add(reinterpret_cast<uintptr_t>(key.constant))
      .add(packed_words(static_cast<uint32_t>(key.steps), key.tile.index));
  for (const int64_t word : {key.rect.row, key.rect.column, key.rect.rows, key.rect.columns})
    hash.add(static_cast<uint64_t>(word));
  return hash.result();
}
size_t DistributedExpander::KeyHash::operator()(const LocalType& key) const {
  return WordHash()
      .add(static_cast<uint64_t>(key.dtype))
      .add(static_cast<uint64_t>(key.rows))
      .add(static_cast<uint64_t>(key.columns))
      .result();
}

Result<void> DistributedExpander::begin_superstep() {
  LOW_TRY_VOID(budget_.take_superstep());
  builder_.begin_superstep();
  pulled_.clear();
  exchange_of_.clear();
  exchange_sources_.clear();
  recipients_.clear();
  return {};
}

void DistributedExpander::end_superstep() {
  // Recipients by exchange, each exchange's in the order they came.
  std::vector<uint32_t> next(exchange_sources_.size() + 1);
  for (const Recipient& recipient : recipients_) ++next[recipient.exchange + 1];
  for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  const uint32_t first_view = builder_.view_count();
  for (size_t i = 0; i < exchange_sources_.size(); ++i)
    builder_.exchange(exchange_sources_[i], Span32{first_view + next[i], next[i + 1] - next[i]});
  recipient_order_.resize(recipients_.size());
  for (uint32_t i = 0; i < recipients_.size(); ++i) recipient_order_[next[recipients_[i].exchange]++] = i;
  for (const uint32_t i : recipient_order_) builder_.add_view(recipients_[i].view);
  builder_.end_superstep();
  ++superstep_;
}

size_t DistributedExpander::FormHash::operator()(const FormKey& key) const {
  WordHash hash;
  for (const int64_t word : key) hash.add(static_cast<uint64_t>(word));
  return hash.result();
}

void DistributedExpander::add_run(const RunForm& form, std::span<const Placed> places, TileId tile) {
  views_.clear();
  for (size_t i = 0; i < places.size(); ++i)
    views_.push_back({.allocation = places[i].allocation,
                      .geometry = form.geometries[i],
                      .offset = places[i].layout.offset,
                      .terms = builder_.terms(places[i].terms)});
  builder_.run(form.contract, tile, views_);
}

GeometryId DistributedExpander::geometry(const Shape& extents, const Strides& strides) {
  if (extents.rank() == 2) return geometries_(extents[0], extents[1], strides[0], strides[1]);
  Geometry geometry{.extents = extents, .strides = strides};
  for (int axis = 0; axis < extents.rank(); ++axis)
    if (extents[axis] == 1) geometry.strides[axis] = 0;
  return builder_.geometry(geometry);
}

View DistributedExpander::view(const Placed& place, int64_t offset, const Shape& extents, const Strides& strides) {
  return {.allocation = place.allocation,
          .geometry = geometry(extents, strides),
          .offset = offset,
          .terms = builder_.terms(place.terms)};
}

TypeId DistributedExpander::local_type(DType dtype, int64_t rows, int64_t columns) {
  const auto [position, inserted] = local_types_.try_emplace({dtype, rows, columns});
  if (inserted) position->second = builder_.type({.dtype = dtype, .extents = {rows, columns}});
  return position->second;
}

Placed DistributedExpander::new_local(DType dtype, int64_t rows, int64_t columns, TileId tile) {
  const AllocationId id = builder_.allocation(
      {.type = local_type(dtype, rows, columns), .home = tile, .role = Role::intermediate, .binding = 0});
  return {.allocation = id, .layout = row_major({rows, columns}), .terms = {}};
}

// One allocation for each part, of `copies` matrices one after another; the places are those of the first.
Result<DistributedExpander::Places> DistributedExpander::new_places(DType dtype, const std::vector<Part>& parts,
                                                                    int64_t copies) {
  LOW_TRY_VOID(budget_.take(2.0 * static_cast<double>(parts.size())));
  Places places;
  for (const Part& part : parts) {
    const Placed place = new_local(dtype, copies * part.rect.rows, part.rect.columns, part.tile);
    places.push_back({part.rect, part.tile, place});
  }
  return places;
}

// A parameter of the tile that holds the rectangle, for all steps of the enclosing Repeats.
Placed DistributedExpander::constant_rect(const DistributedValue& value, const Rect& rect, TileId tile) {
  auto [place, missing] = constant_places_.try_emplace({value.constant.get(), value.steps.size(), rect, tile});
  if (missing) {
    int64_t steps = 1;
    for (const ConstantStep& step : value.steps) steps *= step.count;
    const auto [slice, inserted] =
        constant_slices_.try_emplace({value.constant.get(), value.steps.size(), rect, TileId()});
    if (inserted)
      slice->second = builder_.constant({.source = value.constant,
                                         .shape = {steps * rect.rows, rect.columns},
                                         .extents = {steps, rect.rows, rect.columns},
                                         .strides = {value.rows * value.columns, value.columns, 1},
                                         .offset = rect.row * value.columns + rect.column});
    place->second = builder_.allocation({.type = local_type(value.dtype, steps * rect.rows, rect.columns),
                                         .home = tile,
                                         .role = Role::parameter,
                                         .binding = slice->second});
  }
  Placed result{.allocation = place->second, .layout = row_major({rect.rows, rect.columns}), .terms = {}};
  int64_t stride = rect.rows * rect.columns;
  for (size_t i = value.steps.size(); i-- > 0;) {
    result.terms.push_back(
        {.level = value.steps[i].level, .period = static_cast<uint32_t>(value.steps[i].count), .stride = stride});
    stride *= value.steps[i].count;
  }
  return result;
}

Result<void> DistributedExpander::shard_constant(DistributedValue& value, const std::vector<Part>& parts) {
  LOW_TRY_VOID(budget_.take(2.0 * static_cast<double>(parts.size())));
  for (const Part& part : parts)
    value.shards.push_back({part.rect, part.tile, constant_rect(value, part.rect, part.tile)});
  return {};
}

uint32_t DistributedExpander::exchange_of(const View& source) {
  const auto next = static_cast<uint32_t>(exchange_sources_.size());
  const auto [position, inserted] = exchange_of_.try_emplace({source.allocation, source.geometry, source.offset}, next);
  // Values that step through one constant with different Repeats share its allocations: only their terms differ.
  if (!inserted &&
      !std::ranges::equal(builder_.terms_of(exchange_sources_[position->second]), builder_.terms_of(source)))
    position->second = next;
  if (position->second == next) exchange_sources_.push_back(source);
  return position->second;
}

// A box of equal extents at both ends: a local copy, or (a part of) an exchange.
void DistributedExpander::transfer(const View& source, TileId source_tile, const View& destination, TileId tile) {
  if (source_tile != tile || !tile.valid()) {
    recipients_.push_back({exchange_of(source), destination});
    return;
  }
  add_copy(builder_, caches_, source, destination, tile);
}

void DistributedExpander::emit(std::span<const CopyPiece> pieces, DistributedValue& value,
                               std::span<const CopySource> sources, TileId tile, const Placed& destination) {
  const Span32 destination_terms = builder_.terms(destination.terms);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const CopyPiece& piece = pieces[i];
    const int64_t offset = sources[i].offset;
    ShardFormat& format = value.formats[sources[i].shard];
    // Neighbouring tiles often want the same of a shard.
    const bool known =
        !piece.local && format.superstep == superstep_ && format.exchanged == piece.source && format.offset == offset;
    if (!known) {
      const Placed& place = value.shards[sources[i].shard].place;
      const View from{.allocation = place.allocation,
                      .geometry = piece.source,
                      .offset = offset,
                      .terms = builder_.terms(place.terms)};
      if (piece.local) {
        transfer(from, tile,
                 {.allocation = destination.allocation,
                  .geometry = piece.destination,
                  .offset = destination.layout.offset + piece.destination_offset,
                  .terms = destination_terms},
                 tile);
        continue;
      }
      format.superstep = superstep_;
      format.exchanged = piece.source;
      format.offset = offset;
      format.exchange = exchange_of(from);
    }
    // Written where it belongs, field by field: there are very many.
    Recipient& recipient = recipients_.emplace_back();
    recipient.exchange = format.exchange;
    recipient.view.allocation = destination.allocation;
    recipient.view.geometry = piece.destination;
    recipient.view.offset = destination.layout.offset + piece.destination_offset;
    recipient.view.terms = destination_terms;
  }
}

void DistributedExpander::assemble(DistributedValue& value, RectSources& known, const Rect& rect, TileId tile,
                                   const Placed& destination) {
  if (value.formats.size() != value.shards.size()) {
    value.formats.clear();
    for (const Shard& shard : value.shards)
      value.formats.push_back({.type = builder_.type_id_of(shard.place.allocation),
                               .geometry = geometries_(shard.rect.rows, shard.rect.columns,
                                                       shard.place.layout.strides[0], shard.place.layout.strides[1])});
  }
  if (!known.complete) {
    int64_t covered = 0;
    for (CopySource& source : known.list) {
      const Shard& shard = value.shards[source.shard];
      const Layout& layout = shard.place.layout;
      const Rect piece = intersection(shard.rect, rect);
      covered += piece.rows * piece.columns;
      source.type = value.formats[source.shard].type;
      source.geometry = value.formats[source.shard].geometry;
      source.piece = {piece.row - rect.row, piece.column - rect.column, piece.rows, piece.columns};
      source.offset = layout.offset + (piece.row - shard.rect.row) * layout.strides[0] +
                      (piece.column - shard.rect.column) * layout.strides[1];
      source.row_stride = layout.strides[0];
      source.column_stride = layout.strides[1];
    }
    LOW_CHECK(covered == rect.rows * rect.columns);  // shards are disjoint, and together the whole value
    known.complete = true;
  }
  for (CopySource& source : known.list) source.local = tile.valid() && source.tile == tile;
  const Layout& layout = destination.layout;
  const CopyDestination to{.type = builder_.type_id_of(destination.allocation),
                           .geometry = geometries_(rect.rows, rect.columns, layout.strides[0], layout.strides[1]),
                           .rows = rect.rows,
                           .columns = rect.columns,
                           .row_stride = layout.strides[0],
                           .column_stride = layout.strides[1]};
  const std::span<const CopySource> sources = known.list;
  if (sources.size() == 1) {
    // All of it from one shard: there is nothing to plan, and a lookup would cost more.
    const CopyPiece whole{
        .destination_offset = 0,
        .source = geometries_(rect.rows, rect.columns, sources[0].row_stride, sources[0].column_stride),
        .destination = to.geometry,
        .local = sources[0].local};
    emit({&whole, 1}, value, sources, tile, destination);
  } else if (caches_.copy_plans.enabled() && copy_plan_words(to, sources, key_words_)) {
    const auto plan = caches_.copy_plans.get({key_words_}, [&] { return plan_copy(to, sources, geometries_); });
    emit(plan->pieces, value, sources, tile, destination);
  } else {
    emit(plan_copy(to, sources, geometries_).pieces, value, sources, tile, destination);
  }
}

Result<void> DistributedExpander::pull_into(const DistributedValueRef& value, const Rect& rect, TileId tile,
                                            const Placed& destination) {
  if (is_empty(rect)) return {};
  if (value->constant && value->shards.empty()) {
    LOW_TRY_VOID(budget_.take(3));
    // To host memory a constant goes by way of a tile.
    const TileId holder = tile.valid() ? tile : TileId(0);
    const Placed source = constant_rect(*value, rect, holder);
    transfer(view(source, source.layout.offset, {rect.rows, rect.columns}, source.layout.strides), holder,
             view(destination, destination.layout.offset, {rect.rows, rect.columns}, destination.layout.strides), tile);
    return {};
  }
  RectSources& sources = value->sources_of(rect);
  LOW_TRY_VOID(budget_.take(2.0 * static_cast<double>(sources.list.size())));
  assemble(*value, sources, rect, tile, destination);
  return {};
}

Result<Placed> DistributedExpander::pull(const DistributedValueRef& value, const Rect& rect, TileId tile) {
  if (value->constant && (value->shards.empty() || rect.rows * rect.columns <= max_replicated_elements)) {
    LOW_TRY_VOID(budget_.take(1));
    return constant_rect(*value, rect, tile);
  }
  const auto [known, missing] = pulled_.try_emplace({value.get(), rect, tile});
  if (!missing) return known->second;
  RectSources& sources = value->sources_of(rect);
  if (sources.list.size() == 1) {
    // All of it lies on the tile: nothing is prepared.
    const Shard& shard = value->shards[sources.list[0].shard];
    if (shard.tile == tile && contains(shard.rect, rect)) {
      Placed& result = known->second;
      result = shard.place;
      result.layout.offset += (rect.row - shard.rect.row) * result.layout.strides[0] +
                              (rect.column - shard.rect.column) * result.layout.strides[1];
      return result;
    }
  }
  LOW_TRY_VOID(budget_.take(1 + 2.0 * static_cast<double>(sources.list.size())));
  Placed result = new_local(value->dtype, rect.rows, rect.columns, tile);
  known->second = result;
  if (!is_empty(rect)) assemble(*value, sources, rect, tile, result);
  return result;
}

Result<Placed> DistributedExpander::pull_broadcast(const DistributedValueRef& value, const Shape& shape,
                                                   const Shape& result, const Rect& rect, TileId tile) {
  const MatrixExtents full = matrix_extents(result);
  const bool all_columns = value->columns == full.columns;
  const int64_t column = all_columns ? rect.column : 0, columns = all_columns ? rect.columns : 1;
  // Rows: as the result's, the same for all, or a repeating pattern of axes.
  Placed place;
  if (value->rows == full.rows) {
    LOW_TRY(place, pull(value, {rect.row, column, rect.rows, columns}, tile));
  } else if (value->rows == 1) {
    LOW_TRY(place, pull(value, {0, column, 1, columns}, tile));
    place.layout.strides[0] = 0;
  } else {
    Shape leading, operand;
    for (int axis = 0; axis + 1 < result.rank(); ++axis) leading.append(result[axis]);
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) operand.append(shape[axis]);
    const Strides strides = expanded(row_major(operand), operand, leading).strides;
    LOW_TRY_VOID(budget_.expect(2.0 * static_cast<double>(rect.rows)));
    LOW_TRY_VOID(budget_.take(1));
    place = new_local(value->dtype, rect.rows, columns, tile);
    for (int64_t i = 0; i < rect.rows; ++i) {
      int64_t row = 0, rest = rect.row + i;
      for (int axis = leading.rank() - 1; axis >= 0; --axis) {
        row += rest % leading[axis] * strides[axis];
        rest /= leading[axis];
      }
      Placed line = place;
      line.layout.offset += i * place.layout.strides[0];
      LOW_TRY_VOID(pull_into(value, {row, column, 1, columns}, tile, line));
    }
  }
  if (!all_columns || columns == 1) place.layout.strides[1] = 0;
  if (rect.rows == 1) place.layout.strides[0] = 0;
  return place;
}

}  // namespace low
